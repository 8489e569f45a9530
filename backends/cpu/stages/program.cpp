// Program: checks a kernel's stages and assigns storage to their registers.
#include "nixie/backends/cpu/stages/program.h"

#include <algorithm>
#include <limits>

#include "nixie/core/graph/plan_query.h"

namespace nixie::cpu {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool uses(const Kernel& kernel, Primitive primitive, int index, bool in_full_stage) {
  for (const Stage& stage : kernel.stages)
    if (stage.full || !in_full_stage)
      for (const Instruction& code : stage.body)
        if (code.primitive == primitive && (index < 0 || code.index == index)) return true;
  return false;
}

bool stores_in_full_stage(const Kernel& kernel, int access) {
  for (const Stage& stage : kernel.stages)
    for (const Store& store : stage.stores)
      if (stage.full && store.access == access) return true;
  return false;
}

View view_of(const Access& access, const Kernel& kernel, bool in_full_stage) {
  check(access.strides.size() == at(kernel.domain.rank()) &&
            (access.inside.empty() || access.inside.size() == access.strides.size()),
        "cpu: kernel ", kernel.label, " has an access of other rank than its domain ", kernel.domain);
  View view{.offset = access.offset, .strides = access.strides, .inside = access.inside};
  if (!in_full_stage)
    for (int axis : kernel.reduced) view.strides[at(axis)] = 0;
  return view;
}

bool is_row_major(const Access& access, const Shape& domain) {
  const Strides dense = domain.row_major();
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (domain[axis] != 1 && access.strides[at(axis)] != dense[at(axis)]) return false;
  return access.inside.empty();
}

Fold fold_of(const Reduction& reduction, const Stage& stage) {
  switch (reduction.kind) {
    case ReduceKind::sum:
      return Fold::sum;
    case ReduceKind::prod:
      return Fold::prod;
    case ReduceKind::max:
      return Fold::max;
    case ReduceKind::min:
      return Fold::min;
    case ReduceKind::argmax:
      return Fold::argmax;
    case ReduceKind::argmin:
      return Fold::argmin;
    case ReduceKind::m2:
      return Fold::moments;
    case ReduceKind::mean:
      break;
  }
  const bool with_m2 = std::any_of(stage.reductions.begin(), stage.reductions.end(), [&](const Reduction& other) {
    return other.kind == ReduceKind::m2 && other.value == reduction.value;
  });
  return with_m2 ? Fold::moments : Fold::sum;
}

}  // namespace

Program::Program(const Kernel& kernel, const std::vector<Slot>& slots) : kernel_(kernel), geometry_(make_geometry()) {
  int temporaries = 0;
  for (const Stage& stage : kernel_.stages) {
    compile(stage);
    choose_direct_stores(stages_.back(), slots);
    check_types(stage, slots);
    for (const Step& step : stages_.back().steps)
      if (!step.pinned) temporaries = std::max(temporaries, step.buffer + 1);
  }
  for (StageProgram& stage : stages_)
    for (Step& step : stage.steps)
      if (step.pinned) step.buffer += temporaries;
  buffers_ = temporaries + pinned_;
  if (kernel_.head) find_head_store(slots);
}

std::int64_t Program::tile_lanes() const {
  const bool empty = geometry_.kept().positions == 0 || geometry_.reduced().positions == 0;
  if (kernel_.head) return std::min(kTileLanes, geometry_.kept().positions);
  if (empty) return kTileLanes;
  Box box = geometry_.kept_tile(0);
  geometry_.move(box, 0);
  return box.lanes();
}

Geometry Program::make_geometry() {
  const std::vector<View> views = make_views();
  return Geometry(kernel_, views, kernel_.head.has_value(), finds_positions(kernel_));
}

std::vector<View> Program::make_views() {
  const Shape& domain = kernel_.domain;
  check(!kernel_.head || kernel_.reduced.empty(), "cpu: kernel ", kernel_.label, " has a head and reduced axes");
  std::vector<View> views;
  for (std::size_t i = 0; i < kernel_.loads.size(); ++i)
    views.push_back(view_of(kernel_.loads[i], kernel_, uses(kernel_, Primitive::load, static_cast<int>(i), true)));
  for (std::size_t i = 0; i < kernel_.stores.size(); ++i)
    views.push_back(view_of(kernel_.stores[i], kernel_, stores_in_full_stage(kernel_, static_cast<int>(i))));

  coordinate_views_.assign(at(domain.rank()), -1);
  for (int axis = 0; axis < domain.rank(); ++axis) {
    if (!uses(kernel_, Primitive::coordinate, axis, false)) continue;
    coordinate_views_[at(axis)] = static_cast<int>(views.size());
    View view{.strides = Strides(at(domain.rank())), .in_memory = false};
    view.strides[at(axis)] = 1;
    views.push_back(view);
  }
  if (kernel_.head || uses(kernel_, Primitive::uniform, -1, false) || uses(kernel_, Primitive::normal, -1, false)) {
    row_major_view_ = static_cast<int>(views.size());
    views.push_back({.strides = domain.row_major(), .in_memory = false});
  }
  if (finds_positions(kernel_)) {
    reduced_position_view_ = static_cast<int>(views.size());
    View view{.strides = Strides(at(domain.rank())), .in_memory = false};
    std::int64_t stride = 1;
    for (auto axis = kernel_.reduced.rbegin(); axis != kernel_.reduced.rend(); ++axis) {
      view.strides[at(*axis)] = stride;
      stride *= domain[*axis];
    }
    views.push_back(view);
  }
  return views;
}

void Program::compile(const Stage& stage) {
  StageProgram program;
  program.full = stage.full;
  program.stores = stage.stores;
  program.carries = stage.carries;
  program.first_step = steps_;
  check(stage.full || stage.reductions.empty(), "cpu: kernel ", kernel_.label, " reduces in a kept stage");
  for (int reg = 0; reg < static_cast<int>(stage.body.size()); ++reg) program.steps.push_back(compile(stage, reg));
  const std::vector<int> uses = count_uses(program, stage);
  join_pairs(program, uses);
  place_registers(program, uses);
  program.computing = std::count_if(program.steps.begin(), program.steps.end(),
                                    [](const Step& step) { return step.live && step.function; });
  group_reductions(program, stage);
  steps_ += static_cast<int>(program.steps.size());
  stages_.push_back(std::move(program));
}

Step Program::compile(const Stage& stage, int reg) const {
  const Instruction& code = stage.body[at(reg)];
  Step step{.code = code};
  std::copy_n(code.args.begin(), arity(code.primitive), step.args.begin());
  Dtype from = code.type;
  for (int i = 0; i < arity(code.primitive); ++i) {
    const int arg = code.args[at(i)];
    check(arg >= 0 && arg < reg, "cpu: kernel ", kernel_.label, " reads register ", arg, " before it is written");
    from = stage.body[at(arg)].type;
    const bool converts = code.primitive == Primitive::cast;
    const bool draws = code.primitive == Primitive::uniform || code.primitive == Primitive::normal;
    check(converts || from == (draws ? Dtype::i32 : code.type), "cpu: kernel ", kernel_.label, ": ", code.type, " ",
          to_string(code.primitive), " reads a register of type ", from);
  }
  switch (code.primitive) {
    case Primitive::constant:
    case Primitive::scalar:
      step.pinned = true;
      break;
    case Primitive::load:
      check(at(code.index) < kernel_.loads.size(), "cpu: kernel ", kernel_.label, " has no load ", code.index);
      step.view = code.index;
      step.pinned = geometry_.repeats(at(step.view));
      break;
    case Primitive::head:
      check(kernel_.head && compute_dtype(kernel_.head->dtype) == code.type, "cpu: kernel ", kernel_.label,
            " reads a head of type ", code.type, " that it has not");
      step.view = row_major_view_;
      break;
    case Primitive::carried:
      check(at(code.index) < kernel_.carried.size() && kernel_.carried[at(code.index)] == code.type, "cpu: kernel ",
            kernel_.label, " has no carried value ", code.index, " of type ", code.type);
      step.pinned = stage.full && geometry_.reduced().positions != 1;
      break;
    case Primitive::coordinate:
      step.view = coordinate_views_[at(code.index)];
      break;
    case Primitive::uniform:
    case Primitive::normal:
      step.view = row_major_view_;
      break;
    default:
      step.function = lane_function(code.primitive, code.type, from);
      check(step.function != nullptr, "cpu: ", to_string(code.primitive), " is not defined for ", code.type);
  }
  return step;
}

// How often each register is read, kForever where it outlives the body. Marks the steps that lead to one of these:
// passes may leave others.
std::vector<int> Program::count_uses(StageProgram& program, const Stage& stage) const {
  const int count = static_cast<int>(program.steps.size());
  std::vector<int> uses(at(count));
  const auto outlives_the_body = [&](int reg) {
    check(reg >= 0 && reg < count, "cpu: kernel ", kernel_.label, " has no register ", reg);
    uses[at(reg)] = kForever;
  };
  for (const Store& store : stage.stores) outlives_the_body(store.value);
  for (const Reduction& reduction : stage.reductions) outlives_the_body(reduction.value);
  for (const Carry& carry : stage.carries) outlives_the_body(carry.value);
  for (int reg = count - 1; reg >= 0; --reg) {
    Step& step = program.steps[at(reg)];
    step.live = uses[at(reg)] > 0;
    step.outlives = uses[at(reg)] == kForever;
    for (const int arg : step.args)
      if (step.live && arg >= 0 && uses[at(arg)] != kForever) ++uses[at(arg)];
  }
  return uses;
}

// A step that alone reads the result of another runs with it.
void Program::join_pairs(StageProgram& program, const std::vector<int>& uses) const {
  const auto is_single = [](const Step& step) { return step.live && step.function && step.args[2] < 0; };
  for (Step& step : program.steps)
    for (const std::size_t side : {0, 1}) {
      if (!is_single(step) || step.args[side] < 0 || uses[at(step.args[side])] != 1) continue;
      Step& first = program.steps[at(step.args[side])];
      if (!is_single(first) || first.code.type != step.code.type) continue;
      const LaneFunction pair = pair_function(first.code.primitive, step.code.primitive, side == 0, step.code.type);
      if (!pair) continue;
      step.function = pair;
      step.args = {first.args[0], first.args[1], step.args[1 - side]};
      first.live = false;
    }
}

void Program::place_registers(StageProgram& program, const std::vector<int>& uses) {
  const int count = static_cast<int>(program.steps.size());
  std::vector<int> last_use(at(count), -1);
  for (int reg = 0; reg < count; ++reg)
    for (const int arg : program.steps[at(reg)].args)
      if (program.steps[at(reg)].live && arg >= 0) last_use[at(arg)] = reg;
  for (int reg = 0; reg < count; ++reg)
    if (uses[at(reg)] == kForever) last_use[at(reg)] = kForever;

  int used = 0;
  std::vector<int> spare;
  for (int reg = 0; reg < count; ++reg) {
    Step& step = program.steps[at(reg)];
    if (!step.live) continue;
    if (step.pinned) {
      step.buffer = pinned_++;
      continue;
    }
    // A result never shares a buffer with an operand: the loops over lanes count on it.
    step.buffer = spare.empty() ? used++ : spare.back();
    if (!spare.empty()) spare.pop_back();
    for (int dead = 0; dead < reg; ++dead)
      if (program.steps[at(dead)].live && !program.steps[at(dead)].pinned && last_use[at(dead)] == reg)
        spare.push_back(program.steps[at(dead)].buffer);
  }
}

void Program::choose_direct_stores(StageProgram& program, const std::vector<Slot>& slots) const {
  for (const Store& store : program.stores) {
    Step& step = program.steps[at(store.value)];
    check(at(store.access) < kernel_.stores.size(), "cpu: kernel ", kernel_.label, " has no store ", store.access);
    const Slot& slot = slots[at(kernel_.stores[at(store.access)].slot)];
    if (step.function && slot.dtype == step.code.type && step.direct < 0) step.direct = store.access;
  }
}

// Memory is converted to and from the type that it is computed in, and no other.
void Program::check_types(const Stage& stage, const std::vector<Slot>& slots) const {
  const auto expect = [&](const Instruction& code, Dtype type) {
    check(code.type == type, "cpu: kernel ", kernel_.label, ": a ", code.type, " ", to_string(code.primitive),
          ", expected ", type);
  };
  const auto computed = [&](const Access& access) { return compute_dtype(slots[at(access.slot)].dtype); };
  for (const Instruction& code : stage.body) {
    if (code.primitive == Primitive::load) expect(code, computed(kernel_.loads[at(code.index)]));
    if (code.primitive == Primitive::uniform || code.primitive == Primitive::normal) expect(code, Dtype::f32);
  }
  for (const Store& store : stage.stores)
    expect(stage.body[at(store.value)], computed(kernel_.stores[at(store.access)]));
  for (const Carry& carry : stage.carries) expect(stage.body[at(carry.value)], kernel_.carried[at(carry.carried)]);
}

void Program::group_reductions(StageProgram& program, const Stage& stage) {
  int cells = 0;
  for (const Reduction& reduction : stage.reductions) {
    const Dtype type = stage.body[at(reduction.value)].type;
    const bool averages = is_moment(reduction.kind);
    check(!averages || is_floating(type), "cpu: kernel ", kernel_.label, ": ", to_string(reduction.kind),
          " of integers, expected a floating type");
    check(at(reduction.carried) < kernel_.carried.size(), "cpu: kernel ", kernel_.label, " has no carried value ",
          reduction.carried);
    const Fold fold = fold_of(reduction, stage);
    auto same = std::find_if(program.folds.begin(), program.folds.end(),
                             [&](const FoldStep& step) { return step.fold == fold && step.value == reduction.value; });
    if (same == program.folds.end()) {
      program.folds.push_back({fold, reduction.value, cells, {}});
      same = program.folds.end() - 1;
      cells += cells_of(fold);
    }
    same->results.push_back(reduction);
  }
  cells_ = std::max(cells_, cells);
}

void Program::find_head_store(const std::vector<Slot>& slots) {
  const Dtype type = compute_dtype(kernel_.head->dtype);
  for (const Stage& stage : kernel_.stages) {
    const auto is_head = [&](int reg) { return stage.body[at(reg)].primitive == Primitive::head; };
    const bool hands_on =
        std::any_of(stage.stores.begin(), stage.stores.end(), [&](const Store& store) { return is_head(store.value); });
    for (const Store& store : stage.stores) {
      const Access& access = kernel_.stores[at(store.access)];
      if (slots[at(access.slot)].dtype != type || !is_row_major(access, kernel_.domain)) continue;
      if (is_head(store.value)) {
        head_store_ = store.access;
        head_store_is_final_ = true;
        return;
      }
      // Its values replace the head's at the end of the stage, so nobody may want those later.
      if (kernel_.stages.size() == 1 && !hands_on) head_store_ = store.access;
    }
  }
}

}  // namespace nixie::cpu
