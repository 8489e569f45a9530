// Timing: times repeated work on a backend by the backend's clock, and what the backend can do at most. Operands of
// timed work are made when a step first runs: compiling it makes none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nixie/core/graph/backend.h"
#include "nixie/core/state/variable.h"
#include "nixie/core/step.h"

namespace nixie {

/// Milliseconds over `runs` runs.
struct Timing {
  double mean = 0, median = 0, min = 0, max = 0;
  int runs = 0;
};

/// Throws a usage Error where there is nothing to summarise.
Timing summarize(const std::vector<double>& milliseconds);

/// Runs `work` at least three times (the first compiles, the second captures), and until `least_seconds` have passed,
/// so that clocks are up.
void warm_up(Backend& backend, const std::function<void()>& work, double least_seconds = 0.2);

/// Times several pieces of work in turn, round after round, without waiting in between. Gives one list of milliseconds
/// for each. A backend that queues its work is not slowed by the host unless a piece is shorter than its launch.
std::vector<std::vector<double>> time_in_turn(Backend& backend, const std::vector<std::function<void()>>& work,
                                              int rounds);

/// warm_up, then one piece of work timed: the usual way to one figure.
Timing time_work(Backend& backend, const std::function<void()>& work, int runs);

/// How short work is timed.
struct Filling {
  double least_ms = 1;         ///< what one measurement takes at least, so that the clock is fine enough
  int most = 100;              ///< runs that make one measurement
  double warm_seconds = 0.05;  ///< of warm_up
};

/// The same for work that may be shorter than the clock is fine: one measurement is as many runs as fill
/// `filling.least_ms`, and the result is per run.
Timing time_for(Backend& backend, const std::function<void()>& work, int runs, const Filling& filling = {});

/// TFLOP/s of a large square product in this precision, measured now; the best of a few sizes.
double measure_matmul_ceiling(Backend& backend, PrecisionPolicy precision, Dtype operands);

/// GB/s of copying a large array, bytes read and bytes written.
double measure_copy_rate(Backend& backend);

/// Calls `compile` for every index in [0, count) in parallel; the backend's cache of compiled kernels has them all
/// afterwards. Does nothing on the CPU, which compiles no kernels. A kernel that fails here fails again where it is
/// timed. A stop request ends it.
void compile_ahead(const Backend& backend, std::int64_t count, const std::function<void(std::int64_t)>& compile);

/// A Variable outside any optimizer, with the memory layout of weights and activations.
Variable operand(const std::string& name, Dtype dtype, const Shape& shape, std::function<Array()> values);
/// One whose values are a few thousand random numbers in [-1, 1) over and over: more would take longer to draw and
/// convert than to compute with.
Variable noise_operand(const std::string& name, Dtype dtype, const Shape& shape);
/// One that a step only writes: zeros.
Variable result_operand(const std::string& name, Dtype dtype, const Shape& shape);

}  // namespace nixie
