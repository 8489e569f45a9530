// Images that arithmetic makes of stored ones, position by position: has whoever reads them compute them.
//
// A first layer's 16-bit kernels take the formula as part of their operand. Kernels that copy images for other layers
// get it into their stages, where what is stored are bytes: reading four times as much again would cost more.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/rewrite/instruction_builder.h"
#include "nixie/backends/cuda/rewrite/lowering.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Whether a formula may be computed again wherever its result is read.
bool is_arithmetic(Primitive primitive) {
  return arity(primitive) > 0 ? primitive != Primitive::uniform && primitive != Primitive::normal
                              : primitive == Primitive::constant || primitive == Primitive::scalar;
}

// A kernel that makes images of what its load `images` reads, the only one that moves from pixel to pixel.
struct ImageMap {
  std::size_t kernel = 0;
  int images = 0;
  std::vector<Instruction> body = {};  // its last register is the element
};

// The kernel that writes a slot, if it is the only one to do so and such a map of what stays as it is.
std::optional<ImageMap> map_to(const std::vector<Kernel>& kernels, int slot) {
  const auto writes_slot = [&](const Kernel& kernel) { return writes(kernel, slot); };
  const auto found = std::find_if(kernels.begin(), kernels.end(), writes_slot);
  if (found == kernels.end() || std::any_of(found + 1, kernels.end(), writes_slot)) return {};
  if (found->head || !found->reduced.empty() || found->domain.rank() != 4 || found->loads.empty() ||
      found->stores.size() != 1 || found->stages.size() != 1 || found->stores[0].offset != 0 ||
      !found->stores[0].inside.empty())
    return {};
  ImageMap map{.kernel = static_cast<std::size_t>(found - kernels.begin()),
               .images = found->loads.size() == 1 ? 0 : -1};
  for (int i = 0; i < static_cast<int>(found->loads.size()); ++i) {
    const Access& load = found->loads[at(i)];
    const bool changes =
        std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& kernel) { return writes(kernel, load.slot); });
    const bool moves = load.strides[2] != 0 || load.strides[3] != 0;
    if (changes || !load.inside.empty() || (moves && map.images >= 0 && map.images != i)) return {};
    if (moves) map.images = i;
  }
  const Stage& stage = found->stages[0];
  map.body.assign(stage.body.begin(), stage.body.begin() + stage.stores[0].value + 1);
  const bool pure = std::all_of(map.body.begin(), map.body.end(), [](const Instruction& in) {
    return in.primitive == Primitive::load || is_arithmetic(in.primitive);
  });
  return pure && map.images >= 0 ? std::optional(map) : std::nullopt;
}

// Whether strides are the same where a shape has more than one element.
bool lie_alike(const Shape& shape, const Strides& a, const Strides& b) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && a[at(axis)] != b[at(axis)]) return false;
  return true;
}

// What a map reads for a channel or an image (`from`), where its result, row-major images, is read through `read`; none
// where the reader goes on from channel to channel, or from image to image, along an axis of pixels.
std::optional<Access> seen_through(const Access& from, const Access& read, const Shape& domain, const Shape& images) {
  const std::int64_t image = images.row_major()[0], plane = images.row_major()[1];
  Access seen{.slot = from.slot, .offset = from.offset};
  std::int64_t first_pixel = read.offset, last_pixel = read.offset, last_channel = 0;  // of an image, of a plane
  bool bounded = false;
  for (int axis = 0; axis < domain.rank(); ++axis) {
    const std::int64_t stride = read.strides[at(axis)];
    auto inside = read.inside.empty() ? std::pair(std::int64_t{0}, domain[axis]) : read.inside[at(axis)];
    const std::int64_t first = stride * inside.first, last = stride * (inside.second - 1);
    if (stride < 0) return {};
    if (stride % image == 0) {
      seen.strides.push_back(stride / image * from.strides[0]);
    } else if (stride % plane == 0) {
      seen.strides.push_back(stride / plane * from.strides[1]);
      last_channel += last;
    } else {
      seen.strides.push_back(0);
      first_pixel += first, last_pixel += last;
      inside = {0, domain[axis]};
    }
    seen.inside.push_back(inside);
    bounded |= inside.first > 0 || inside.second < domain[axis];
  }
  if (first_pixel < 0 || last_pixel >= plane || last_channel >= image) return {};
  if (!bounded) seen.inside.clear();
  return seen;
}

int find_or_add(std::vector<Access>& accesses, const Access& access) {
  const auto found = std::find(accesses.begin(), accesses.end(), access);
  const auto index = static_cast<int>(found - accesses.begin());
  if (found == accesses.end()) accesses.push_back(access);
  return index;
}

// Whether a position lies where a load reads, as f32; -1 where all do.
int is_inside(StraightCode& code, const Access& read, const Shape& domain) {
  int result = -1;
  const auto add = [&](int axis, Primitive comparison, std::int64_t bound, bool bound_first) {
    const int position = code.add({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = axis});
    const int limit =
        code.add({.primitive = Primitive::constant, .type = Dtype::i32, .value = static_cast<double>(bound)});
    const int holds = code.add({.primitive = comparison,
                                .type = Dtype::i32,
                                .args = {bound_first ? limit : position, bound_first ? position : limit, -1}});
    result = result < 0
                 ? holds
                 : code.add({.primitive = Primitive::logical_and, .type = Dtype::i32, .args = {result, holds, -1}});
  };
  for (int axis = 0; axis < static_cast<int>(read.inside.size()); ++axis) {
    const auto [low, high] = read.inside[at(axis)];
    if (low > 0) add(axis, Primitive::less_equal, low, true);
    if (high < domain[axis]) add(axis, Primitive::less, high, false);
  }
  return result < 0 ? -1 : code.apply(Primitive::cast, result);
}

// A kernel that computes what it read of a map's result; none where it cannot.
std::optional<Kernel> computing(const Kernel& reader, const Kernel& map, const ImageMap& what) {
  const Access &made = map.stores[0], &images = map.loads[at(what.images)];
  if (reader.head) return {};
  Kernel kernel = reader;
  std::vector<std::vector<int>> load_of(reader.loads.size());  // for each load of the result, the map's loads
  for (std::size_t i = 0; i < reader.loads.size(); ++i) {
    const Access& read = reader.loads[i];
    if (read.slot != made.slot) continue;
    if (read.fill != 0) return {};
    for (const Access& from : map.loads) {
      std::optional<Access> seen = &from == &images ? read : seen_through(from, read, reader.domain, map.domain);
      if (!seen) return {};
      if (&from == &images) seen->slot = images.slot, seen->offset += images.offset, kernel.loads[i] = *seen;
      load_of[i].push_back(&from == &images ? static_cast<int>(i) : find_or_add(kernel.loads, *seen));
    }
  }
  for (Stage& stage : kernel.stages) {
    StraightCode code;
    std::vector<int> moved;  // where each register went
    const auto add = [&](Instruction in, const std::vector<int>& registers) {
      for (int& arg : in.args)
        if (arg >= 0) arg = registers[at(arg)];
      return code.add(in);
    };
    for (const Instruction& in : stage.body) {
      if (in.primitive != Primitive::load || load_of[at(in.index)].empty()) {
        moved.push_back(add(in, moved));
        continue;
      }
      if (in.type != Dtype::f32) return {};
      std::vector<int> inner;
      for (Instruction step : what.body) {
        if (step.primitive == Primitive::load) step.index = load_of[at(in.index)][at(step.index)];
        inner.push_back(add(step, inner));
      }
      const int inside = is_inside(code, reader.loads[at(in.index)], reader.domain);
      moved.push_back(inside < 0 ? inner.back() : code.apply(Primitive::select, inside, inner.back(), code.number(0)));
    }
    stage.body = std::move(code.body);
    for (Store& store : stage.stores) store.value = moved[at(store.value)];
    for (Reduction& reduction : stage.reductions) reduction.value = moved[at(reduction.value)];
    for (Carry& carry : stage.carries) carry.value = moved[at(carry.value)];
  }
  return kernel;
}

}  // namespace

Operand before_map(const std::vector<Kernel>& kernels, const Operand& operand) {
  const std::optional<ImageMap> map = map_to(kernels, operand.slot);
  if (!map || operand.offset != 0) return operand;
  const Kernel& kernel = kernels[map->kernel];
  if (kernel.domain != operand.shape || !lie_alike(operand.shape, operand.strides, kernel.stores[0].strides))
    return operand;
  const Access& from = kernel.loads[at(map->images)];
  Operand made{from.slot, from.offset, operand.shape, from.strides};
  if (map->body.size() == 1) return made;
  made.body = map->body;
  for (Instruction& in : made.body)
    if (in.primitive == Primitive::load) in.index = in.index == map->images ? 0 : in.index + (in.index < map->images);
  for (int i = 0; i < static_cast<int>(kernel.loads.size()); ++i)
    if (i != map->images) made.more.push_back(kernel.loads[at(i)]);
  return made;
}

void compute_bytes_where_read(Plan& plan) {
  std::vector<Kernel>& kernels = plan.kernels;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].head || kernels[k].stores.size() != 1) continue;
    const int slot = kernels[k].stores[0].slot;
    const std::optional<ImageMap> map = plan.slots[at(slot)].external ? std::nullopt : map_to(kernels, slot);
    if (!map || plan.slots[at(slot)].dtype != Dtype::f32 || map->body.back().type != Dtype::f32) continue;
    const Kernel& made = kernels[k];
    const Access& images = made.loads[at(map->images)];
    if (size_of(plan.slots[at(images.slot)].dtype) != 1 ||
        !lie_alike(made.domain, images.strides, made.domain.row_major()) ||
        !lie_alike(made.domain, made.stores[0].strides, made.domain.row_major()))
      continue;
    std::vector<std::pair<std::size_t, Kernel>> computed;
    const std::vector<std::size_t> readers = readers_of(plan, slot);
    for (std::size_t reader : readers)
      if (auto kernel = computing(kernels[reader], made, *map)) computed.emplace_back(reader, *std::move(kernel));
    if (computed.size() != readers.size()) continue;
    for (auto& [reader, kernel] : computed) kernels[reader] = std::move(kernel);
    kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(k));
    --k;
  }
}

}  // namespace nixie::cuda
