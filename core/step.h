// Step: a traced body that becomes one Plan and is replayed; and evaluate, the same for a single expression.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// Named values: what a body returns and what a Step gives back (stored; reading one waits for the backend).
using Outputs = std::map<std::string, Tensor>;

/// The named inputs of a body.
class Inputs {
 public:
  explicit Inputs(std::map<std::string, Tensor> values) : values_(std::move(values)) {}
  /// Throws with the names there are when there is none of this name.
  const Tensor& operator[](const std::string& name) const;
  bool has(const std::string& name) const { return values_.count(name) != 0; }

 private:
  std::map<std::string, Tensor> values_;
};

/// Runs the passes after `simplify` on a simplified graph and gives the plan, laid out in memory. Externals, in order:
/// the graph's leaves as they are first reached from its roots (see `leaves`), then the outputs. Variables are written
/// in place.
Plan make_plan(const Graph& graph, Backend& backend);

/// A body of Tensor code that reads named inputs and may set Variables. Traced, planned and compiled once for each
/// combination of input shapes and types, then replayed. The body's numbers are frozen; what changes is a Variable.
class Step {
 public:
  using Body = std::function<Outputs(const Inputs&)>;
  Step(Backend& backend, Body body, PrecisionPolicy precision = PrecisionPolicy::fp32);
  ~Step();
  Step(Step&&) noexcept;

  /// Runs once. Inputs are host arrays or stored Tensors; outputs are stored Tensors.
  Outputs operator()(const std::map<std::string, Tensor>& inputs);
  /// The plan for these inputs (only their shapes and types matter), traced and compiled if it was not.
  const Plan& plan(const std::map<std::string, Tensor>& inputs);

 private:
  struct Compiled;
  Compiled& compiled(const std::map<std::string, Tensor>& inputs);
  Backend& backend_;
  Body body_;
  PrecisionPolicy precision_;
  std::map<std::string, std::unique_ptr<Compiled>> cache_;
};

/// Computes expressions and gives them back stored. The same structure compiles once.
std::vector<Tensor> evaluate(const std::vector<Tensor>& values, Backend& backend);
Tensor evaluate(const Tensor& value, Backend& backend);
Tensor evaluate(const Tensor& value);  ///< on the default backend

}  // namespace nixie
