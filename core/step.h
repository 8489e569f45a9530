// Step: a body that is traced, compiled to one Plan and replayed; and evaluate, the same for a single expression.
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nixie/core/base/print.h"
#include "nixie/core/graph/backend.h"
#include "nixie/core/graph/plan.h"
#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/graph/recently_used.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// Named values: the results of a body, and of a Step (stored; reading one waits for the backend).
using Outputs = std::map<std::string, Tensor>;

/// The named inputs of a body.
class Inputs {
 public:
  explicit Inputs(std::map<std::string, Tensor> values) : values_(std::move(values)) {}
  /// Throws for an unknown name and lists the known ones.
  const Tensor& operator[](const std::string& name) const;
  bool has(const std::string& name) const { return values_.count(name) != 0; }

 private:
  std::map<std::string, Tensor> values_;
};

/// The first part of the path from a graph to a plan: simplifies the graph and applies a precision.
Graph prepare(const Graph& graph, PrecisionPolicy precision);
/// The second: writes short products out as arithmetic, and convolutions in the forms that a target computes fastest,
/// and lets readers of cheap values recompute them. Leaves and numbers may be reached in another order from here on,
/// several times, or not at all.
Graph rewrite(const Graph& prepared, const Target& target, Fusion fusion = Fusion::full);
/// The third: fuses, lowers for the backend, and lays out memory. Externals, in order: the rewritten graph's leaves as
/// they are first reached from its roots (leaves_of), then the outputs, then the Variables that are set and never read;
/// numbers as in scalars_of. Variables are written in place.
Plan plan_of(const Graph& rewritten, Backend& backend, Fusion fusion = Fusion::full);
/// The second and the third.
Plan make_plan(const Graph& prepared, Backend& backend, Fusion fusion = Fusion::full);

/// A body of Tensor code that reads named inputs and may set Variables. Traced, planned and compiled once for each
/// combination of input shapes and types, then replayed. C++ numbers in the body are frozen; only Variables change.
/// The last used kMostKept combinations are kept, as each holds its plan and the memory that it runs in; another one is
/// traced, planned and compiled again when it comes back.
/// One thread at a time may use a Step, else it throws Fault::usage; Steps of several threads may read the same
/// Variables, each on a backend of its own or all on one.
class Step {
 public:
  using Body = std::function<Outputs(const Inputs&)>;
  Step(Backend& backend, Body body, PrecisionPolicy precision = default_precision(), Fusion fusion = Fusion::full);
  ~Step();
  Step(Step&&) noexcept;

  /// Runs once. Inputs are host arrays, stored Tensors, numbers, or expressions of these, which become part of the
  /// step; outputs are stored Tensors.
  Outputs operator()(const std::map<std::string, Tensor>& inputs);
  static constexpr std::size_t kMostKept = 64;
  /// Keeps this many combinations from now on, and always the one used last.
  void keep_at_most(std::size_t combinations);
  /// Forgets all combinations: frees the memory that their plans run in. Outputs and Variables keep their values.
  void clear();

  /// The prepared graph of the body for these inputs; only their shapes and types matter. Nothing is compiled. It is
  /// there until its combination is forgotten, as is the plan.
  const Graph& graph(const std::map<std::string, Tensor>& inputs);
  /// Takes memory for the values of all its Variables, which outlive it. Running it does so, too; before the plans of
  /// several steps are compiled it shows what is left for them.
  void store_variables(const std::map<std::string, Tensor>& inputs);
  /// The plan for these inputs, compiled on first use.
  const Plan& plan(const std::map<std::string, Tensor>& inputs);
  /// The algorithm of each kernel of that plan (Executable::algorithms).
  std::vector<std::string> algorithms(const std::map<std::string, Tensor>& inputs);

 private:
  struct Traced;
  struct User;
  class Given;
  static std::vector<Given> given(const std::map<std::string, Tensor>& inputs);
  Traced& traced(const std::vector<Given>& inputs);
  void compile(Traced& step);
  Traced& compiled(const std::map<std::string, Tensor>& inputs);
  void store_variables(const Traced& step);
  Backend& backend_;
  Body body_;
  PrecisionPolicy precision_;
  Fusion fusion_;
  RecentlyUsed<std::unique_ptr<Traced>> kept_;  // by the combination
  std::unique_ptr<User> user_;
};

/// Computes expressions and returns them stored. Expressions of the same structure compile once.
std::vector<Tensor> evaluate(const std::vector<Tensor>& values, Backend& backend);
Tensor evaluate(const Tensor& value, Backend& backend);
Tensor evaluate(const Tensor& value);  ///< on the default backend

/// The elements as numpy prints them. An expression is computed on the default backend; for a value that only exists
/// inside a Step, its type and shape.
std::string to_string(const Tensor& value);
std::ostream& operator<<(std::ostream& out, const Tensor& value);

}  // namespace nixie

template <>
struct fmt::formatter<nixie::Tensor> : fmt::formatter<std::string> {
  auto format(const nixie::Tensor& value, format_context& context) const {
    return fmt::formatter<std::string>::format(nixie::to_string(value), context);
  }
};
