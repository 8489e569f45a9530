// Moves reductions of a convolution's output into its epilogue.
#include "nixie/backends/cuda/families/channel_parts.h"

#include <algorithm>
#include <map>

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/portable.h"
#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr int kMostWords = 3;     // that a thread accumulates for a channel: mean and m2, or up to three sums
constexpr int kWidestTile = 256;  // columns, of any family that leaves parts

// Copies the instructions that registers need to the end of another body. `place` says what a load becomes.
template <class Place>
std::map<int, int> append(const std::vector<Instruction>& from, const std::vector<int>& registers,
                          std::vector<Instruction>& to, const Place& place) {
  const std::vector<bool> needed = needed_for(from, registers);
  std::map<int, int> moved;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!needed[i]) continue;
    Instruction in = from[i];
    for (int& arg : in.args)
      if (arg >= 0) arg = moved.at(arg);
    const int known = in.primitive == Primitive::load ? place(in) : -1;
    moved[static_cast<int>(i)] = known >= 0 ? known : static_cast<int>(to.size());
    if (known < 0) to.push_back(in);
  }
  return moved;
}

bool may_move(const Instruction& in) {
  return in.primitive != Primitive::carried && in.primitive != Primitive::coordinate &&
         in.primitive != Primitive::uniform && in.primitive != Primitive::normal && in.type == Dtype::f32;
}

// Reductions of a kernel's stage that a program which makes the values of load `load` can accumulate.
class Reader {
 public:
  Reader(const Grouping& grouping, const Kernel& kernel, std::size_t maker, std::size_t reader)
      : grouping_(grouping), kernel_(kernel), maker_(maker), reader_(reader) {}

  std::vector<std::size_t> movable(const Stage& stage, const Access& stored) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < stage.reductions.size(); ++i)
      if (moves(stage, stage.reductions[i], stored)) found.push_back(i);
    return found;
  }

 private:
  bool moves(const Stage& stage, const Reduction& reduction, const Access& stored) const {
    if (gives_position(reduction.kind)) return false;
    const std::vector<bool> needed = needed_for(stage.body, {reduction.value});
    bool reads_stored = false;
    for (std::size_t i = 0; i < stage.body.size(); ++i) {
      if (!needed[i]) continue;
      const Instruction& in = stage.body[i];
      if (!may_move(in)) return false;
      if (in.primitive != Primitive::load) continue;
      const Access& load = kernel_.loads[at(in.index)];
      const bool same = load.slot == stored.slot;
      if (same ? load != stored : !is_there(load.slot)) return false;
      reads_stored |= same;
    }
    return reads_stored;
  }

  // Whether what a slot holds when the reader runs is there before the maker does.
  bool is_there(int slot) const {
    for (std::size_t g = maker_; g <= reader_; ++g)
      if (grouping_.writes(g, slot)) return false;
    return true;
  }

  const Grouping& grouping_;
  const Kernel& kernel_;
  std::size_t maker_, reader_;
};

// The kernel with some reductions of a stage in a stage of their own after it, and which that is.
std::pair<Kernel, int> apart(Kernel kernel, int stage, const std::vector<std::size_t>& moved) {
  Stage& whole = kernel.stages[at(stage)];
  Stage own;
  std::vector<int> registers;
  std::vector<Reduction> left;
  for (std::size_t i = 0; i < whole.reductions.size(); ++i) {
    const bool moves = std::count(moved.begin(), moved.end(), i) > 0;
    (moves ? own.reductions : left).push_back(whole.reductions[i]);
    if (moves) registers.push_back(whole.reductions[i].value);
  }
  const std::map<int, int> places = append(whole.body, registers, own.body, [](const Instruction&) { return -1; });
  for (Reduction& reduction : own.reductions) reduction.value = places.at(reduction.value);
  whole.reductions = std::move(left);
  if (whole.reductions.empty() && whole.carries.empty() && whole.stores.empty()) {
    whole = std::move(own);
    return {std::move(kernel), stage};
  }
  kernel.stages.insert(kernel.stages.begin() + stage + 1, std::move(own));
  return {std::move(kernel), stage + 1};
}

// The choice whose last stage also takes the reductions of `stage`, of what it stores.
Choice with_reductions(const Plan& plan, Choice choice, const Kernel& reader, const Stage& stage) {
  Kernel& kernel = choice.kernel;
  Stage& last = kernel.stages.back();
  int stored = last.stores[0].value;
  const Dtype type = dtype_of(plan, kernel.stores[at(last.stores[0].access)].slot);
  if (type == Dtype::f16 || type == Dtype::bf16) {
    last.body.push_back(
        {.primitive = type == Dtype::f16 ? Primitive::round_f16 : Primitive::round_bf16, .args = {stored, -1, -1}});
    stored = static_cast<int>(last.body.size()) - 1;
  }
  const int slot = kernel.stores[at(last.stores[0].access)].slot;
  std::vector<int> registers;
  for (const Reduction& reduction : stage.reductions) registers.push_back(reduction.value);
  const std::map<int, int> places = append(stage.body, registers, last.body, [&](Instruction& in) {
    const Access& load = reader.loads[at(in.index)];
    if (load.slot == slot) return stored;
    const auto known = std::find(kernel.loads.begin(), kernel.loads.end(), load);
    in.index = static_cast<int>(known - kernel.loads.begin());
    if (known == kernel.loads.end()) kernel.loads.push_back(load);
    return -1;
  });
  for (Reduction reduction : stage.reductions) {
    reduction.value = places.at(reduction.value);
    last.reductions.push_back(reduction);
  }
  return choice;
}

// Where a choice stores its result and nothing else, if each element is that of its position.
const Access* only_store(const Choice& choice) {
  const Stage& last = choice.kernel.stages.back();
  const bool one =
      choice.kernel.stores.size() == 1 && last.full && last.stores.size() == 1 && stores_of(choice).size() == 1;
  return one && choice.kernel.stores[0].inside.empty() && last.body[at(last.stores[0].value)].type == Dtype::f32
             ? &choice.kernel.stores[0]
             : nullptr;
}

// The first stage that reduces and merges nothing; -1 where there is none.
int first_reducing(const Choice& choice) {
  for (int s = 0; s < static_cast<int>(choice.kernel.stages.size()); ++s)
    if (!choice.kernel.stages[at(s)].reductions.empty() &&
        std::none_of(choice.merges.begin(), choice.merges.end(), [&](const Parts& parts) { return parts.stage == s; }))
      return s;
  return -1;
}

double clocks_of_bytes(std::int64_t bytes, const Chip& chip) {
  return static_cast<double>(bytes) / static_cast<double>(chip.memory_bytes_per_clock() * chip.sms);
}

// Clocks that memory takes for what a kernel's head and epilogue load and store.
double memory_clocks(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  std::int64_t bytes = 0;
  for (const Operand& operand : kernel.head->operands) bytes += operand.shape.size() * size_of(dtype_of(plan, operand));
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses)
      if (!is_number_of_channel(kernel, access)) bytes += kernel.domain.size() * size_of(dtype_of(plan, access.slot));
  return clocks_of_bytes(bytes, chip);
}

// Whether a full stage after this one reads what is stored. A kernel that only sums may find a filter gradient that
// reads the values anyway.
bool read_after(const Kernel& kernel, int stage, const Access& stored) {
  for (std::size_t s = at(stage) + 1; s < kernel.stages.size(); ++s)
    for (const Instruction& in : kernel.stages[s].body)
      if (kernel.stages[s].full && in.primitive == Primitive::load && kernel.loads[at(in.index)] == stored) return true;
  return false;
}

// The same where the kernel is split: whether a later group reads what is stored together with what this one makes.
bool read_beside(const Grouping& grouping, std::size_t group, const Access& stored) {
  const Kernel& kernel = grouping.groups[group].members[0];
  for (std::size_t later = group + 1; later < grouping.groups.size(); ++later)
    if (grouping.reads(later, stored.slot) &&
        std::ranges::any_of(kernel.stores, [&](const Access& made) { return grouping.reads(later, made.slot); }))
      return true;
  return false;
}

}  // namespace

std::optional<Absorption> with_channel_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                             std::optional<int> given) {
  const Grouping::Group& group = grouping.groups[other];
  const Access* stored = choice.leaves || choice.alone ? nullptr : only_store(choice);
  if (!stored || group.members.size() != 1) return {};
  const Choice whole = group.by ? group.by->choices.front() : Choice{.family = &reduce(), .kernel = group.members[0]};
  const Kernel& kernel = whole.kernel;
  if (whole.family != &reduce() || kernel.head || kernel.domain != choice.kernel.domain || !reduces_to_channels(kernel))
    return {};
  const std::vector<std::size_t> makers = grouping.writers_of(stored->slot);
  const int first = first_reducing(whole);
  if (makers.size() != 1 || makers[0] >= other || first < 0) return {};
  const std::vector<std::size_t> moved =
      Reader(grouping, kernel, makers[0], other).movable(kernel.stages[at(first)], *stored);
  if (moved.empty() || !(read_after(kernel, first, *stored) || read_beside(grouping, other, *stored))) return {};
  const auto [split, own] = apart(kernel, first, moved);
  const Stage& stage = split.stages[at(own)];
  const AccumulatorCode accumulators = accumulator_code(stage);
  if (accumulators.words > kMostWords) return {};

  const std::int64_t channels = kernel.domain[1];
  const int count =
      given.value_or(static_cast<int>(std::max<std::int64_t>(1, grouping.chip.sms / ceil_div(channels, kWidestTile))));
  const Shape shape{count, channels, accumulators.bytes / 4};
  Absorption with{.choice = with_reductions(grouping.plan, choice, split, stage),
                  .other = Absorption::Other::stays,
                  .reader = whole,
                  .left = {{.name = "parts of " + kernel.label, .shape = shape, .strides = shape.row_major()}}};
  with.choice.leaves = Parts{.count = count};
  if (split.stages.size() > kernel.stages.size())
    for (Parts& parts : with.reader->merges) parts.stage += parts.stage >= own;
  with.reader->kernel = split;
  with.reader->merges.push_back({.count = count, .stage = own});
  return with;
}

int accumulated_words(const Choice& choice) {
  return choice.leaves ? accumulator_code(choice.kernel.stages.back()).words : 0;
}

bool is_number_of_channel(const Kernel& kernel, const Access& access) {
  for (int axis = 0; axis < kernel.domain.rank(); ++axis)
    if (axis != 1 && kernel.domain[axis] > 1 && access.strides[at(axis)] != 0) return false;
  return true;
}

LoadedWords loaded_words(const Plan& plan, const Kernel& kernel) {
  LoadedWords words;
  for (const Access& load : kernel.loads) {
    const auto bytes = static_cast<int>((load.strides[1] == 0 ? 1 : 8) * size_of(dtype_of(plan, load.slot)));
    if (is_number_of_channel(kernel, load))
      words.of_channels += load.strides[1] == 0 ? 1 : 9;  // and where they are
    else
      words.of_pixels += (bytes + 3) / 4;
  }
  return words;
}

bool parts_pay(const Grouping& grouping, const Choice& without, const Choice& with,
               double (*clocks_of)(const Plan&, const Choice&, const Chip&)) {
  const Plan& plan = grouping.plan;
  const double before = memory_clocks(plan, without.kernel, grouping.chip),
               after = memory_clocks(plan, with.kernel, grouping.chip);
  if (after == before) return true;
  const double longer =
      std::max(clocks_of(plan, with, grouping.chip), after) - std::max(clocks_of(plan, without, grouping.chip), before);
  const Dtype stored = dtype_of(plan, without.kernel.stores[0].slot);
  return longer < after - before + clocks_of_bytes(without.kernel.domain.size() * size_of(stored), grouping.chip);
}

std::int64_t blocks_for(const Choice& choice, std::int64_t tiles, std::int64_t columns, const Chip& chip) {
  return std::min<std::int64_t>(tiles, choice.leaves ? chip.sms / columns * columns : chip.sms);
}

std::string parts_defines(const Choice& choice) {
  return choice.leaves ? defines({{"CONV_PARTS", choice.leaves->count}}) : std::string();
}

std::vector<Pointer> parts_pointer(const Choice& choice) {
  if (!choice.leaves) return {};
  return {{"char*", "left", {choice.leaves->slot, 0}}};
}

}  // namespace nixie::cuda
