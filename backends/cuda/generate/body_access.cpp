// The loads and stores of generated code: where they are in memory, as one aligned piece or lane by lane.
#include <algorithm>

#include "nixie/backends/cuda/generate/body.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

// An element as it would be stored.
std::string raw_literal(double value, Dtype dtype) {
  if (dtype == Dtype::f16) return fmt::format("f16{{{:#x}}}", convert<Half>(value).bits);
  if (dtype == Dtype::bf16) return fmt::format("bf16{{{:#x}}}", convert<Bfloat16>(value).bits);
  if (dtype == Dtype::f8e4m3) return fmt::format("f8e4m3{{{:#x}}}", convert<F8e4m3>(value).bits);
  if (dtype == Dtype::f8e5m2) return fmt::format("f8e5m2{{{:#x}}}", convert<F8e5m2>(value).bits);
  const double stored =
      visit_dtype(dtype, [&](auto element) { return convert<double>(convert<decltype(element)>(value)); });
  return fmt::format("static_cast<{}>({})", type_name(dtype), literal(stored, compute_dtype(dtype)));
}

}  // namespace

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
  ++(fixed ? code.fixed : code.loads);
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
  if (vector_access(path, frame) && is_f8(slot.dtype)) {
    before += fmt::format("    f32 out{}[{}];\n", store.access, frame.lanes);
    lane += fmt::format("      out{}[lane] = narrowed(r{});\n", store.access, store.value);
    after += fmt::format("    {}write_f8({} + ({}), out{});\n", guard(condition(path, frame, "")), name,
                         index(path, frame, ""), store.access);
  } else if (vector_access(path, frame)) {
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

}  // namespace nixie::cuda
