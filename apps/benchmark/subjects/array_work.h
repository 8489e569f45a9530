// The array workloads as values: computation, inputs, and what the result should be.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nixie/core/step.h"

namespace nixie::benchmark {

struct ArrayWork {
  /// The inputs in host memory, as f32.
  using Values = std::map<std::string, Array>;
  /// An element of the result, by its position.
  using Element = std::function<double(std::int64_t)>;

  std::string name = {}, precision = "fp32";
  std::int64_t elements = 0;
  double bytes = 0, flop = 0;
  std::map<std::string, Tensor> inputs = {};  ///< expressions, evaluated before the clock starts
  std::vector<Variable> state = {};           ///< the Variables that the body sets
  Step::Body body = {};                       ///< its `y`, or else the first Variable, is the result
  std::function<Element(const Values&)> expected = {};
  std::function<bool(const Outputs&)> holds = [](const Outputs&) { return true; };  ///< for its other outputs
  double bound = 0;                                                                 ///< of the error
  bool also_on_cpu = false;  ///< fast enough to be timed on the CPU beside a GPU

  /// max|diff| / mean|ref| of one run's result in sampled elements; infinite where `holds` does not.
  double error(const Outputs& outputs, const std::map<std::string, Tensor>& given, Backend& backend) const;
};

/// All workloads up to `largest` elements.
std::vector<ArrayWork> array_work(std::int64_t largest);

}  // namespace nixie::benchmark
