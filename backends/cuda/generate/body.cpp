// Prints the stages of a kernel, lane by lane, over its iteration space.
#include "nixie/backends/cuda/generate/body.h"

#include <algorithm>
#include <limits>
#include <map>

#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/backends/cuda/generate/approximate.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool draws(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    for (const Instruction& in : stage.body)
      if (in.primitive == Primitive::uniform || in.primitive == Primitive::normal) return true;
  return false;
}

// The domain with 1 for its kept axes.
Shape reduced_sizes(const Shape& domain, const Axes& reduced) {
  Shape shape = domain;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (std::ranges::find(reduced, axis) == reduced.end()) shape = shape.with(axis, 1);
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
    const bool full = std::ranges::find(full_stores, p) != full_stores.end();
    return std::pair(full, touched(kernel.domain, paths[at(p)]));
  };
  std::ranges::stable_sort(order, [&](int a, int b) { return rank(a) > rank(b); });
  return order;
}

// A comparison as a number of another type. By way of its own type, that of what it compares, it would take the
// conversion of a float, of which a multiprocessor has a quarter as many as of comparisons.
bool is_flag(const Stage& stage, const Instruction& in) {
  if (in.primitive != Primitive::cast) return false;
  switch (stage.body[at(in.args[0])].primitive) {
    case Primitive::equal:
    case Primitive::not_equal:
    case Primitive::less:
    case Primitive::less_equal:
    case Primitive::is_finite:
    case Primitive::is_nan:
      return true;
    default:
      return false;
  }
}
std::string flag(const Stage& stage, const Instruction& in) {
  Instruction compared = stage.body[at(in.args[0])];
  compared.type = in.type;
  return expression(compared);
}

// The register that is not 0 only where a sum of whole numbers has the term 0, if select() says so. A thread adds such
// terms of its lanes in a branch of its own.
std::optional<int> zero_where(const Stage& stage, const Reduction& reduction) {
  const auto in = [&](int reg) -> const Instruction& { return stage.body[at(reg)]; };
  if (reduction.kind != ReduceKind::sum || is_floating(in(reduction.value).type)) return {};
  int reg = reduction.value;
  while (in(reg).primitive == Primitive::cast) reg = in(reg).args[0];
  if (in(reg).primitive != Primitive::select) return {};
  const Instruction& first = in(in(reg).args[1]);
  return first.primitive == Primitive::constant && first.value == 0 ? std::optional(in(reg).args[0]) : std::nullopt;
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

}  // namespace

std::vector<bool> needed_for(const std::vector<Instruction>& body, const std::vector<int>& registers) {
  std::vector<bool> needed(body.size());
  for (int reg : registers) needed[at(reg)] = true;
  for (std::size_t i = body.size(); i-- > 0;)
    for (int arg : body[i].args)
      if (needed[i] && arg >= 0) needed[at(arg)] = true;
  return needed;
}

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

// A thread that moves less than two pieces of 16 bytes, as a cast of halves to 8 bits by eights, leaves memory idle.
int BodyWriter::map_lanes_along(int axis) const {
  constexpr std::int64_t kFewBytes = 3, kLarge = 1 << 22;
  const int lanes = lanes_along(axis), twice = 2 * lanes;
  if (lanes < 8 || space_.sizes[at(axis)] % twice != 0 || space_.kept_size() < kLarge) return lanes;
  std::int64_t bytes = 0;
  for (std::size_t p = 0; p < kernel_.loads.size() + kernel_.stores.size(); ++p) {
    const Access& access = p < kernel_.loads.size() ? kernel_.loads[p] : kernel_.stores[p - kernel_.loads.size()];
    if (space_.paths[p].strides[at(axis)] == 0) continue;
    if (!vector_access(space_.paths[p], {.lane_axis = axis, .lanes = twice})) return lanes;
    bytes += size_of(plan_.slots[at(access.slot)].dtype);
  }
  return bytes <= kFewBytes ? twice : lanes;
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

std::string BodyWriter::coordinate(int axis, const Frame& frame, const std::string& lane) const {
  return index(space_.paths[at(coordinates_[at(axis)])], frame, lane);
}

std::string BodyWriter::random(const Instruction& in, const Frame& frame) const {
  const Path& path = space_.paths[at(row_major_)];
  const std::string lane = frame.lanes > 1 ? "lane" : "";
  // Where four lanes are one block of the generator, saying so lets the compiler draw it once.
  const auto first = static_cast<std::int64_t>(in.value);
  bool aligned = first % 4 == 0 && frame.lanes % 4 == 0 && lane_stride(path, frame) == 1;
  for (int axis = 0; axis < space_.rank(); ++axis)
    aligned &= axis == frame.lane_axis || path.strides[at(axis)] % 4 == 0;
  const std::string from = index(path, frame, aligned ? "" : lane),
                    element = first == 0 ? fmt::format("static_cast<u64>({})", from)
                                         : fmt::format("(static_cast<u64>({}) + {}ULL)", from, first);
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
      return fmt::format("convert<{}>(__ldg(scalars + {}))", type, in.index);
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
    default:  // computed from registers alone
      return expression(in);
  }
}

std::string BodyWriter::carried_members() const {
  std::string text;
  for (std::size_t i = 0; i < kernel_.carried.size(); ++i)
    text += fmt::format("    {} c{};\n", type_name(kernel_.carried[i]), i);
  return text;
}

std::string BodyWriter::registers(const Stage& stage, const Frame& frame, const std::vector<bool>& needed) const {
  std::string text;
  const std::vector<bool> approximate = approximate_quotients(plan_, kernel_, stage);
  for (std::size_t i = 0; i < stage.body.size(); ++i) {
    const Instruction& in = stage.body[i];
    if (!needed[i]) continue;
    text += fmt::format("      const {} r{} = {};\n", type_name(in.type), i,
                        approximate[i]       ? approximate_quotient(in)
                        : is_flag(stage, in) ? flag(stage, in)
                                             : instruction(in, frame));
  }
  return text;
}

std::string BodyWriter::accumulate(const Stage& stage, const Frame& frame, std::size_t i) const {
  const Accumulator accumulator = accumulators_of(stage)[i];
  if (accumulator.type.empty()) return {};
  const bool per_lane = frame.lanes > 1 && !frame.one_accumulator && (frame.carried_per_lane || frame.carried_is_local);
  const Reduction& reduction = stage.reductions[i];
  std::string more;
  if (gives_position(reduction.kind))
    more = fmt::format(", static_cast<i32>({})",
                       index(space_.paths[at(reduced_row_major_)], frame, frame.lanes > 1 ? "lane" : ""));
  if (is_moment(reduction.kind) && (per_lane || frame.lanes == 1))
    more = ", seen";  // each lane has its own accumulator
  return fmt::format("      accumulators{}.m{}.add(r{}{});\n", per_lane ? "[lane]" : "[0]", accumulator.member,
                     reduction.value, more);
}

void BodyWriter::add_stage(int index, const Frame& frame, std::string& before, std::string& lane, std::string& after) {
  const Stage& stage = kernel_.stages[at(index)];
  lane += registers(stage, frame, std::vector<bool>(stage.body.size(), true));
  std::map<int, std::string> rare;  // by the register that is 0 where they add
  for (std::size_t i = 0; i < stage.reductions.size(); ++i) {
    const std::optional<int> usual = frame.lanes > 1 ? zero_where(stage, stage.reductions[i]) : std::nullopt;
    (usual ? rare[*usual] : lane) += accumulate(stage, frame, i);
  }
  for (const auto& [usual, adds] : rare) {
    std::vector<int> added;
    for (const Reduction& reduction : stage.reductions)
      if (zero_where(stage, reduction) == usual) added.push_back(reduction.value);
    const std::string any = fmt::format("any{}_{}", index, usual);
    before += fmt::format("    bool {} = false;\n", any);
    lane += fmt::format("      {} |= r{} == 0;\n", any, usual);
    after += fmt::format(
        "    if ({}) {{\n#pragma unroll\n    for (int lane = 0; lane < {}; ++lane) {{\n{}{}    }}\n    }}\n", any,
        frame.lanes,
        (frame.head.empty() ? "" : fmt::format("      const auto head = {};\n", frame.head)) +
            registers(stage, frame, needed_for(stage.body, added)),
        adds);
  }
  const std::string which = frame.carried_is_local ? "" : frame.lanes > 1 && frame.carried_per_lane ? "[lane]" : "[0]";
  for (const Carry& carry : stage.carries)
    lane += fmt::format("      carried{}.c{} = r{};\n", which, carry.carried, carry.value);
  for (const Store& store : stage.stores) add_store(store, frame, before, lane, after);
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
    add_stage(i, frame, before, lane, after);
    if (indices.size() > 1) lane += "      }\n";
  }
  if (frame.lanes > 1)
    code.run = before + fmt::format("#pragma unroll\n    for (int lane = 0; lane < {}; ++lane) {{\n{}    }}\n{}",
                                    frame.lanes, lane, after);
  else
    code.run = before + "    {\n" + lane + "    }\n" + after;
  return code;
}

}  // namespace nixie::cuda
