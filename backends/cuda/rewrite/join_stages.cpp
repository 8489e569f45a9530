// Makes a reduction and the kernels behind it that go over the same positions one kernel, so that planes of halves are
// filled by the kernel that makes their values, or at least by the one that finds their scales.
//
// The first kernel's values are handed over in registers: what it keeps is carried, what it stores at each position is
// computed again by the stages that want it. A value that then nobody reads is not stored.
#include <algorithm>
#include <map>
#include <set>

#include "nixie/backends/cuda/families/portable.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/touched.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A store of the first kernel that the next one loads.
struct Handed {
  std::size_t stage = 0;
  int value = 0;
};

// Appends the stages of one kernel to those of another.
class Joining {
 public:
  Joining(const Kernel& first, const Kernel& next) : first_(first), next_(next), result_(first) {}

  std::optional<Kernel> operator()(const Plan& plan) {
    if (!find_loads(plan) || !stores_apart()) return {};
    result_.carried.insert(result_.carried.end(), next_.carried.begin(), next_.carried.end());
    result_.stores.insert(result_.stores.end(), next_.stores.begin(), next_.stores.end());
    for (const Stage& stage : next_.stages)
      if (!append(stage)) return {};
    return std::move(result_);
  }

 private:
  // Where each load of the next kernel comes from: a store, or a load of the result.
  bool find_loads(const Plan& plan) {
    for (const Access& load : next_.loads) {
      loads_.push_back(-1);
      const bool is_made = writes(first_, load.slot);
      handed_.push_back(is_made && dtype_of(plan, load.slot) == Dtype::f32 ? stored(load) : std::nullopt);
      if (is_made && !handed_.back()) return false;
      if (!is_made) loads_.back() = find_or_add(result_.loads, load);
    }
    return true;
  }

  // The one value that the first kernel stores there.
  std::optional<Handed> stored(const Access& place) const {
    std::optional<Handed> found;
    for (std::size_t s = 0; s < first_.stages.size(); ++s)
      for (const Store& store : first_.stages[s].stores) {
        if (first_.stores[at(store.access)] != place) continue;
        if (found || first_.stages[s].body[at(store.value)].type != Dtype::f32) return {};
        found = {s, store.value};
      }
    return found;
  }

  bool stores_apart() const {
    return std::ranges::none_of(
        next_.stores, [&](const Access& store) { return reads(first_, store.slot) || writes(first_, store.slot); });
  }

  int carried_before() const { return static_cast<int>(first_.carried.size()); }

  // The first stage of the result, behind those of the earlier stages of the next kernel, that may do this one's work,
  // too: what it reads is made by then. Else the end.
  std::size_t place_of(const Stage& stage) const {
    std::size_t place = placed_;
    for (const Instruction& in : stage.body)
      if (in.primitive == Primitive::load && handed_[at(in.index)]) {
        const std::size_t made = handed_[at(in.index)]->stage;
        place = std::max(place, first_.stages[made].full && stage.full ? made : made + 1);
      }
    while (place < result_.stages.size() && result_.stages[place].full != stage.full) ++place;
    return place;
  }

  bool append(const Stage& stage) {
    const std::size_t place = place_of(stage);
    if (place == result_.stages.size()) result_.stages.push_back({.full = stage.full});
    placed_ = place + 1;
    copied_.clear();
    if (place < first_.stages.size())  // its registers keep their numbers
      for (int i = 0; i < std::ssize(first_.stages[place].body); ++i) copied_[{place, i}] = i;
    InstructionBuilder code{std::move(result_.stages[place].body)};
    bool is_possible = true;
    const std::vector<int> moved = code.append(stage.body, [&](Instruction in) {
      if (in.primitive == Primitive::carried) in.index += carried_before();
      if (in.primitive != Primitive::load) return code.add(in);
      if (const std::optional<Handed> from = handed_[at(in.index)]) {
        const std::optional<int> value = take(*from, stage.full, code);
        is_possible &= value.has_value();
        return value.value_or(0);
      }
      in.index = loads_[at(in.index)];
      return code.add(in);
    });
    if (!is_possible) return false;
    Stage& into = result_.stages[place];
    into.body = std::move(code.body);
    for (const Store& store : stage.stores)
      into.stores.push_back({moved[at(store.value)], store.access + static_cast<int>(first_.stores.size())});
    for (const auto& [kind, value, carried] : stage.reductions)
      into.reductions.push_back({kind, moved[at(value)], carried + carried_before()});
    for (const auto& [value, carried] : stage.carries)
      into.carries.push_back({moved[at(value)], carried + carried_before()});
    return true;
  }

  // The register of a value that the first kernel stored.
  std::optional<int> take(const Handed& from, bool full, InstructionBuilder& code) {
    if (first_.stages[from.stage].full) return full ? copy(from.stage, from.value, code) : std::nullopt;
    std::vector<Carry>& carries = result_.stages[from.stage].carries;
    auto carry = std::ranges::find(carries, from.value, &Carry::value);
    if (carry == carries.end()) {
      carry = carries.insert(carries.end(), {from.value, static_cast<int>(result_.carried.size())});
      result_.carried.push_back(Dtype::f32);
    }
    return code.add({.primitive = Primitive::carried, .index = carry->carried});
  }

  // Computes a register of one of the first kernel's stages again.
  std::optional<int> copy(std::size_t stage, int value, InstructionBuilder& code) {
    if (const auto known = copied_.find({stage, value}); known != copied_.end()) return known->second;
    Instruction in = first_.stages[stage].body[at(value)];
    const bool is_overwritten = in.primitive == Primitive::load && writes(first_, first_.loads[at(in.index)].slot);
    if (is_overwritten || (arity(in.primitive) > 0 && !is_cheap(in.primitive))) return {};
    for (int& arg : in.args)
      if (arg >= 0) {
        const std::optional<int> copied = copy(stage, arg, code);
        if (!copied) return {};
        arg = *copied;
      }
    return copied_[{stage, value}] = code.add(in);
  }

  const Kernel &first_, &next_;
  Kernel result_;
  std::size_t placed_ = 0;                             // behind the last stage that does work of the next kernel
  std::vector<std::optional<Handed>> handed_;          // by load of the next kernel
  std::vector<int> loads_;                             // the same of the result, of those that are not handed over
  std::map<std::pair<std::size_t, int>, int> copied_;  // registers of the first kernel in this stage
};

// Blocks that share a reduction go on in one launch where the last stage only stores (generate/reduce.cpp).
bool ends_with_stores(const Kernel& kernel) {
  const Stage& last = kernel.stages.back();
  return last.full && last.reductions.empty();
}

std::optional<Kernel> joined(const Plan& plan, const Kernel& first, const Kernel& next) {
  const bool one_map = next.reduced.empty() && next.stages.size() == 1;
  if (first.head || next.head || first.reduced.empty() || first.domain != next.domain ||
      (next.reduced != first.reduced && !one_map) || !ends_with_stores(next))
    return {};
  return Joining(first, next)(plan);
}

class Pass {
 public:
  explicit Pass(Grouping& grouping) : grouping_(grouping), kernels_(grouping.groups.size()) {
    for (std::size_t g = 0; g < grouping_.groups.size(); ++g) note(g, Touched(grouping_.groups[g]));
  }

  void operator()() {
    std::vector<Grouping::Group>& groups = grouping_.groups;
    // From behind: a kernel joins its maker with all that has joined it.
    for (std::size_t g = groups.size(); g-- > 0;)
      if (is_candidate(g)) join(g);
    const std::set<int> read = slots_read_by_programs();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!kernels_[g] || groups[g].members.empty()) continue;
      keep_stores(*kernels_[g], read);
      groups[g].by = std::make_shared<Implementers>();
      groups[g].by->choices = {{.family = &reduce(), .kernel = std::move(*kernels_[g])}};
    }
    std::erase_if(groups, [](const Grouping::Group& group) { return group.members.empty(); });
  }

 private:
  bool is_candidate(std::size_t g) const {
    return !grouping_.groups[g].by && (kernels_[g] || grouping_.groups[g].members.size() == 1);
  }
  const Kernel& kernel(std::size_t g) const { return kernels_[g] ? *kernels_[g] : grouping_.groups[g].members[0]; }

  // The last group before `g` of those that a slot has.
  static std::optional<std::size_t> last_before(const std::map<int, std::set<std::size_t>>& all, int slot,
                                                std::size_t g) {
    const auto found = all.find(slot);
    if (found == all.end()) return {};
    const auto behind = found->second.lower_bound(g);
    return behind == found->second.begin() ? std::nullopt : std::optional(*std::prev(behind));
  }

  // Joins a kernel with the last one that writes what it reads, if no group between touches what it writes.
  void join(std::size_t g) {
    const Kernel& next = kernel(g);
    std::optional<std::size_t> maker;
    for (const Access& load : next.loads) maker = std::max(maker, last_before(writers_, load.slot, g));
    if (!maker || !is_candidate(*maker)) return;
    for (const Access& store : next.stores)
      if (last_before(touchers_, store.slot, g) > maker) return;
    std::optional<Kernel> whole = joined(grouping_.plan, kernel(*maker), next);
    if (!whole) return;
    kernels_[*maker] = std::move(whole);
    Grouping::Group &from = grouping_.groups[g], &into = grouping_.groups[*maker];
    note(*maker, Touched(from));
    std::move(from.members.begin(), from.members.end(), std::back_inserter(into.members));
    from.members.clear();
  }

  void note(std::size_t g, const Touched& touched) {
    for (int slot : touched.writes) writers_[slot].insert(g), touchers_[slot].insert(g);
    for (int slot : touched.reads) touchers_[slot].insert(g);
  }

  // The slots that programs read. What members of groups read in place of these needs no memory.
  std::set<int> slots_read_by_programs() const {
    std::set<int> slots;
    const auto add = [&](const std::vector<int>& some) { slots.insert(some.begin(), some.end()); };
    for (std::size_t g = 0; g < kernels_.size(); ++g) {
      const Grouping::Group& group = grouping_.groups[g];
      if (group.by)
        add(slots_read(group.by->choices.front()));
      else if (kernels_[g] && !group.members.empty())
        add(nixie::slots_read(*kernels_[g]));
      else
        for (const Kernel& member : group.members) add(nixie::slots_read(member));
    }
    return slots;
  }

  void keep_stores(Kernel& kernel, const std::set<int>& read) const {
    std::vector<Access> stores;
    for (Stage& stage : kernel.stages)
      std::erase_if(stage.stores, [&](Store& store) {
        const Access& access = kernel.stores[at(store.access)];
        if (!read.contains(access.slot) && !grouping_.plan.slots[at(access.slot)].external) return true;
        store.access = static_cast<int>(stores.size());
        stores.push_back(access);
        return false;
      });
    kernel.stores = std::move(stores);
  }

  Grouping& grouping_;
  std::vector<std::optional<Kernel>> kernels_;               // of groups that others joined
  std::map<int, std::set<std::size_t>> writers_, touchers_;  // by slot: groups that write it; that read or write it
};

}  // namespace

void join_stages(Grouping& grouping) { Pass{grouping}(); }

}  // namespace nixie::cuda
