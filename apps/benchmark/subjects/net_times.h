// Times and checks the passes and the training step of a net.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/net_work.h"

namespace nixie::benchmark {

/// The largest error of a role's contractions, and its layer.
struct RoleError {
  double error = 0;  ///< max|diff| / mean|ref| of sampled elements
  double share = 0;  ///< of the error bound, at most 1
  std::string layer = {};
  int contractions = 0;
};

struct NetCheck {
  RoleError fprop = {}, input_grad = {}, filter_grad = {};
  double distance = 0;           ///< largest relative distance of a timed result from the checked one
  std::string result = {};       ///< which result that was
  int results = 0, excused = 0;  ///< results compared, and those beyond the bound that noise explains
  double distance_bound = 0;
};

/// Lowers the output gradient until all results of `total` are finite: sums over the positions of dense outputs are
/// beyond f16 otherwise. Gives up at 2^-16, where check_net names what is not finite.
void keep_finite(NetWork& work);

/// Probes the net's `total`: recomputes sampled elements of every contraction and of every bias gradient in double from
/// the backend's operands, then compares every result of the timed graphs as a whole with the probe's: those
/// of `total`, and the output of `fprop`. A 16-bit result beyond the bound passes if it is not much
/// further from the same result in f32 than a run without fusion is; an f32 result if parameters that differ by
/// 1.5e-5 move it as far. Throws Fault::non_finite naming layer, role and
/// error if rounding does not explain a difference or a value is not finite.
NetCheck check_net(NetWork& work, const PrecisionTraits& precision);

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
