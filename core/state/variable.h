// Variable: the only thing that changes; and Parameters, the named collection a model or an optimiser makes them in.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/base/init.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// What a Variable is made of; shared by its copies and by the Steps that use it.
struct VariableState {
  std::string name = {};
  Shape shape = {};
  Dtype dtype = Dtype::f32;
  bool trainable = true;
  std::function<Array()> init = {};       ///< run when the value is first needed
  std::shared_ptr<Storage> storage = {};  ///< null until then
  std::weak_ptr<const Node> leaf = {};    ///< the node of reads outside a trace, while it lives
  std::map<Dtype, std::weak_ptr<VariableState>> shadows = {};
  std::shared_ptr<VariableState> master = {};  ///< of a shadow: what it is a copy of
  std::uint64_t made_from = 0;                 ///< of a shadow: the master's Storage::version
  /// The storage, made on first use; of a shadow brought up to date.
  const std::shared_ptr<Storage>& stored();
};

/// The copy of a Variable in another type that Steps read in its place and write beside it (core/passes/precision.h).
std::shared_ptr<VariableState> shadow_of(const std::shared_ptr<VariableState>& master, Dtype dtype);

/// A named value with one verb: set. Reading it gives its value at that point: `Tensor old = v; v.set(v * 5);` leaves
/// old alone.
class Variable {
 public:
  Variable(const Variable&) = default;  // there is no move: a Variable is never left without its state
  Variable& operator=(const Variable&) = default;
  Variable(std::string name, const Array& value, bool trainable = true);
  explicit Variable(std::shared_ptr<VariableState> state) : state_(std::move(state)) {}

  operator Tensor() const;
  Tensor value() const { return *this; }
  /// Inside a Step's body: the Variable's value from here on. Outside: the value must be stored (an Array, a number, a
  /// result of `evaluate`); throws for an unevaluated expression. Shape and dtype must match.
  void set(const Tensor& value) const;
  /// The elements in host memory.
  Array array() const { return state_->stored()->read(); }

  const std::string& name() const { return state_->name; }
  const Shape& shape() const { return state_->shape; }
  Dtype dtype() const { return state_->dtype; }
  bool trainable() const { return state_->trainable; }
  const std::shared_ptr<VariableState>& state() const { return state_; }
  bool operator==(const Variable& other) const { return state_ == other.state_; }

 private:
  std::shared_ptr<VariableState> state_;
};

/// A named, ordered collection of Variables. Copies and scopes share it.
class Parameters {
 public:
  /// The seed that all initial values are drawn from (with each Variable's name), and the type that trainable ones made
  /// as f32 are stored in.
  explicit Parameters(std::uint64_t seed = 0, Dtype floating = Dtype::f32);

  /// A trainable parameter named `scope.name`. Throws when the name is taken.
  Variable make(const std::string& name, const Shape& shape, Init init = {}, Dtype dtype = Dtype::f32) const;
  /// A buffer: state that gradients, weight decay and norms do not see (running statistics, momentum).
  Variable state(const std::string& name, const Shape& shape, Init init = {}, Dtype dtype = Dtype::f32) const;
  /// The same collection with `name.` before every new name.
  Parameters scope(const std::string& name) const;

  const std::vector<Variable>& all() const;
  std::vector<Variable> trainable() const;
  /// The Variable of that full name, if there is one.
  std::optional<Variable> find(const std::string& name) const;
  /// Number of elements of all trainable parameters.
  std::int64_t count() const;
  std::uint64_t seed() const;
  /// `features.0.`, or "" at the top.
  const std::string& prefix() const { return prefix_; }

 private:
  struct Collection;
  Variable add(const std::string& name, const Shape& shape, Init init, Dtype dtype, bool trainable) const;
  std::shared_ptr<Collection> collection_;
  std::string prefix_;
};

/// While it lives, reads and sets of Variables on this thread are recorded instead of done. Sets are dropped unless the
/// caller takes them: a trace that throws changes nothing. Traces nest; an inner one sees the outer's sets.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  struct Set {
    std::shared_ptr<VariableState> variable;
    Tensor value;
  };
  /// Every Variable set so far in the trace of this thread keeps the value from before the trace where `ok`, one
  /// number, is 0: a step that failed changes nothing.
  static void rollback_unless(const Tensor& ok);
  /// What was set, in the order of the first set of each Variable.
  const std::vector<Set>& sets() const { return sets_; }

 private:
  friend class Variable;
  Tensor read(const std::shared_ptr<VariableState>& state);
  void record(const std::shared_ptr<VariableState>& state, const Tensor& value);
  Trace* outer_;
  std::vector<Set> sets_;
  std::map<VariableState*, Tensor> values_;
};

}  // namespace nixie
