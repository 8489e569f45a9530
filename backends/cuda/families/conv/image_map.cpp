// Finds the kernels that compute a layer's images.
#include "nixie/backends/cuda/families/conv/image_map.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// Whether a formula may be computed again wherever its result is read.
bool is_arithmetic(Primitive primitive) {
  return arity(primitive) > 0 ? primitive != Primitive::uniform && primitive != Primitive::normal
                              : primitive == Primitive::constant || primitive == Primitive::scalar;
}

}  // namespace

std::optional<ImageMap> map_to(const std::vector<Kernel>& kernels, int slot) {
  const auto writes_slot = [&](const Kernel& kernel) { return writes(kernel, slot); };
  const auto found = std::ranges::find_if(kernels, writes_slot);
  if (found == kernels.end() || std::any_of(found + 1, kernels.end(), writes_slot)) return {};
  if (found->head || !found->reduced.empty() || found->domain.rank() != 4 || found->loads.empty() ||
      found->stores.size() != 1 || found->stages.size() != 1 || found->stores[0].offset != 0 ||
      !found->stores[0].inside.empty())
    return {};
  ImageMap map{.kernel = static_cast<std::size_t>(found - kernels.begin()),
               .images = found->loads.size() == 1 ? 0 : -1};
  for (int i = 0; i < static_cast<int>(found->loads.size()); ++i) {
    const Access& load = found->loads[at(i)];
    const bool changes = std::ranges::any_of(kernels, [&](const Kernel& kernel) { return writes(kernel, load.slot); });
    const bool moves = load.strides[2] != 0 || load.strides[3] != 0;
    if (changes || !load.inside.empty() || (moves && map.images >= 0 && map.images != i)) return {};
    if (moves) map.images = i;
  }
  const Stage& stage = found->stages[0];
  map.body.assign(stage.body.begin(), stage.body.begin() + stage.stores[0].value + 1);
  const bool pure = std::ranges::all_of(
      map.body, [](const Instruction& in) { return in.primitive == Primitive::load || is_arithmetic(in.primitive); });
  return pure && map.images >= 0 ? std::optional(map) : std::nullopt;
}

bool same_strides(const Shape& shape, const Strides& a, const Strides& b) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && a[at(axis)] != b[at(axis)]) return false;
  return true;
}

std::optional<MappedOperand> before_map(const std::vector<Kernel>& kernels, const Operand& operand) {
  const std::optional<ImageMap> map = map_to(kernels, operand.slot);
  if (!map || operand.offset != 0) return {};
  const Kernel& kernel = kernels[map->kernel];
  if (kernel.domain != operand.shape || !same_strides(operand.shape, operand.strides, kernel.stores[0].strides))
    return {};
  const Access& from = kernel.loads[at(map->images)];
  MappedOperand made{.view = {from.slot, from.offset, operand.shape, from.strides}};
  if (map->body.size() == 1) return made;
  made.body = map->body;
  for (Instruction& in : made.body)
    if (in.primitive == Primitive::load) in.index = in.index == map->images ? 0 : in.index + (in.index < map->images);
  for (int i = 0; i < static_cast<int>(kernel.loads.size()); ++i)
    if (i != map->images) made.more.push_back(kernel.loads[at(i)]);
  return made;
}

}  // namespace nixie::cuda
