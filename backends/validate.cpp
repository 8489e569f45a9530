// Cuts a plan into plans of one group, and runs each on two backends.
#include "nixie/backends/validate.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/base/array.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/memory.h"

namespace nixie {
namespace {

// A slot's place in an arena.
class Part final : public Buffer {
 public:
  Part(std::shared_ptr<Buffer> arena, std::int64_t offset, std::int64_t size_bytes)
      : Buffer(size_bytes), arena_(std::move(arena)), offset_(offset) {}
  void* address() override { return static_cast<char*>(arena_->address()) + offset_; }

 private:
  std::shared_ptr<Buffer> arena_;
  std::int64_t offset_;
};

// A group as a plan whose externals are all that others see of it.
struct Piece {
  Plan plan;
  std::string name;                // its place among the groups, its members, what runs it
  std::vector<int> compared;       // slots that the group and its members write
  std::vector<int> only_members;   // slots that its members alone write, and others may read
  bool rounds_operands = false;    // of products, to tf32, which the reference does not
  bool computes_in_float = false;  // whatever the type of the result
  std::unique_ptr<Executable> device, reference;
  std::unique_ptr<Executable> magnitudes;  // made when a difference may be that of cancelled terms
};

// For each slot, how many groups touch it, as they run or in their members.
std::vector<int> uses_of(const Plan& plan, const std::vector<Group>& groups) {
  std::vector<int> uses(plan.slots.size(), 0);
  for (const Group& group : groups) {
    std::vector<bool> touched(plan.slots.size());
    const auto touch = [&](const std::vector<int>& slots) {
      for (int slot : slots) touched[at(slot)] = true;
    };
    touch(group.reads), touch(group.writes);
    for (int k : group.members) touch(slots_read(plan.kernels[at(k)])), touch(slots_written(plan.kernels[at(k)]));
    for (std::size_t s = 0; s < uses.size(); ++s) uses[s] += touched[s];
  }
  return uses;
}

Piece cut(const Plan& plan, std::size_t index, const std::vector<int>& uses) {
  const Group& group = plan.groups[index];
  Piece piece;
  piece.name = fmt::format("group {} \"{}\"", index, label_of(plan, group));
  if (group.implementation) piece.name += " by " + group.implementation->name();
  piece.plan.slots = plan.slots;
  piece.plan.scalars = plan.scalars;
  piece.plan.groups = {group};
  piece.plan.groups[0].members.clear();
  std::vector<bool> by_group(plan.slots.size()), by_members(plan.slots.size());  // written
  for (int slot : group.writes) by_group[at(slot)] = true;
  for (int k : group.members) {
    const Kernel& kernel = plan.kernels[at(k)];
    for (int slot : slots_written(kernel)) by_members[at(slot)] = true;
    piece.plan.groups[0].members.push_back(static_cast<int>(piece.plan.kernels.size()));
    piece.plan.kernels.push_back(kernel);
    piece.rounds_operands |= kernel.head && multiplies_tf32(*kernel.head);
    for (const Stage& stage : kernel.stages)
      for (const Instruction& in : stage.body) piece.computes_in_float |= in.type == Dtype::f32;
  }
  const std::vector<int> own_uses = uses_of(plan, {group});
  for (std::size_t s = 0; s < plan.slots.size(); ++s) {
    Slot& slot = piece.plan.slots[s];
    slot.external = own_uses[s] > 0 && (slot.external || uses[s] > 1 || by_group[s]);
    if (!slot.external) continue;
    piece.plan.externals.push_back(static_cast<int>(s));
    if (by_members[s]) (by_group[s] ? piece.compared : piece.only_members).push_back(static_cast<int>(s));
  }
  plan_memory(piece.plan, {.replays_members = true});
  return piece;
}

std::vector<Piece> cut(const Plan& plan) {
  const std::vector<int> uses = uses_of(plan, plan.groups);
  std::vector<Piece> pieces;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) pieces.push_back(cut(plan, g, uses));
  return pieces;
}

// A stage that adds absolute values wherever it added, subtracted or summed. Terms that cancel leave roundings of their
// own size, however small the result: this says how large the terms are.
Stage of_magnitudes(const Stage& stage) {
  Stage result = stage;
  result.body.clear();
  std::vector<int> moved;  // where each register went
  const auto add = [&](const Instruction& in) {
    result.body.push_back(in);
    return static_cast<int>(result.body.size()) - 1;
  };
  const auto absolute = [&](int value) {
    const Dtype type = result.body[at(value)].type;
    return add({.primitive = Primitive::abs, .type = type, .args = {value, -1, -1}});
  };
  for (Instruction in : stage.body) {
    for (int& arg : in.args)
      if (arg >= 0) arg = moved[at(arg)];
    if (is_floating(in.type) && (in.primitive == Primitive::add || in.primitive == Primitive::sub)) {
      in.primitive = Primitive::add;
      in.args = {absolute(in.args[0]), absolute(in.args[1]), -1};
    }
    moved.push_back(add(in));
  }
  for (Reduction& reduction : result.reductions) {
    reduction.value = moved[at(reduction.value)];
    if (reduction.kind == ReduceKind::sum || reduction.kind == ReduceKind::mean)
      reduction.value = absolute(reduction.value);
  }
  for (Carry& carry : result.carries) carry.value = moved[at(carry.value)];
  for (Store& store : result.stores) store.value = moved[at(store.value)];
  return result;
}

Plan of_magnitudes(Plan plan) {
  for (Kernel& kernel : plan.kernels)
    for (Stage& stage : kernel.stages) stage = of_magnitudes(stage);
  return plan;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// Of a sum's terms in another order, relative to the largest values of the result, or of those terms.
double tolerance(Dtype dtype, const Piece& piece) {
  switch (dtype) {
    case Dtype::f64:
      if (!piece.computes_in_float) return 1e-12;
      [[fallthrough]];
    case Dtype::f32:
      return piece.rounds_operands ? 0x1p-9 : 2e-5;
    case Dtype::f16:
      return 0x1p-9;
    case Dtype::bf16:
      return 0x1p-6;
    default:
      return 0;
  }
}

// Where a place in a slot's dense memory lies in its shape.
Shape position(const Slot& slot, std::size_t place) {
  std::vector<std::int64_t> indices;
  for (int axis = 0; axis < slot.shape.rank(); ++axis)
    indices.push_back(static_cast<std::int64_t>(place) / slot.strides[at(axis)] % slot.shape[axis]);
  return Shape(std::move(indices));
}

bool contains(const std::vector<int>& slots, int slot) { return std::count(slots.begin(), slots.end(), slot) > 0; }

// Elements further apart than roundings of values as large as `scale` and their own; empty when there are none.
std::string difference(const Slot& slot, const std::vector<double>& x, const std::vector<double>& y, double tolerance,
                       double scale) {
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = x.size(); i-- > 0;) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (std::abs(x[i] - y[i]) <= tolerance * (std::abs(y[i]) + scale)) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return "";
  return fmt::format("element {} of {} ({} {}) is {}, expected {}; {} of {} elements differ", position(slot, first),
                     slot.name, slot.dtype, slot.shape, x[first], y[first], wrong, x.size());
}

class ValidatingExecutable final : public Executable {
 public:
  ValidatingExecutable(const Plan& plan, std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference)
      : plan_(plan), device_(std::move(device)), reference_(std::move(reference)), pieces_(cut(plan)) {
    device_->compile(plan);  // all at once, in parallel where it can; the pieces then find their code in its cache
    for (Piece& piece : pieces_) {
      piece.device = device_->compile(piece.plan);
      piece.reference = reference_->compile(piece.plan);
    }
    const std::shared_ptr<Buffer> arena = device_->allocate(plan_.arena_bytes);
    for (const Slot& slot : plan_.slots)
      buffers_.push_back(slot.external ? nullptr : std::make_shared<Part>(arena, slot.offset, slot.size_bytes()));
  }

  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
    check(externals.size() == plan_.externals.size(), "validate: ", externals.size(), " buffers for ",
          plan_.externals.size(), " external slots");
    for (std::size_t i = 0; i < externals.size(); ++i) buffers_[at(plan_.externals[i])] = externals[i];
    for (Piece& piece : pieces_) run_piece(piece, scalars);
  }

 private:
  void run_piece(Piece& piece, std::span<const double> scalars) {
    const std::string where = device_->name() + ": " + piece.name;
    std::vector<std::shared_ptr<Buffer>> bound;
    std::vector<Array> before;
    for (int slot : piece.plan.externals) {
      bound.push_back(buffers_[at(slot)]);
      before.push_back(read(*device_, *bound.back(), slot));
    }
    try {
      piece.device->run(bound, scalars);
      device_->synchronize();
    } catch (const Error& error) {
      fail(error.fault(), where, ": ", error.what());
    }
    const std::vector<Array> expected = replay(*piece.reference, piece, before, scalars);
    for (std::size_t i = 0; i < bound.size(); ++i) {
      const int slot = piece.plan.externals[i];
      if (contains(piece.only_members, slot)) device_->upload(expected[i].bytes(), *bound[i], expected[i].size_bytes());
      if (!contains(piece.compared, slot)) continue;
      const auto x = read(*device_, *bound[i], slot).to_vector<double>(), y = expected[i].to_vector<double>();
      const Slot& what = plan_.slots[at(slot)];
      const double allowed = tolerance(what.dtype, piece);
      if (difference(what, x, y, allowed, largest_of(y)).empty()) continue;
      if (!piece.magnitudes) piece.magnitudes = reference_->compile(of_magnitudes(piece.plan));
      const Array terms = replay(*piece.magnitudes, piece, before, scalars)[i];
      const std::string found = difference(what, x, y, allowed, largest_of(terms.to_vector<double>()));
      if (!found.empty()) fail(Fault::device, where, ": ", found);
    }
  }

  // What a piece's externals hold after its members ran on the reference from `before`.
  std::vector<Array> replay(Executable& executable, const Piece& piece, const std::vector<Array>& before,
                            std::span<const double> scalars) {
    std::vector<std::shared_ptr<Buffer>> copies;
    for (const Array& array : before) {
      copies.push_back(reference_->allocate(array.size_bytes()));
      reference_->upload(array.bytes(), *copies.back(), array.size_bytes());
    }
    executable.run(copies, scalars);
    std::vector<Array> after;
    for (std::size_t i = 0; i < copies.size(); ++i)
      after.push_back(read(*reference_, *copies[i], piece.plan.externals[i]));
    return after;
  }

  Array read(Backend& from, Buffer& buffer, int slot) const {
    Array array(plan_.slots[at(slot)].dtype, plan_.slots[at(slot)].shape);
    from.download(buffer, array.bytes(), array.size_bytes());
    return array;
  }

  Plan plan_;
  std::shared_ptr<Backend> device_, reference_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<Buffer>> buffers_;  // of every slot
};

class ValidatingBackend final : public Backend {
 public:
  ValidatingBackend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference)
      : device_(std::move(device)), reference_(std::move(reference)) {}
  std::string name() const override { return device_->name(); }
  Target target() const override {
    Target target = device_->target();
    target.replays_members = true;
    return target;
  }
  void lower(Plan& plan) override { device_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return device_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { device_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { device_->download(from, to, size_bytes); }
  void synchronize() override { device_->synchronize(); }
  MemoryPlace memory_place() const override { return device_->memory_place(); }
  void wait_for(void* stream) override { device_->wait_for(stream); }
  void be_awaited_by(void* stream) override { device_->be_awaited_by(stream); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<ValidatingExecutable>(plan, device_, reference_);
  }

 private:
  std::shared_ptr<Backend> device_, reference_;
};

}  // namespace

std::shared_ptr<Backend> make_validating_backend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference) {
  return std::make_shared<ValidatingBackend>(std::move(device), std::move(reference));
}

}  // namespace nixie
