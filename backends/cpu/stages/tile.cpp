// TileMachine: where each register's lanes come from and where they go.
#include "nixie/backends/cpu/stages/tile.h"

#include <algorithm>
#include <cstring>

#include "nixie/backends/cpu/lanes/random.h"
#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {
namespace {

// A little more than the lanes take, so that equal lanes of two buffers are not 4 KiB apart.
constexpr std::int64_t kBufferBytes = kTileLanes * 8 + 192;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

template <class T>
void fill(std::byte* lanes, std::int64_t count, T value) {
  std::fill_n(reinterpret_cast<T*>(lanes), count, value);
}

void fill(std::byte* lanes, Dtype type, std::int64_t count, double value) {
  visit_compute_dtype(type, [&]<class T>(T) { fill(lanes, count, convert<T>(value)); });
}

constexpr std::int64_t kLine = 64;  // bytes

// One value per kept position, repeated for the reduced positions of a tile.
template <class Bits>
void spread(const std::byte* from, const TileShape& shape, std::byte* to) {
  const Bits* values = reinterpret_cast<const Bits*>(from);
  Bits* lanes = reinterpret_cast<Bits*>(to);
  if (shape.columns) {
    for (std::int64_t row = 0; row < shape.reduced; ++row) std::copy_n(values, shape.kept, lanes + row * shape.kept);
  } else {
    for (std::int64_t k = 0; k < shape.kept; ++k) std::fill_n(lanes + k * shape.reduced, shape.reduced, values[k]);
  }
}

}  // namespace

void TileMachine::Free::operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t(64)); }

TileMachine::Memory TileMachine::make_memory(std::int64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes), std::align_val_t(64)));
  std::memset(memory, 0, static_cast<std::size_t>(bytes));  // lanes past a tile's end are computed with, never kept
  return Memory(memory);
}

TileMachine& TileMachine::of_this_thread(const Bound& bound) {
  thread_local TileMachine machine;
  if (machine.run_ != bound.run) machine.prepare(bound);
  return machine;
}

void TileMachine::prepare(const Bound& bound) {
  const Program& program = bound.program;
  bound_ = &bound;
  run_ = bound.run;
  const auto reserve = [](Memory& memory, std::int64_t& have, std::int64_t want) {
    if (want <= have) return;
    memory = make_memory(want);
    have = want;
  };
  reserve(buffers_, buffers_bytes_, program.buffers() * kBufferBytes);
  reserve(carried_, carried_bytes_, static_cast<std::int64_t>(program.kernel().carried.size()) * kTileLanes * 8);
  if (program.reduced_position_view() >= 0 && !positions_) positions_ = make_memory(kTileLanes * 4);
  contents_.assign(at(program.steps()), {});
  stored_.assign(program.kernel().stores.size(), false);
  wanted_.clear();
  wanted_lines_ = 0;
  const std::int64_t lanes = round_up_lanes(program.tile_lanes());
  for (const StageProgram& stage : program.stages())
    for (const Step& step : stage.steps) {
      if (!step.live) continue;
      if (step.code.primitive == Primitive::constant) fill(buffer(step), step.code.type, lanes, step.code.value);
      if (step.code.primitive == Primitive::scalar)
        fill(buffer(step), step.code.type, lanes, bound.scalars[at(step.code.index)]);
    }
}

void TileMachine::start(const StageProgram& stage, Carried carried) {
  stage_ = &stage;
  carries_ = carried;
  ++start_id_;
  if (registers_.size() < stage.steps.size()) registers_.resize(stage.steps.size());
}

std::byte* TileMachine::buffer(const Step& step) const { return buffers_.get() + step.buffer * kBufferBytes; }

// Memory answers late, and processors foresee runs inside a page alone; a burst of questions would hold up the core.
void TileMachine::expect(const StageProgram& stage, const Box& box) {
  const Program& program = bound_->program;
  for (const Step& step : stage.steps)
    if (step.live && step.code.primitive == Primitive::load && !step.pinned)
      want(program.geometry().walk(at(step.view)), box, bound_->memory[at(step.view)], bound_->types[at(step.view)],
           false);
  for (const Store& store : stage.stores) {
    const std::size_t view = at(program.view_of_store(store.access));
    if (bound_->direct[at(store.access)] && !bound_->streamed[at(store.access)])  // others were read
      want(program.geometry().walk(view), box, bound_->memory[view], bound_->types[view], true);
  }
}

void TileMachine::want(const Walk& walk, const Box& box, const std::byte* memory, Dtype type, bool writes) {
  if (walk.bounded) return;
  const std::int64_t size = size_of(type);
  for_each_row(walk, box, [&](std::int64_t, std::int64_t start, std::int64_t stride, std::int64_t count) {
    if (stride != 1 || count * size < kLine) return;
    const std::byte* begin = memory + start * size;
    wanted_.push_back({begin, begin + count * size, writes});
    wanted_lines_ += count * size / kLine + 1;
  });
}

void TileMachine::ask(std::int64_t lines) {
  while (!wanted_.empty()) {
    Wanted& wanted = wanted_.back();
    for (; wanted.begin < wanted.end; wanted.begin += kLine) {
      if (lines-- == 0) return;
      if (wanted.writes)
        __builtin_prefetch(wanted.begin, 1);
      else
        __builtin_prefetch(wanted.begin);
    }
    wanted_.pop_back();
  }
}

void TileMachine::run(const Box& box, const TileShape& shape) {
  lanes_ = shape.kept * shape.reduced;
  padded_ = round_up_lanes(lanes_);
  const std::int64_t each = wanted_lines_ / std::max<std::int64_t>(1, stage_->computing) + 1;
  for (const Store& store : stage_->stores) stored_[at(store.access)] = false;
  for (std::size_t i = 0; i < stage_->steps.size(); ++i) {
    const Step& step = stage_->steps[i];
    if (!step.live) continue;
    if (step.function) {
      const auto arg = [&](int k) -> const void* {
        return step.args[at(k)] < 0 ? nullptr : registers_[at(step.args[at(k)])];
      };
      void* out = result(step, box);
      ask(each);
      step.function(arg(0), arg(1), arg(2), out, padded_);
      registers_[i] = out;
    } else {
      registers_[i] = value(step, i, box, shape);
    }
  }
  const Program& program = bound_->program;
  for (const Store& store : stage_->stores) {
    if (stored_[at(store.access)] || store.access == bound_->skipped_store) continue;
    const std::size_t view = at(program.view_of_store(store.access));
    if (stream_lanes(store, view, box)) continue;
    store_lanes(registers_[at(store.value)], program.geometry().walk(view), box, bound_->memory[view],
                bound_->types[view]);
  }
  for (const Carry& carry : stage_->carries)
    std::memcpy(carries_[carry.carried], registers_[at(carry.value)],
                static_cast<std::size_t>(lanes_ * size_of(program.kernel().carried[at(carry.carried)])));
  ask(wanted_lines_);
  wanted_.clear();
  wanted_lines_ = 0;
}

// Writes a tile that is one run of a streamed slot.
bool TileMachine::stream_lanes(const Store& store, std::size_t view, const Box& box) const {
  const Dtype type = stage_->steps[at(store.value)].code.type;
  if (!bound_->streamed[at(store.access)] || bound_->types[view] != type) return false;
  const std::int64_t element = contiguous_start(bound_->program.geometry().walk(view), box);
  if (element < 0) return false;
  visit_compute_dtype(type, [&]<class T>(T) {
    stream_row(static_cast<const T*>(registers_[at(store.value)]), lanes_,
               reinterpret_cast<T*>(bound_->memory[view]) + element);
  });
  return true;
}

// The slot itself where the whole tile is one run in it, else the step's buffer.
void* TileMachine::result(const Step& step, const Box& box) {
  if (step.direct >= 0 && bound_->direct[at(step.direct)] && !bound_->streamed[at(step.direct)] && lanes_ == padded_) {
    const std::size_t view = at(bound_->program.view_of_store(step.direct));
    const std::int64_t element = contiguous_start(bound_->program.geometry().walk(view), box);
    if (element >= 0) {
      stored_[at(step.direct)] = true;
      return bound_->memory[view] + element * size_of(step.code.type);
    }
  }
  return buffer(step);
}

const void* TileMachine::value(const Step& step, std::size_t number, const Box& box, const TileShape& shape) {
  switch (step.code.primitive) {
    case Primitive::load:
    case Primitive::head:
      return load(step, number, box);
    case Primitive::carried:
      return carried(step, number, box, shape);
    case Primitive::coordinate:
      return coordinates(step, box);
    case Primitive::uniform:
    case Primitive::normal:
      return random(step, box);
    default:  // constants and scalars were filled when the run began
      return buffer(step);
  }
}

bool TileMachine::holds(const Step& step, std::size_t number, std::uint64_t start_id, std::int64_t element,
                        bool uniform, const Box& box) {
  if (!step.pinned) return false;
  Content& content = contents_[at(stage_->first_step) + number];
  if (content.start_id == start_id && content.element == element) {
    if (uniform && content.uniform && lanes_ <= content.lanes) return true;
    bool same = lanes_ == content.lanes;
    for (int axis = 0; axis < box.rank; ++axis) same &= content.extent[at(axis)] == box.extent[at(axis)];
    if (same) return true;
  }
  content = {start_id, element, lanes_, uniform, box.extent};
  return false;
}

const void* TileMachine::load(const Step& step, std::size_t number, const Box& box) {
  const Walk& walk = bound_->program.geometry().walk(at(step.view));
  const bool is_head = step.code.primitive == Primitive::head;
  const std::byte* memory = is_head ? bound_->head : bound_->memory[at(step.view)];
  const Dtype type = is_head ? step.code.type : bound_->types[at(step.view)];
  // A value that is stored, reduced or carried unchanged must not change with memory that a store writes.
  const bool stays = is_head || !step.outlives || bound_->readable[at(step.view)] > 0;
  if (type == step.code.type && stays) {
    const std::int64_t element = contiguous_start(walk, box);
    const bool whole = lanes_ == padded_ || (!is_head && element + padded_ <= bound_->readable[at(step.view)]);
    if (element >= 0 && whole) return memory + element * size_of(type);
  }
  if (holds(step, number, 1, start_of(walk, box), repeats_one_element(walk, box), box)) return buffer(step);
  const double other = is_head ? 0 : bound_->program.kernel().loads[at(step.view)].fill;
  load_lanes(memory, type, walk, other, box, buffer(step));
  return buffer(step);
}

const void* TileMachine::carried(const Step& step, std::size_t number, const Box& box, const TileShape& shape) {
  const std::byte* values = carries_[step.code.index];
  if (shape.reduced == 1) return values;
  if (holds(step, number, start_id_, 0, shape.kept == 1, box)) return buffer(step);
  if (size_of(step.code.type) == 4)
    spread<std::uint32_t>(values, shape, buffer(step));
  else
    spread<std::uint64_t>(values, shape, buffer(step));
  return buffer(step);
}

namespace {

void count_up(const Walk& walk, const Box& box, std::int32_t* lanes) {
  for_each_row(walk, box, [&](std::int64_t lane, std::int64_t start, std::int64_t stride, std::int64_t count) {
    const auto first = static_cast<std::int32_t>(start), step = static_cast<std::int32_t>(stride);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(count); ++i) lanes[lane + i] = first + i * step;
  });
}

}  // namespace

const void* TileMachine::coordinates(const Step& step, const Box& box) const {
  count_up(bound_->program.geometry().walk(at(step.view)), box, reinterpret_cast<std::int32_t*>(buffer(step)));
  return buffer(step);
}

const std::int32_t* TileMachine::positions(int view, const Box& box) {
  auto* lanes = reinterpret_cast<std::int32_t*>(positions_.get());
  count_up(bound_->program.geometry().walk(at(view)), box, lanes);
  return lanes;
}

const void* TileMachine::random(const Step& step, const Box& box) const {
  const auto draw = static_cast<std::uint32_t>(*static_cast<const std::int32_t*>(registers_[at(step.code.args[0])]));
  float* const numbers = reinterpret_cast<float*>(buffer(step));
  for_each_row(bound_->program.geometry().walk(at(step.view)), box,
               [&, first = static_cast<std::int64_t>(step.code.value)](std::int64_t lane, std::int64_t from,
                                                                       std::int64_t stride, std::int64_t count) {
                 const std::int64_t start = first + from;
                 const bool normal = step.code.primitive == Primitive::normal;
                 if (stride == 1) return random_lanes(normal, step.code.stream, draw, start, count, numbers + lane);
                 for (std::int64_t i = 0; i < count; ++i)
                   random_lanes(normal, step.code.stream, draw, start + i * stride, 1, numbers + lane + i);
               });
  return buffer(step);
}

}  // namespace nixie::cpu
