// CpuExecutable: binds memory and runs kernels in order.
#include "nixie/backends/cpu/stages/executor.h"

#include <atomic>
#include <numeric>

#include "nixie/backends/cpu/contract/contract.h"
#include "nixie/backends/cpu/lanes/vector.h"
#include "nixie/core/base/free_memory.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/plan_too_large.h"

namespace nixie::cpu {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Range {
  const std::byte *begin, *end;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

// Free for a plan: without its batches of inputs besides the one that runs (another loader's, as a guess), and without
// kernels' own pieces, which are small where arrays are.
std::int64_t bytes_for(const Plan& plan) {
  constexpr std::int64_t kMostPieces = 64 << 20;
  std::int64_t inputs = 0;
  for (int index : plan.externals) {
    const Slot& slot = plan.slots[at(index)];
    if (plan.batch > 0 && slot.shape.rank() > 0 && slot.shape[0] == plan.batch) inputs += slot.size_bytes();
  }
  const std::int64_t free = std::max<std::int64_t>(free_memory_bytes() - 2 * inputs, 0);
  return free - std::min(kMostPieces, free / 2);
}

/// A shape of a plan, if its batch were this.
Shape with_batch(Shape shape, const Plan& plan, std::int64_t batch) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] == plan.batch) shape = shape.with(axis, batch);
  return shape;
}

/// The largest result of a head, in a plan whose batch were this.
std::int64_t head_bytes(const Plan& plan, std::int64_t batch) {
  std::int64_t most = 0;
  for (const Kernel& kernel : plan.kernels)
    if (kernel.head)
      most = std::max(most, with_batch(kernel.domain, plan, batch).size() * size_of(compute_dtype(kernel.head->dtype)));
  return most;
}

/// The bytes of heads' operands in the type that they are computed in. Copies of two heads may be kept at a time.
std::int64_t copied_bytes(const Plan& plan, std::int64_t batch) {
  std::int64_t most = 0;
  for (const Kernel& kernel : plan.kernels) {
    if (!kernel.head) continue;
    const Dtype type = compute_dtype(kernel.head->dtype);
    std::int64_t copies = 0;
    for (const Operand& operand : kernel.head->operands)
      if (plan.slots[at(operand.slot)].dtype != type)
        copies += with_batch(operand.shape, plan, batch).size() * size_of(type);
    most = std::max(most, copies);
  }
  return 2 * most;
}

std::uint64_t next_run() {
  static std::atomic<std::uint64_t> run{0};
  return ++run;
}

}  // namespace

void Shared::reserve(std::int64_t arena_bytes, std::int64_t head_bytes) {
  const auto grow = [](std::unique_ptr<HostBuffer>& memory, std::int64_t bytes) {
    if (memory && memory->size_bytes() >= bytes) return;
    memory.reset();  // first, so that both are never there at once
    memory = std::make_unique<HostBuffer>(bytes);
  };
  try {
    grow(arena, arena_bytes);
    grow(head, head_bytes);
  } catch (const Error&) {
    arena.reset();
    head.reset();
    throw;
  }
}

CpuExecutable::CpuExecutable(const Plan& plan, std::shared_ptr<Shared> shared)
    : plan_(plan), head_bytes_(head_bytes(plan, plan.batch)), shared_(std::move(shared)) {
  for (const Kernel& kernel : plan_.kernels) programs_.emplace_back(kernel, plan_.slots);
  const std::lock_guard lock(shared_->running);
  try {
    shared_->reserve(plan_.arena_bytes, head_bytes_);
  } catch (const Error& error) {
    if (error.fault() != Fault::memory) throw;
    const auto scratch = [&](std::int64_t batch) { return head_bytes(plan_, batch) + copied_bytes(plan_, batch); };
    throw PlanTooLarge("cpu", plan_, scratch, bytes_for(plan_));
  }
}

void CpuExecutable::run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) {
  std::vector<int> order(plan_.kernels.size());
  std::iota(order.begin(), order.end(), 0);
  run_in_order(order, externals, scalars);
}

void CpuExecutable::run_in_order(std::span<const int> order, std::span<const std::shared_ptr<Buffer>> externals,
                                 std::span<const double> scalars) {
  check(scalars.size() == plan_.scalars.size(), "cpu: ", scalars.size(), " scalars for a plan of ",
        plan_.scalars.size());
  const std::lock_guard lock(shared_->running);
  shared_->reserve(plan_.arena_bytes, head_bytes_);  // again, if a larger plan did not fit meanwhile
  const std::vector<std::byte*> slots = addresses(externals);
  const auto is_done = [&](const Kernel& kernel) {
    return is_own_exchange(plan_, kernel) &&
           slots[at(kernel.head->operands[0].slot)] == slots[at(kernel.stores[0].slot)];
  };
  for (int kernel : order)
    if (!is_done(plan_.kernels[at(kernel)])) run_kernel(programs_[at(kernel)], slots, scalars);
}

std::vector<std::byte*> CpuExecutable::addresses(std::span<const std::shared_ptr<Buffer>> externals) const {
  check(externals.size() == plan_.externals.size(), "cpu: ", externals.size(), " buffers for ", plan_.externals.size(),
        " external slots");
  std::vector<std::byte*> result;
  for (const Slot& slot : plan_.slots) result.push_back(slot.external ? nullptr : shared_->arena->data() + slot.offset);
  for (std::size_t i = 0; i < externals.size(); ++i) {
    const Slot& slot = plan_.slots[at(plan_.externals[i])];
    check(externals[i]->size_bytes() >= slot.size_bytes(), "cpu: slot ", slot.name, " is bound to ",
          externals[i]->size_bytes(), " bytes, expected ", slot.size_bytes());
    result[at(plan_.externals[i])] = static_cast<std::byte*>(externals[i]->address());
  }
  return result;
}

Bound CpuExecutable::bind(const Program& program, std::span<std::byte* const> slots,
                          std::span<const double> scalars) const {
  Bound bound{.program = program, .scalars = scalars, .run = next_run()};
  const Kernel& kernel = program.kernel();
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses) {
      bound.memory.push_back(slots[at(access.slot)]);
      bound.types.push_back(plan_.slots[at(access.slot)].dtype);
    }
  const auto range = [&](int slot) {
    return Range{slots[at(slot)], slots[at(slot)] + plan_.slots[at(slot)].size_bytes()};
  };
  for (const Access& load : kernel.loads) {
    bool changes = false;
    for (const Access& store : kernel.stores) changes |= range(store.slot).overlaps(range(load.slot));
    bound.readable.push_back(changes ? 0 : plan_.slots[at(load.slot)].shape.size());
  }
  for (const Access& store : kernel.stores) {
    bool direct = true;
    for (const Access& load : kernel.loads) direct &= !range(store.slot).overlaps(range(load.slot));
    if (kernel.head)
      for (const Operand& operand : kernel.head->operands) direct &= !range(store.slot).overlaps(range(operand.slot));
    bound.direct.push_back(direct);
    // A head's stages run on what is warm, and what they write may be.
    bound.streamed.push_back(direct && !kernel.head && plan_.slots[at(store.slot)].size_bytes() > kStreamedBytes);
  }
  return bound;
}

void CpuExecutable::run_kernel(const Program& program, std::span<std::byte* const> slots,
                               std::span<const double> scalars) {
  const Kernel& kernel = program.kernel();
  try {
    Bound bound = bind(program, slots, scalars);
    if (kernel.head)
      run_with_head(program, bound, slots);
    else
      run_stages(bound, shared_->pool);
  } catch (const std::bad_alloc&) {
    const Slot& result = plan_.slots[at(kernel.stores[0].slot)];
    fail(Fault::memory, "cpu: out of memory while ", result.name, " ", result.dtype, " ", result.shape,
         " is computed, ", free_memory_bytes() >> 20, " MiB are free");
  }
}

void CpuExecutable::run_with_head(const Program& program, Bound& bound, std::span<std::byte* const> slots) {
  const Kernel& kernel = program.kernel();
  std::vector<BoundOperand> operands;
  for (const Operand& operand : kernel.head->operands) {
    const Dtype dtype = plan_.slots[at(operand.slot)].dtype;
    operands.push_back(
        {slots[at(operand.slot)] + operand.offset * size_of(dtype), dtype, operand.shape, operand.strides});
  }
  // A slot that takes all of the result and is not read can hold the head's values too.
  const int store = program.head_store();
  bound.head = shared_->head->data();
  bool done = false;
  if (store >= 0 && bound.direct[at(store)]) {
    const Access& access = kernel.stores[at(store)];
    bound.head = slots[at(access.slot)] + access.offset * size_of(plan_.slots[at(access.slot)].dtype);
    if (program.head_store_is_final()) {
      bound.skipped_store = store;
      done = kernel.stages.size() == 1 && kernel.stages[0].stores.size() == 1;
    }
    bound.direct[at(store)] = false;
  }
  HeadSink sink{bound.head, {}};
  if (!done) sink.finished = [&](std::int64_t first, std::int64_t count) { run_stages_on(bound, first, count); };
  run_head(*kernel.head, kernel.domain, operands, sink, shared_->pool);
}

}  // namespace nixie::cpu
