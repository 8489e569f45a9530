// Step: a traced body that becomes one Plan and is replayed; and evaluate, the same for a single expression.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nixie/core/base/print.h"
#include "nixie/core/graph/plan.h"
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

/// The first half of the one path from code to a plan: simplified, and in the types of a precision.
Graph prepare(const Graph& graph, PrecisionPolicy precision);
/// The second half: fused, lowered for the backend, and laid out in memory. Externals, in order: the graph's leaves as
/// they are first reached from its roots (leaves_of), then the outputs, then the Variables that are set and never read.
/// Variables are written in place.
Plan make_plan(const Graph& prepared, Backend& backend, Fusion fusion = Fusion::full);

/// A body of Tensor code that reads named inputs and may set Variables. Traced, planned and compiled once for each
/// combination of input shapes and types, then replayed. The body's numbers are frozen; what changes is a Variable.
class Step {
 public:
  using Body = std::function<Outputs(const Inputs&)>;
  Step(Backend& backend, Body body, PrecisionPolicy precision = default_precision(), Fusion fusion = Fusion::full);
  ~Step();
  Step(Step&&) noexcept;

  /// Runs once. Inputs are host arrays, stored Tensors, numbers, or expressions of these, which become part of the
  /// step; outputs are stored Tensors.
  Outputs operator()(const std::map<std::string, Tensor>& inputs);
  /// What the body computes for these inputs, prepared; only their shapes and types matter. Nothing is compiled.
  const Graph& graph(const std::map<std::string, Tensor>& inputs);
  /// The plan for these inputs, compiled if it was not.
  const Plan& plan(const std::map<std::string, Tensor>& inputs);
  /// What runs each kernel of that plan (Executable::algorithms).
  std::vector<std::string> algorithms(const std::map<std::string, Tensor>& inputs);

 private:
  struct Traced;
  Traced& traced(const std::map<std::string, Tensor>& inputs);
  Traced& compiled(const std::map<std::string, Tensor>& inputs);
  Backend& backend_;
  Body body_;
  PrecisionPolicy precision_;
  Fusion fusion_;
  std::map<std::string, std::unique_ptr<Traced>> cache_;
};

/// Computes expressions and gives them back stored. The same structure compiles once.
std::vector<Tensor> evaluate(const std::vector<Tensor>& values, Backend& backend);
Tensor evaluate(const Tensor& value, Backend& backend);
Tensor evaluate(const Tensor& value);  ///< on the default backend

/// The elements as numpy prints them. An expression is computed on the default backend; a value that only exists inside
/// a Step gives its type and shape.
std::string to_string(const Tensor& value);
std::ostream& operator<<(std::ostream& out, const Tensor& value);

}  // namespace nixie
