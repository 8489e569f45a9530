// The array workloads as values: computation, inputs, and check of the result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nixie/core/step.h"

namespace nixie::benchmark {

struct ArrayWork {
  std::string name = {}, precision = "fp32";
  std::int64_t elements = 0;
  double bytes = 0, flop = 0;
  std::map<std::string, Tensor> inputs = {};  ///< expressions, evaluated before the clock starts
  std::vector<Variable> state = {};           ///< the Variables that the body sets
  Step::Body body = {};
  /// max|diff| / mean|ref| of one run's outputs (and state) against double, given the inputs in host memory.
  std::function<double(const Outputs& outputs, const std::map<std::string, Tensor>& inputs, Backend& backend)> error =
      {};
  double bound = 0;
  bool also_on_cpu = false;  ///< fast enough to be timed on the CPU beside a GPU
};

/// All workloads up to `largest` elements.
std::vector<ArrayWork> array_work(std::int64_t largest);

}  // namespace nixie::benchmark
