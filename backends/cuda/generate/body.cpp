// Prints loads, scalar code and stores, lane by lane.
#include "nixie/backends/cuda/generate/body.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

bool draws(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    for (const Instruction& in : stage.body)
      if (in.primitive == Primitive::uniform || in.primitive == Primitive::normal) return true;
  return false;
}

bool finds_positions(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    for (const Reduction& reduction : stage.reductions)
      if (reduction.kind == ReduceKind::argmax || reduction.kind == ReduceKind::argmin) return true;
  return false;
}

// The domain with 1 for its kept axes.
Shape reduced_sizes(const Shape& domain, const Axes& reduced) {
  Shape shape = domain;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (std::find(reduced.begin(), reduced.end(), axis) == reduced.end()) shape = shape.with(axis, 1);
  return shape;
}

// Row-major strides of a shape, 0 along axes of size 1.
Strides moving_strides(const Shape& shape) {
  Strides strides = shape.row_major();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] == 1) strides[at(axis)] = 0;
  return strides;
}

std::int64_t touched(const Shape& domain, const Path& path) {
  std::int64_t total = 1;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (path.strides[at(axis)] != 0) total *= std::max<std::int64_t>(1, domain[axis]);
  return total;
}

// Loads and stores, the most important first: what full stages store, then whatever touches most.
std::vector<int> by_importance(const Kernel& kernel, const std::vector<Path>& paths) {
  std::vector<int> order, full_stores;
  for (const Stage& stage : kernel.stages)
    for (const Store& store : stage.stores)
      if (stage.full) full_stores.push_back(static_cast<int>(kernel.loads.size()) + store.access);
  for (int p = 0; p < static_cast<int>(kernel.loads.size() + kernel.stores.size()); ++p) order.push_back(p);
  const auto rank = [&](int p) {
    const bool full = std::find(full_stores.begin(), full_stores.end(), p) != full_stores.end();
    return std::pair(full, touched(kernel.domain, paths[at(p)]));
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) > rank(b); });
  return order;
}

bool needs_64_bits(const IterationSpace& space) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max() / 2;
  if (space.kept_size() > limit || space.reduced_size() > limit) return true;
  for (const Path& path : space.paths) {
    std::int64_t reach = std::abs(path.offset);
    for (int axis = 0; axis < space.rank(); ++axis) reach += std::abs(path.strides[at(axis)]) * space.sizes[at(axis)];
    if (reach > limit) return true;
  }
  return false;
}

// An element as it would be stored.
std::string raw_literal(double value, Dtype dtype) {
  if (dtype == Dtype::f16) return fmt::format("f16{{{:#x}}}", convert<Half>(value).bits);
  if (dtype == Dtype::bf16) return fmt::format("bf16{{{:#x}}}", convert<Bfloat16>(value).bits);
  const double stored =
      visit_dtype(dtype, [&](auto element) { return convert<double>(convert<decltype(element)>(value)); });
  return fmt::format("static_cast<{}>({})", type_name(dtype), literal(stored, compute_dtype(dtype)));
}

}  // namespace

BodyWriter::BodyWriter(const Plan& plan, const Kernel& kernel, bool coordinates, Order order)
    : plan_(plan), kernel_(kernel), coordinates_(at(kernel.domain.rank()), -1) {
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses) paths_.push_back({access.offset, access.strides, access.inside});
  const std::vector<int> priority = by_importance(kernel, paths_);
  if (!priority.empty()) main_path_ = priority[0];
  const Shape& domain = kernel.domain;
  if (draws(kernel)) row_major_ = add_path(moving_strides(domain));
  if (finds_positions(kernel)) reduced_row_major_ = add_path(moving_strides(reduced_sizes(domain, kernel.reduced)));
  std::vector<bool> wanted(at(domain.rank()), coordinates);
  for (const Stage& stage : kernel.stages)
    for (const Instruction& in : stage.body)
      if (in.primitive == Primitive::coordinate) wanted[at(in.index)] = true;
  for (int axis = 0; axis < domain.rank(); ++axis) {
    Strides strides(at(domain.rank()), 0);
    strides[at(axis)] = 1;
    if (wanted[at(axis)]) coordinates_[at(axis)] = add_path(std::move(strides));
  }
  space_ = order == Order::domain ? plain_iteration_space(domain, paths_)
           : order == Order::memory
               ? make_iteration_space(domain, kernel.reduced, paths_, priority)
               : make_iteration_space(domain, {order == Order::nhwc ? 1 : domain.rank() - 1}, paths_, {});
  wide_ = needs_64_bits(space_);
}

int BodyWriter::add_path(Strides strides) {
  paths_.push_back({0, std::move(strides), {}});
  return static_cast<int>(paths_.size()) - 1;
}

std::int64_t BodyWriter::groups(const Frame& frame, int first, int last) const {
  std::int64_t total = 1;
  for (int axis = first; axis < last; ++axis) total *= space_.sizes[at(axis)];
  return frame.lane_axis >= first && frame.lane_axis < last ? total / frame.lanes : total;
}

int BodyWriter::lanes_along(int axis) const {
  if (axis < 0) return 1;
  std::int64_t smallest = 16;
  for (std::size_t p = 0; p < kernel_.loads.size() + kernel_.stores.size(); ++p) {
    const Access& access = p < kernel_.loads.size() ? kernel_.loads[p] : kernel_.stores[p - kernel_.loads.size()];
    if (space_.paths[p].strides[at(axis)] == 1)
      smallest = std::min(smallest, size_of(plan_.slots[at(access.slot)].dtype));
  }
  int lanes = static_cast<int>(std::min<std::int64_t>(8, 16 / smallest));
  // All that a thread reads and writes is in registers at once, up to some 200.
  const std::size_t accesses = kernel_.loads.size() + kernel_.stores.size();
  while (lanes > 1 && accesses > 48 && at(lanes) * accesses > 200) lanes /= 2;
  while (space_.sizes[at(axis)] % lanes != 0) lanes /= 2;
  return lanes;
}

int BodyWriter::pieces_along(int axis) const {
  if (axis < 0 || axis >= space_.rank()) return 1;
  int lanes = lanes_along(axis);
  const auto is_piece = [&](const Path& path) {
    return path.strides[at(axis)] != 1 || vector_access(path, {.lane_axis = axis, .lanes = lanes});
  };
  const auto accesses = static_cast<std::ptrdiff_t>(kernel_.loads.size() + kernel_.stores.size());
  while (lanes > 1 && !std::all_of(space_.paths.begin(), space_.paths.begin() + accesses, is_piece)) lanes /= 2;
  return lanes;
}

bool BodyWriter::contiguous_along(int axis) const {
  return axis >= 0 && axis < space_.rank() && main_path_ >= 0 &&
         std::abs(space_.paths[at(main_path_)].strides[at(axis)]) == 1;
}

std::string BodyWriter::pointer(const std::string& type, const std::string& name, Argument argument) {
  for (const auto& [known_type, known] : pointers_)
    if (known == name) return name;
  pointers_.emplace_back(type, name);
  arguments_.push_back(argument);
  return name;
}

std::string BodyWriter::pointers() const {
  std::string text;
  for (const auto& [type, name] : pointers_) text += fmt::format("  {} {};\n", type, name);
  return text;
}

bool BodyWriter::written(int slot) const {
  const Slot& mine = plan_.slots[at(slot)];
  for (const Access& access : kernel_.stores) {
    if (access.slot == slot) return true;
    const Slot& other = plan_.slots[at(access.slot)];
    if (!mine.external && !other.external && mine.offset < other.offset + other.size_bytes() &&
        other.offset < mine.offset + mine.size_bytes())
      return true;
  }
  return false;
}

std::string BodyWriter::positions(const Frame& frame, const std::string& group, int first, int last) const {
  std::string text;
  std::int64_t inner = 1;
  for (int axis = last - 1; axis >= first; --axis) {
    const int step = axis == frame.lane_axis ? frame.lanes : 1;
    const std::int64_t size = space_.sizes[at(axis)] / step;
    std::string value = group;
    if (inner > 1) value += fmt::format(" / {}", inner);
    if (axis > first) value += fmt::format(" % {}", size);
    if (step > 1) value += fmt::format(" * {}", step);
    text = fmt::format("    const Index a{} = {};\n", axis, value) + text;
    inner *= size;
  }
  return text;
}

std::int64_t BodyWriter::lane_stride(const Path& path, const Frame& frame) const {
  return frame.lane_axis < 0 ? 0 : path.strides[at(frame.lane_axis)];
}

// The path's value without its offset, which is in the pointer.
std::string BodyWriter::index(const Path& path, const Frame& frame, const std::string& lane) const {
  std::string text;
  for (int axis = 0; axis < (frame.kept_only ? space_.kept : space_.rank()); ++axis) {
    const std::int64_t stride = path.strides[at(axis)];
    if (stride == 0) continue;
    text += (text.empty() ? "" : " + ") + fmt::format("a{}", axis);
    if (stride != 1) text += fmt::format(" * ({})", stride);
  }
  const std::int64_t stride = lane_stride(path, frame);
  if (!lane.empty() && stride != 0) {
    text += (text.empty() ? "" : " + ") + lane;
    if (stride != 1) text += fmt::format(" * ({})", stride);
  }
  return text.empty() ? "0" : text;
}

std::string BodyWriter::condition(const Path& path, const Frame& frame, const std::string& lane) const {
  std::string text;
  for (int axis = 0; axis < (frame.kept_only ? space_.kept : space_.rank()); ++axis) {
    const std::int64_t size = space_.sizes[at(axis)];
    if (!path.bounded(axis, size)) continue;
    const auto [low, high] = path.inside[at(axis)];
    const std::string a =
        axis == frame.lane_axis && !lane.empty() ? fmt::format("a{} + {}", axis, lane) : fmt::format("a{}", axis);
    if (low > 0) text += fmt::format("{}{} >= {}", text.empty() ? "" : " && ", a, low);
    if (high < size) text += fmt::format("{}{} < {}", text.empty() ? "" : " && ", a, high);
  }
  return text;
}

std::string BodyWriter::coordinate(int axis, const Frame& frame, const std::string& lane) const {
  return index(space_.paths[at(coordinates_[at(axis)])], frame, lane);
}

// Whether a group's lanes are one aligned piece of memory, all inside or all outside.
bool BodyWriter::vector_access(const Path& path, const Frame& frame) const {
  if (frame.lanes == 1 || lane_stride(path, frame) != 1 || path.offset % frame.lanes != 0) return false;
  if (path.bounded(frame.lane_axis, space_.sizes[at(frame.lane_axis)])) return false;
  for (int axis = 0; axis < space_.rank(); ++axis)
    if (axis != frame.lane_axis && path.strides[at(axis)] % frame.lanes != 0) return false;
  return true;
}

// Whether all lanes of a group read the same element.
bool BodyWriter::loads_once(const Path& path, const Frame& frame) const {
  return frame.lanes == 1 ||
         (lane_stride(path, frame) == 0 && !path.bounded(frame.lane_axis, space_.sizes[at(frame.lane_axis)]));
}

// Whether a load gives the same call after call, from memory that this kernel leaves alone.
bool BodyWriter::is_fixed(int load, const Frame& frame) const {
  if (!frame.moving || written(kernel_.loads[at(load)].slot)) return false;
  const Path& path = space_.paths[at(load)];
  for (int axis = frame.moving->first; axis < frame.moving->second; ++axis)
    if (path.strides[at(axis)] != 0 || path.bounded(axis, space_.sizes[at(axis)])) return false;
  return true;
}

void BodyWriter::add_load(int load, const Frame& frame, Code& code) {
  const Access& access = kernel_.loads[at(load)];
  const Path& path = space_.paths[at(load)];
  const Slot& slot = plan_.slots[at(access.slot)];
  const std::string type = type_name(slot.dtype), name = fmt::format("load{}", load);
  const bool fixed = is_fixed(load, frame);
  const std::string into = fixed ? "fixed" : "loads";
  std::string &members = fixed ? code.fixed_members : code.members, &text = fixed ? code.fixed_load : code.load;
  if (members.find(" " + name + ";") != std::string::npos) return;
  pointer("const " + type + "*", name, {access.slot, access.offset * size_of(slot.dtype)});
  const std::string read = written(access.slot) ? "read_written" : "read";
  const auto element = [&](const std::string& lane) {
    const std::string where = condition(path, frame, lane);
    const std::string value = fmt::format("{}<1>({} + ({})).lane[0]", read, name, index(path, frame, lane));
    return where.empty() ? value : fmt::format("{} ? {} : {}", where, value, raw_literal(access.fill, slot.dtype));
  };
  (fixed ? code.fixed : code.loads).push_back(load);
  if (vector_access(path, frame)) {
    const std::string where = condition(path, frame, "");
    const std::string value = fmt::format("{}<{}>({} + ({}))", read, frame.lanes, name, index(path, frame, ""));
    members += fmt::format("    Vector<{}, {}> {};\n", type, frame.lanes, name);
    text += fmt::format("    {}.{} = {};\n", into, name,
                        where.empty() ? value
                                      : fmt::format("{} ? {} : filled<{}>({})", where, value, frame.lanes,
                                                    raw_literal(access.fill, slot.dtype)));
    if (where.empty() && frame.lanes * size_of(slot.dtype) % 16 == 0)
      code.prefetch +=
          fmt::format("    prefetch_l2({} + ({}), count * {});\n", name, index(path, frame, ""), size_of(slot.dtype));
  } else if (loads_once(path, frame)) {
    members += fmt::format("    {} {};\n", type, name);
    text += fmt::format("    {}.{} = {};\n", into, name, element(""));
  } else {
    members += fmt::format("    Vector<{}, {}> {};\n", type, frame.lanes, name);
    text += fmt::format("#pragma unroll\n    for (int lane = 0; lane < {}; ++lane) {}.{}.lane[lane] = {};\n",
                        frame.lanes, into, name, element("lane"));
  }
}

std::string BodyWriter::random(const Instruction& in, const Frame& frame) const {
  const Path& path = space_.paths[at(row_major_)];
  const std::string lane = frame.lanes > 1 ? "lane" : "";
  // Where four lanes are one block of the generator, saying so lets the compiler draw it once.
  bool aligned = frame.lanes % 4 == 0 && lane_stride(path, frame) == 1;
  for (int axis = 0; axis < space_.rank(); ++axis)
    aligned &= axis == frame.lane_axis || path.strides[at(axis)] % 4 == 0;
  const std::string element = fmt::format("static_cast<u64>({})", index(path, frame, aligned ? "" : lane));
  const std::string block = aligned ? fmt::format("{} / 4 + lane / 4", element) : fmt::format("{} / 4", element);
  const std::string word = aligned ? "lane % 4" : fmt::format("static_cast<u32>({} % 4)", element);
  return fmt::format("static_cast<{}>({}({}, {}, static_cast<u32>(r{}), {:#x}ULL))", type_name(in.type),
                     to_string(in.primitive), block, word, in.args[0], in.stream);
}

std::string BodyWriter::instruction(const Instruction& in, const Frame& frame) const {
  const std::string type = type_name(in.type), lane = frame.lanes > 1 ? "lane" : "";
  switch (in.primitive) {
    case Primitive::load: {
      return fmt::format("convert<{}>({}.load{}{})", type, is_fixed(in.index, frame) ? "fixed" : "loads", in.index,
                         loads_once(space_.paths[at(in.index)], frame) ? "" : ".lane[lane]");
    }
    case Primitive::scalar:
      return fmt::format("convert<{}>(scalars[{}])", type, in.index);
    case Primitive::carried:
      return fmt::format("static_cast<{}>(carried{}.c{})", type,
                         frame.carried_is_local   ? ""
                         : frame.carried_per_lane ? "[lane]"
                                                  : "[0]",
                         in.index);
    case Primitive::head:
      return fmt::format("convert<{}>(head)", type);
    case Primitive::coordinate:
      return fmt::format("static_cast<i32>({})", coordinate(in.index, frame, lane));
    case Primitive::uniform:
    case Primitive::normal:
      return random(in, frame);
    default:
      return expression(in);
  }
}

void BodyWriter::add_store(const Store& store, const Frame& frame, std::string& before, std::string& lane,
                           std::string& after) {
  const Access& access = kernel_.stores[at(store.access)];
  const Path& path = space_.paths[kernel_.loads.size() + at(store.access)];
  const Slot& slot = plan_.slots[at(access.slot)];
  const std::string type = type_name(slot.dtype), name = fmt::format("store{}", store.access);
  pointer(type + "*", name, {access.slot, access.offset * size_of(slot.dtype)});
  const auto guard = [&](std::string where) {
    if (!frame.leader.empty()) where += (where.empty() ? "" : " && ") + frame.leader;
    return where.empty() ? where : fmt::format("if ({}) ", where);
  };
  if (vector_access(path, frame)) {
    before += fmt::format("    Vector<{}, {}> out{};\n", type, frame.lanes, store.access);
    lane += fmt::format("      out{}.lane[lane] = convert<{}>(r{});\n", store.access, type, store.value);
    after += fmt::format("    {}write({} + ({}), out{});\n", guard(condition(path, frame, "")), name,
                         index(path, frame, ""), store.access);
  } else {
    const std::string which = frame.lanes > 1 ? "lane" : "";
    lane += fmt::format("      {}{}[{}] = convert<{}>(r{});\n", guard(condition(path, frame, which)), name,
                        index(path, frame, which), type, store.value);
  }
}

std::string BodyWriter::carried_members() const {
  std::string text;
  for (std::size_t i = 0; i < kernel_.carried.size(); ++i)
    text += fmt::format("    {} c{};\n", type_name(kernel_.carried[i]), i);
  return text;
}

std::string BodyWriter::lane_code(const Stage& stage, const Frame& frame) const {
  std::string text;
  for (std::size_t i = 0; i < stage.body.size(); ++i)
    text +=
        fmt::format("      const {} r{} = {};\n", type_name(stage.body[i].type), i, instruction(stage.body[i], frame));
  const bool accumulates_per_lane = frame.lanes > 1 && (frame.carried_per_lane || frame.carried_is_local);
  const std::string which = frame.carried_is_local ? "" : accumulates_per_lane ? "[lane]" : "[0]";
  const std::vector<Accumulator> list = accumulators_of(stage);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].type.empty()) continue;
    const Reduction& reduction = stage.reductions[i];
    const bool position = reduction.kind == ReduceKind::argmax || reduction.kind == ReduceKind::argmin;
    const bool moments = reduction.kind == ReduceKind::mean || reduction.kind == ReduceKind::m2;
    std::string more;
    if (position)
      more = fmt::format(", static_cast<i32>({})",
                         index(space_.paths[at(reduced_row_major_)], frame, frame.lanes > 1 ? "lane" : ""));
    if (moments && (accumulates_per_lane || frame.lanes == 1)) more = ", seen";  // each lane has its own accumulator
    text += fmt::format("      accumulators{}.m{}.add(r{}{});\n", accumulates_per_lane ? "[lane]" : "[0]",
                        list[i].member, reduction.value, more);
  }
  for (const Carry& carry : stage.carries)
    text += fmt::format("      carried{}.c{} = r{};\n", which, carry.carried, carry.value);
  return text;
}

BodyWriter::Code BodyWriter::stages(const std::vector<int>& indices, const Frame& frame) {
  Code code;
  std::string before, lane, after;
  if (frame.carried_is_local && !kernel_.carried.empty()) lane += "      Carried carried;\n";
  if (!frame.head.empty()) lane += fmt::format("      const auto head = {};\n", frame.head);
  for (int i : indices) {
    const Stage& stage = kernel_.stages[at(i)];
    for (const Instruction& in : stage.body) {
      if (in.primitive == Primitive::load) add_load(in.index, frame, code);
      if (in.primitive == Primitive::scalar) pointer("const f64*", "scalars", {Argument::kScalars, 0});
    }
    if (indices.size() > 1) lane += "      {\n";
    lane += lane_code(stage, frame);
    for (const Store& store : stage.stores) add_store(store, frame, before, lane, after);
    if (indices.size() > 1) lane += "      }\n";
  }
  if (frame.lanes > 1)
    code.run = before + fmt::format("#pragma unroll\n    for (int lane = 0; lane < {}; ++lane) {{\n{}    }}\n{}",
                                    frame.lanes, lane, after);
  else
    code.run = before + "    {\n" + lane + "    }\n" + after;
  return code;
}

BodyWriter::Code BodyWriter::loads(const std::vector<int>& indices, const Frame& frame) {
  Code code;
  for (int load : indices) add_load(load, frame, code);
  return code;
}

int BodyWriter::load_bytes(int load, const Frame& frame) const {
  const int bytes = static_cast<int>(size_of(plan_.slots[at(kernel_.loads[at(load)].slot)].dtype));
  return loads_once(space_.paths[at(load)], frame) ? bytes : bytes * frame.lanes;
}

}  // namespace nixie::cuda
