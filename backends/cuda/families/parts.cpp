// Moves reductions into the epilogue of the program that stores what they reduce, and prices them there.
#include "nixie/backends/cuda/families/parts.h"

#include <algorithm>
#include <map>

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/portable.h"
#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr int kMostOfChannel = 3;  // words that a thread accumulates: mean and m2, or up to three sums
constexpr int kMostOfAll = 8;
constexpr int kWidestTile = 256;  // columns, of any convolution that leaves parts

// Copies the instructions that registers need to the end of another body. `place` says what a load becomes.
template <class Place>
std::vector<int> append(const std::vector<Instruction>& from, const std::vector<int>& registers,
                        std::vector<Instruction>& to, const Place& place) {
  const std::vector<bool> needed = needed_for(from, registers);
  InstructionBuilder code{std::move(to)};
  std::size_t next = 0;
  std::vector<int> moved = code.append(from, [&](Instruction in) {
    if (!needed[next++]) return -1;
    const int known = in.primitive == Primitive::load ? place(in) : -1;
    return known >= 0 ? known : code.add(in);
  });
  to = std::move(code.body);
  return moved;
}

bool may_move(const Instruction& in) {
  return in.primitive != Primitive::carried && in.primitive != Primitive::coordinate &&
         in.primitive != Primitive::uniform && in.primitive != Primitive::normal;
}

// Whether all that a kernel computes is reduced to one value.
bool reduces_to_one(const Kernel& kernel) {
  for (int axis = 0; axis < kernel.domain.rank(); ++axis)
    if (kernel.domain[axis] != 1 && std::ranges::find(kernel.reduced, axis) == kernel.reduced.end()) return false;
  return kernel.domain.size() > 1;
}

// The reductions of a reader's stage that the maker of `stored` can accumulate: of what it stores, and of what does not
// change between the two.
std::vector<std::size_t> movable(const Grouping& grouping, std::size_t maker, std::size_t reader, const Kernel& kernel,
                                 const Stage& stage, const Access& stored) {
  const auto is_there = [&](int slot) {
    for (std::size_t g = maker; g <= reader; ++g)
      if (grouping.writes(g, slot)) return false;
    return true;
  };
  const auto moves = [&](const Reduction& reduction) {
    const std::vector<bool> needed = needed_for(stage.body, {reduction.value});
    bool reads_stored = false;
    for (std::size_t i = 0; i < stage.body.size(); ++i) {
      if (!needed[i]) continue;
      const Instruction& in = stage.body[i];
      if (!may_move(in)) return false;
      if (in.primitive != Primitive::load) continue;
      const Access& load = kernel.loads[at(in.index)];
      if (load != stored && (load.slot == stored.slot || !is_there(load.slot))) return false;
      reads_stored |= load == stored;
    }
    return reads_stored && !gives_position(reduction.kind);
  };
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < stage.reductions.size(); ++i)
    if (moves(stage.reductions[i])) found.push_back(i);
  return found;
}

// The kernel with some reductions of a stage in a stage of their own after it, and which that is.
std::pair<Kernel, int> apart(Kernel kernel, int stage, const std::vector<std::size_t>& moved) {
  Stage& whole = kernel.stages[at(stage)];
  Stage own;
  std::vector<int> registers;
  std::vector<Reduction> left;
  for (std::size_t i = 0; i < whole.reductions.size(); ++i) {
    const bool moves = std::ranges::count(moved, i) > 0;
    (moves ? own.reductions : left).push_back(whole.reductions[i]);
    if (moves) registers.push_back(whole.reductions[i].value);
  }
  const std::vector<int> places = append(whole.body, registers, own.body, [](const Instruction&) { return -1; });
  for (Reduction& reduction : own.reductions) reduction.value = places[at(reduction.value)];
  whole.reductions = std::move(left);
  if (whole.reductions.empty() && whole.carries.empty() && whole.stores.empty()) {
    whole = std::move(own);
    return {std::move(kernel), stage};
  }
  kernel.stages.insert(kernel.stages.begin() + stage + 1, std::move(own));
  return {std::move(kernel), stage + 1};
}

// The register of what a stage stores as readers find it; -1 where another type than the register's is stored.
int as_stored(const Plan& plan, const Kernel& kernel, const Store& store, Stage& stage) {
  const Dtype type = dtype_of(plan, kernel.stores[at(store.access)].slot), own = stage.body[at(store.value)].type;
  if (type == own) return store.value;
  if (own != Dtype::f32 || (type != Dtype::f16 && type != Dtype::bf16)) return -1;
  stage.body.push_back(
      {.primitive = type == Dtype::f16 ? Primitive::round_f16 : Primitive::round_bf16, .args = {store.value, -1, -1}});
  return static_cast<int>(stage.body.size()) - 1;
}

// Adds the reductions of a reader's stage to the last stage, of its register `stored`, which slot `slot` holds.
void add_reductions(Kernel& kernel, int stored, int slot, const Kernel& reader, const Stage& stage) {
  Stage& last = kernel.stages.back();
  std::vector<int> registers;
  for (const Reduction& reduction : stage.reductions) registers.push_back(reduction.value);
  const std::vector<int> places = append(stage.body, registers, last.body, [&](Instruction& in) {
    const Access& load = reader.loads[at(in.index)];
    if (load.slot == slot) return stored;
    const auto known = std::ranges::find(kernel.loads, load);
    in.index = static_cast<int>(known - kernel.loads.begin());
    if (known == kernel.loads.end()) kernel.loads.push_back(load);
    return -1;
  });
  for (Reduction reduction : stage.reductions) {
    reduction.value = places[at(reduction.value)];
    last.reductions.push_back(reduction);
  }
}

// Takes out a store of the last stage, and the access that it alone has.
void drop_store(Kernel& kernel, int access) {
  std::erase_if(kernel.stages.back().stores, [&](const Store& store) { return store.access == access; });
  kernel.stores.erase(kernel.stores.begin() + access);
  for (Stage& stage : kernel.stages)
    for (Store& store : stage.stores) store.access -= store.access > access;
}

// A stage that merges parts loads nothing; takes out what no other stage loads.
void drop_loads(Kernel& kernel, int stage) {
  for (Instruction& in : kernel.stages[at(stage)].body)
    if (in.primitive == Primitive::load) in = {.primitive = Primitive::constant, .type = in.type};
  std::map<int, int> moved;  // in order
  for (const Stage& each : kernel.stages)
    for (const Instruction& in : each.body)
      if (in.primitive == Primitive::load) moved[in.index] = 0;
  std::vector<Access> loads;
  for (auto& [from, to] : moved) to = static_cast<int>(loads.size()), loads.push_back(kernel.loads[at(from)]);
  for (Stage& each : kernel.stages)
    for (Instruction& in : each.body)
      if (in.primitive == Primitive::load) in.index = moved.at(in.index);
  kernel.loads = std::move(loads);
}

// The first stage that reduces and merges nothing; -1 where there is none.
int first_reducing(const Choice& choice) {
  for (int s = 0; s < static_cast<int>(choice.kernel.stages.size()); ++s)
    if (!choice.kernel.stages[at(s)].reductions.empty() && std::ranges::count(choice.merges, s, &Parts::stage) == 0)
      return s;
  return -1;
}

// What a kernel's head and epilogue load and store.
double bytes_of(const Plan& plan, const Kernel& kernel) {
  std::int64_t bytes = 0;
  for (const Operand& operand : kernel.head->operands) bytes += operand.shape.size() * size_of(dtype_of(plan, operand));
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses)
      if (!is_number_of_channel(kernel, access)) bytes += kernel.domain.size() * size_of(dtype_of(plan, access.slot));
  return static_cast<double>(bytes);
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

// The store of a program's last stage that a load reads, each element at its own position; null if there is none.
const Store* store_read_by(const Kernel& kernel, const Access& load) {
  const Stage& last = kernel.stages.back();
  const auto found =
      std::ranges::find_if(last.stores, [&](const Store& store) { return kernel.stores[at(store.access)] == load; });
  return last.full && load.inside.empty() && found != last.stores.end() ? &*found : nullptr;
}

// Moves what it can of the first reductions of `whole`, another group's kernel, of what `store` stores.
std::optional<Absorption> with_reductions(const Grouping& grouping, const Choice& choice, const Store& store,
                                          std::size_t other, const Choice& whole, const PartCounts& counts) {
  const Kernel& kernel = whole.kernel;
  const Access stored = choice.kernel.stores[at(store.access)];
  const std::vector<std::size_t> makers = grouping.writers_of(stored.slot);
  const int first = first_reducing(whole);
  if (makers.size() != 1 || makers[0] >= other || first < 0) return {};
  const bool of_channels = reduces_to_channels(kernel);
  if (of_channels &&
      (stores_of(choice).size() != 1 || !(read_after(kernel, first, stored) || read_beside(grouping, other, stored))))
    return {};
  const std::vector<std::size_t> moved = movable(grouping, makers[0], other, kernel, kernel.stages[at(first)], stored);
  if (moved.empty()) return {};
  const auto [split, own] = apart(kernel, first, moved);
  const bool leaves_others = split.stages.size() > kernel.stages.size();
  const Stage& stage = split.stages[at(own)];
  const AccumulatorCode accumulators = accumulator_code(stage);
  if (accumulators.words > (of_channels ? kMostOfChannel : kMostOfAll)) return {};

  Absorption with{.choice = choice, .other = Absorption::Other::stays, .reader = whole};
  Kernel& maker = with.choice.kernel;
  const int value = as_stored(grouping.plan, choice.kernel, store, maker.stages.back());
  if (value < 0) return {};
  add_reductions(maker, value, stored.slot, split, stage);
  if (!of_channels && (leaves_others || maker.loads != choice.kernel.loads)) return {};

  const Parts parts{.count = of_channels ? counts.of_channel : counts.of_all, .of_channels = of_channels, .stage = own};
  const Shape shape{parts.count, of_channels ? kernel.domain[1] : 1, accumulators.bytes / 4};
  with.left = Slot{.name = "parts of " + kernel.label, .shape = shape, .strides = shape.row_major()};
  with.choice.leaves = parts;
  Kernel& reader = with.reader->kernel;
  reader = split;
  for (Parts& merged : with.reader->merges) merged.stage += leaves_others && merged.stage >= own;
  with.reader->merges.push_back(parts);
  drop_loads(reader, own);
  if (!nixie::reads(reader, stored.slot) && grouping.only_reader(stored.slot) == other) drop_store(maker, store.access);
  return with;
}

}  // namespace

PartCounts parts_of_convolution(const Choice& choice, const Chip& chip) {
  const std::int64_t columns = ceil_div(choice.kernel.domain[1], kWidestTile);
  return {.of_channel = std::max<std::int64_t>(1, chip.sms / columns), .of_all = chip.sms};
}

std::optional<Absorption> with_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                     const PartCounts& counts) {
  const Grouping::Group& group = grouping.groups[other];
  if (choice.leaves || choice.alone || choice.pooled || group.members.size() != 1) return {};
  const Choice whole = group.by ? group.by->choices.front() : Choice{.family = &reduce(), .kernel = group.members[0]};
  const Kernel& kernel = whole.kernel;
  if (whole.family != &reduce() || kernel.head || kernel.domain != choice.kernel.domain) return {};
  if (reduces_to_channels(kernel) ? counts.of_channel == 0 : counts.of_all == 0 || !reduces_to_one(kernel)) return {};
  for (const Access& load : kernel.loads)
    if (const Store* store = store_read_by(choice.kernel, load))
      if (auto with = with_reductions(grouping, choice, *store, other, whole, counts)) return with;
  return {};
}

int accumulated_words(const Choice& choice) {
  return leaves_of_channels(choice) ? accumulator_code(choice.kernel.stages.back()).words : 0;
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
  const auto seconds = [&](const Choice& choice) {
    return grouping.chip.seconds(
        {.bytes = bytes_of(grouping.plan, choice.kernel), .clocks = clocks_of(grouping.plan, choice, grouping.chip)});
  };
  const double images = bytes_of(grouping.plan, with.kernel) - bytes_of(grouping.plan, without.kernel);
  const Dtype stored = dtype_of(grouping.plan, without.kernel.stores[0].slot);
  const double pass = images + static_cast<double>(without.kernel.domain.size() * size_of(stored));
  return images == 0 || seconds(with) - seconds(without) < grouping.chip.seconds({.bytes = pass});
}

std::int64_t blocks_for(const Choice& choice, std::int64_t tiles, std::int64_t columns, const Chip& chip) {
  return std::min<std::int64_t>(tiles, leaves_of_channels(choice) ? chip.sms / columns * columns : chip.sms);
}

}  // namespace nixie::cuda
