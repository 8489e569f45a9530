// Runs each group of a plan on two backends.
#include "nixie/backends/validate.h"

#include <algorithm>
#include <cmath>

#include "nixie/backends/cut_plan.h"
#include "nixie/core/base/array.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie {
namespace {

// A group's plan, and what is compared of it.
struct Piece {
  PlanPiece part;
  std::vector<int> compared = {};      // slots that the group and its members write
  std::vector<int> only_members = {};  // slots that its members alone write, and others may read
  bool rounds_operands = false;        // of products, to tf32, which the reference does not
  bool computes_in_float = false;      // whatever the type of the result
  std::unique_ptr<Executable> device = {}, reference = {};
  std::unique_ptr<Executable> magnitudes = {};  // made when a difference may be that of cancelled terms

  explicit Piece(PlanPiece cut) : part(std::move(cut)) {
    const Plan& plan = part.plan;
    std::vector<bool> by_group(plan.slots.size()), by_members(plan.slots.size());  // written
    for (int slot : plan.groups[0].writes) by_group[at(slot)] = true;
    for (const Kernel& kernel : plan.kernels) {
      for (int slot : slots_written(kernel)) by_members[at(slot)] = true;
      rounds_operands |= kernel.head && multiplies_tf32(*kernel.head);
      for (const Stage& stage : kernel.stages)
        for (const Instruction& in : stage.body) computes_in_float |= in.type == Dtype::f32;
    }
    for (int slot : plan.externals)
      if (by_members[at(slot)]) (by_group[at(slot)] ? compared : only_members).push_back(slot);
  }
};

// A plan that adds absolute values wherever it added, subtracted or summed. Terms that cancel leave roundings of their
// own size, however small the result: this says how large the terms are.
Plan of_magnitudes(Plan plan) {
  const auto absolute = [](InstructionBuilder& code, int value) {
    return code.add({.primitive = Primitive::abs, .type = code.body[at(value)].type, .args = {value, -1, -1}});
  };
  for (Kernel& kernel : plan.kernels)
    for (Stage& stage : kernel.stages) {
      rewrite(stage, [&](InstructionBuilder& code, Instruction in) {
        if (is_floating(in.type) && (in.primitive == Primitive::add || in.primitive == Primitive::sub)) {
          in.primitive = Primitive::add;
          in.args = {absolute(code, in.args[0]), absolute(code, in.args[1]), -1};
        }
        return code.add(in);
      });
      InstructionBuilder code{std::move(stage.body)};
      for (Reduction& reduction : stage.reductions)
        if (reduction.kind == ReduceKind::sum || reduction.kind == ReduceKind::mean)
          reduction.value = absolute(code, reduction.value);
      stage.body = std::move(code.body);
    }
  return plan;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// The tolerance of a sum in another order, relative to the largest values of the result, or of its terms.
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
    case Dtype::f8e4m3:
      return 0x1p-3;
    case Dtype::f8e5m2:
      return 0x1p-2;
    default:  // integers and bools are equal
      return 0;
  }
}

// The indices, in a slot's shape, of a place in its dense memory.
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
      : plan_(plan), device_(std::move(device)), reference_(std::move(reference)), memory_(plan, *device_) {
    device_->compile(plan);  // all at once, in parallel where it can; the pieces then find their code in its cache
    for (PlanPiece& part : cut_plan(plan, true)) {
      Piece& piece = pieces_.emplace_back(std::move(part));
      piece.device = device_->compile(piece.part.plan);
      piece.reference = reference_->compile(piece.part.plan);
    }
  }

  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
    memory_.bind(externals);
    for (Piece& piece : pieces_) run_piece(piece, scalars);
  }

 private:
  void run_piece(Piece& piece, std::span<const double> scalars) {
    const std::string where = device_->name() + ": " + piece.part.name;
    const std::vector<std::shared_ptr<Buffer>> bound = memory_.of(piece.part);
    std::vector<Array> before;
    for (std::size_t i = 0; i < bound.size(); ++i)
      before.push_back(read(*device_, *bound[i], piece.part.plan.externals[i]));
    try {
      piece.device->run(bound, scalars);
      device_->synchronize();
    } catch (const Error& error) {
      fail(error.fault(), where, ": ", error.what());
    }
    const std::vector<Array> expected = replay(*piece.reference, piece, before, scalars);
    for (std::size_t i = 0; i < bound.size(); ++i) {
      const int slot = piece.part.plan.externals[i];
      if (contains(piece.only_members, slot)) device_->upload(expected[i].bytes(), *bound[i], expected[i].size_bytes());
      if (!contains(piece.compared, slot)) continue;
      const auto x = read(*device_, *bound[i], slot).to_vector<double>(), y = expected[i].to_vector<double>();
      const Slot& what = plan_.slots[at(slot)];
      const double allowed = tolerance(what.dtype, piece);
      if (difference(what, x, y, allowed, largest_of(y)).empty()) continue;
      if (!piece.magnitudes) piece.magnitudes = reference_->compile(of_magnitudes(piece.part.plan));
      const Array terms = replay(*piece.magnitudes, piece, before, scalars)[i];
      const std::string found = difference(what, x, y, allowed, largest_of(terms.to_vector<double>()));
      if (!found.empty()) fail(Fault::device, where, ": ", found);
    }
  }

  // The values of a piece's externals after its members ran on the reference from `before`.
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
      after.push_back(read(*reference_, *copies[i], piece.part.plan.externals[i]));
    return after;
  }

  Array read(Backend& from, Buffer& buffer, int slot) const {
    Array array(plan_.slots[at(slot)].dtype, plan_.slots[at(slot)].shape);
    from.download(buffer, array.bytes(), array.size_bytes());
    return array;
  }

  Plan plan_;
  std::shared_ptr<Backend> device_, reference_;
  PieceMemory memory_;
  std::vector<Piece> pieces_;
};

class ValidatingBackend final : public ForwardingBackend {
 public:
  ValidatingBackend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference)
      : ForwardingBackend(std::move(device)), reference_(std::move(reference)) {}
  Target target() const override {
    Target target = inner()->target();
    target.replays_members = true;
    return target;
  }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<ValidatingExecutable>(plan, inner(), reference_);
  }

 private:
  std::shared_ptr<Backend> reference_;
};

}  // namespace

std::shared_ptr<Backend> make_validating_backend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference) {
  return std::make_shared<ValidatingBackend>(std::move(device), std::move(reference));
}

}  // namespace nixie
