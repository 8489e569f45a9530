// Times and checks the passes and the training step of a net.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/check_net.h"

namespace nixie::benchmark {

/// A row of `benchmark nets`: milliseconds of fprop, bprop (total - fprop, run by run), total and training step, FLOP
/// and their rates, the check, the losses (of the first step, the lowest of the few after it, of the one after the
/// timed steps). `between`, if given, is called when the row is complete; then everything is timed once more, and the
/// row's figures are over the runs of both times. Throws Error: Fault::non_finite if a result is wrong, or training
/// does not lower the loss.
nlohmann::json time_net(Backend& backend, const Net& net, int batch, const PrecisionTraits& precision, int runs,
                        double ceiling_tflops, const std::function<void(const nlohmann::json&)>& between = {});

/// The row in nervanagpu's format.
std::string nervana_text(const nlohmann::json& row);
/// The figures that this lacks.
extern const Columns kNetColumns;

}  // namespace nixie::benchmark
