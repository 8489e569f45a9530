// Cuts a plan into plans of one kernel, and runs each on two backends.
#include "nixie/backends/validate.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/base/array.h"
#include "nixie/core/passes/memory.h"

namespace nixie {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

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

// Kernels that run as one, as a plan whose externals are all that others see of them.
struct Piece {
  Plan plan;
  std::string label;
  std::vector<int> written;        // of plan.externals
  bool rounds_operands = false;    // of products, to tf32, which the reference does not
  bool computes_in_float = false;  // whatever the type of the result
  std::unique_ptr<Executable> device, reference;
  std::unique_ptr<Executable> magnitudes;  // made when a difference may be that of cancelled terms
};

Piece cut(const Plan& plan, const std::vector<int>& kernels, const Group* group) {
  Piece piece;
  piece.plan.slots = plan.slots;
  piece.plan.scalars = plan.scalars;
  std::vector<int> uses(plan.slots.size(), 0), inside(plan.slots.size(), 0), written(plan.slots.size(), 0);
  const auto count = [](const Kernel& kernel, std::vector<int>& of) {
    for (const auto& slots : {slots_read(kernel), slots_written(kernel)})
      for (int slot : slots) ++of[at(slot)];
  };
  for (const Kernel& kernel : plan.kernels) count(kernel, uses);
  for (int k : kernels) {
    const Kernel& kernel = plan.kernels[at(k)];
    count(kernel, inside);
    for (int slot : slots_written(kernel)) written[at(slot)] = 1;
    piece.plan.kernels.push_back(kernel);
    piece.rounds_operands |= kernel.head && multiplies_tf32(*kernel.head);
    for (const Stage& stage : kernel.stages)
      for (const Instruction& in : stage.body) piece.computes_in_float |= in.type == Dtype::f32;
    piece.label += (piece.label.empty() ? "" : " and ") + kernel.label;
  }
  if (group) {
    piece.label = group->label;
    Group& whole = piece.plan.groups.emplace_back(Group{.label = group->label});
    for (std::size_t k = 0; k < kernels.size(); ++k) whole.kernels.push_back(static_cast<int>(k));
  }
  for (std::size_t s = 0; s < plan.slots.size(); ++s) {
    Slot& slot = piece.plan.slots[s];
    const bool own = group && !slot.external && inside[s] == uses[s];  // nobody else sees it
    slot.external = inside[s] > 0 && !own;
    if (!slot.external) continue;
    piece.plan.externals.push_back(static_cast<int>(s));
    if (written[s]) piece.written.push_back(static_cast<int>(s));
  }
  plan_memory(piece.plan);
  return piece;
}

std::vector<Piece> cut(const Plan& plan) {
  std::vector<const Group*> group_of(plan.kernels.size(), nullptr);
  for (const Group& group : plan.groups)
    for (int k : group.kernels) group_of[at(k)] = &group;
  std::vector<Piece> pieces;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const Group* group = group_of[k];
    if (!group)
      pieces.push_back(cut(plan, {static_cast<int>(k)}, nullptr));
    else if (*std::max_element(group->kernels.begin(), group->kernels.end()) == static_cast<int>(k))
      pieces.push_back(cut(plan, group->kernels, group));  // where its last kernel stands
  }
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

// A plan whose groups run kernel by kernel; what a group keeps to itself gets a place.
Plan ungrouped(Plan plan) {
  plan.groups.clear();
  plan_memory(plan);
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
      piece.reference = reference_->compile(ungrouped(piece.plan));
    }
    const std::shared_ptr<Buffer> arena = device_->allocate(plan_.arena_bytes);
    for (const Slot& slot : plan_.slots)
      buffers_.push_back(slot.external ? nullptr : std::make_shared<Part>(arena, slot.offset, slot.size_bytes()));
  }

  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
    check(externals.size() == plan_.externals.size(), "validate: ", externals.size(), " buffers for ",
          plan_.externals.size(), " external slots");
    for (std::size_t i = 0; i < externals.size(); ++i) buffers_[at(plan_.externals[i])] = externals[i];
    for (std::size_t i = 0; i < pieces_.size(); ++i) run_piece(i, scalars);
  }

 private:
  void run_piece(std::size_t index, std::span<const double> scalars) {
    Piece& piece = pieces_[index];
    const std::string where = fmt::format("{}: kernel {} \"{}\"", device_->name(), index, piece.label);
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
      if (!std::count(piece.written.begin(), piece.written.end(), slot)) continue;
      const auto x = read(*device_, *bound[i], slot).to_vector<double>(), y = expected[i].to_vector<double>();
      const Slot& what = plan_.slots[at(slot)];
      const double allowed = tolerance(what.dtype, piece);
      if (difference(what, x, y, allowed, largest_of(y)).empty()) continue;
      if (!piece.magnitudes) piece.magnitudes = reference_->compile(ungrouped(of_magnitudes(piece.plan)));
      const Array terms = replay(*piece.magnitudes, piece, before, scalars)[i];
      const std::string found = difference(what, x, y, allowed, largest_of(terms.to_vector<double>()));
      if (!found.empty()) fail(Fault::device, where, ": ", found);
    }
  }

  // What stands in a piece's externals after it ran on the reference from `before`.
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
  Target target() const override { return device_->target(); }
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
