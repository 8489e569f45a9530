// Variable: the only mutable value; and Parameters, the named collection of a model's or an optimiser's Variables.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/base/error.h"
#include "nixie/core/graph/tensor.h"
#include "nixie/core/state/init.h"

namespace nixie {

/// The range of a Variable's numbers, by which those of a file are checked before they are taken.
struct NumberRange {
  double least = 0, most = 0;
  bool counts_steps = false;  ///< it is never more than the steps done
};
/// The range of variances and mean squares.
inline constexpr NumberRange kNotNegative = {.most = std::numeric_limits<double>::infinity()};

/// A mutex that copies of its owner do not share.
struct OwnMutex : std::mutex {
  OwnMutex() = default;
  OwnMutex(const OwnMutex&) : std::mutex() {}
};

/// The state of a Variable, shared by its copies and by the Steps that use it. Its functions may be called by several
/// threads; they guard the storage, the leaf, the shadows and made_from.
struct VariableState {
  std::string name = {};
  Shape shape = {};
  Dtype dtype = Dtype::f32;
  bool trainable = true;
  std::function<Array()> init = {};                           ///< called when the value is first needed
  std::shared_ptr<Storage> storage = {};                      ///< null until then
  std::weak_ptr<const Node> leaf = {};                        ///< the node of reads outside a trace, while it exists
  std::vector<std::weak_ptr<const Node>> former_leaves = {};  ///< those of reads before it was set, oldest first
  std::map<Dtype, std::weak_ptr<VariableState>> shadows = {};
  std::shared_ptr<VariableState> master = {};  ///< of a shadow: the Variable that it copies
  std::uint64_t made_from = 0;                 ///< of a shadow: the master's Storage::version
  std::optional<NumberRange> range = {};       ///< of its elements, if its owner states one
  OwnMutex mutex = {};
  /// The storage, made on first use; a shadow's is updated first. Throws NoMemoryForVariable.
  std::shared_ptr<Storage> stored();
  /// The storage for a new value: another one if Tensors read the old value, which keep it.
  std::shared_ptr<Storage> stored_for_change();
  /// Another value, from the host; Tensors that read the old value keep it.
  void set(const Array& value);
  /// The node of reads outside a trace: one between two changes, so that gradients can be asked for it.
  std::shared_ptr<const Node> read_node();
  /// After a run wrote a shadow and its master: the shadow is the copy of its master's value.
  void follow_master();

 private:
  /// The next read outside a trace is another node: the value changes.
  void end_reads();
  std::shared_ptr<Storage> stored_locked();
};

/// The copy of a Variable in another type that Steps read in its place and write beside it (core/passes/precision.h).
std::shared_ptr<VariableState> shadow_of(const std::shared_ptr<VariableState>& master, Dtype dtype);

/// A named value with one verb: set. Reading it gives its value at that point: `Tensor old = v; v.set(v * 5);` leaves
/// old alone.
class Variable {
 public:
  Variable(const Variable&) = default;  // no move, so that a Variable always has its state
  Variable& operator=(const Variable&) = default;
  Variable(const std::string& name, const Array& value, bool trainable = true);
  /// Throws if there is no state.
  explicit Variable(std::shared_ptr<VariableState> state);

  operator Tensor() const;
  Tensor value() const { return *this; }
  /// The values read before it was set, in this trace or outside, newest first, as far as something still holds them.
  std::vector<Tensor> former_values() const;
  /// Inside a Step's body: the Variable's value from here on. Outside: the value must be stored (an Array, a number, a
  /// result of `evaluate`); throws for an unevaluated expression. Another type is converted, another shape refused.
  void set(const Tensor& value) const;
  /// The elements in host memory.
  Array array() const;

  const std::string& name() const { return state_->name; }
  const Shape& shape() const { return state_->shape; }
  Dtype dtype() const { return state_->dtype; }
  bool trainable() const { return state_->trainable; }
  /// The range of its elements, if its owner states one.
  const std::optional<NumberRange>& range() const { return state_->range; }
  const std::shared_ptr<VariableState>& state() const { return state_; }
  bool operator==(const Variable& other) const { return state_ == other.state_; }

 private:
  std::shared_ptr<VariableState> state_;
};

/// The fault of a Variable's name, which is also its array's in files; "" if there is none.
std::string name_fault(const std::string& name);

/// A named, ordered collection of Variables. Copies and scopes share it.
class Parameters {
 public:
  /// The seed of all initial values (with each Variable's name), and the type that stores trainable f32 Variables.
  explicit Parameters(std::uint64_t seed = 0, Dtype floating = Dtype::f32);
  Parameters(const Parameters&) = default;  // no move, so that Parameters always have a collection
  Parameters& operator=(const Parameters&) = default;

  /// A trainable parameter named `scope.name`. Throws if the name is taken.
  Variable make(const std::string& name, const Shape& shape, Init init = {}, Dtype dtype = Dtype::f32) const;
  /// A buffer: state excluded from gradients, weight decay and norms (running statistics, momentum), in f64 where
  /// parameters are and it would be f32. Its elements never leave the range, if one is given.
  Variable state(const std::string& name, const Shape& shape, Init init = {}, Dtype dtype = Dtype::f32,
                 const std::optional<NumberRange>& range = {}) const;
  /// A buffer that is one number; one of an integral type is whole.
  Variable number(const std::string& name, float initial, Dtype dtype, const NumberRange& range) const;
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

/// While it exists, reads and sets of Variables on this thread are recorded, not executed. Sets are dropped unless the
/// caller takes them, so a trace that throws changes nothing. Traces nest; an inner trace sees the outer's sets.
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
  /// If `ok`, one number, is 0, every Variable set so far in this thread's trace keeps its value from before the
  /// trace: a step that failed changes nothing.
  static void rollback_unless(const Tensor& ok);
  /// The sets, in the order of the first set of each Variable.
  const std::vector<Set>& sets() const { return sets_; }

 private:
  friend class Variable;
  Tensor read(const std::shared_ptr<VariableState>& state);
  void record(const std::shared_ptr<VariableState>& state, const Tensor& value);
  void replace(VariableState* state, const Tensor& value);
  Trace* outer_;
  std::vector<Set> sets_;
  std::map<VariableState*, Tensor> values_;
  std::map<VariableState*, std::vector<Tensor>> former_values_;  // oldest first
};

}  // namespace nixie
