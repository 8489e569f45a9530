// Loads and stores of lanes.
#pragma once

#include <cstddef>

#include "nixie/backends/cpu/stages/geometry.h"
#include "nixie/core/base/dtype.h"

namespace nixie::cpu {

/// The type of lanes that hold elements of T.
template <class T>
using Lane =
    std::conditional_t<std::is_same_v<T, double>, double,
                       std::conditional_t<std::is_same_v<T, float> || kIsNarrow<T>, float,
                                          std::conditional_t<sizeof(T) == 8 || std::is_same_v<T, std::uint32_t>,
                                                             std::int64_t, std::int32_t>>>;

/// Converts contiguous elements of `type` to lanes, and lanes to elements, as kernels store them: saturating, to
/// nearest even. `from` and `to` do not overlap.
void to_lanes(const void* from, Dtype type, void* to, std::int64_t count);
void from_lanes(const void* from, void* to, Dtype type, std::int64_t count);

/// The first element of a box that is one contiguous run for a walk, and inside; else -1.
std::int64_t contiguous_start(const Walk& walk, const Box& box);
/// Whether the walk stays on one element over the whole box.
bool repeats_one_element(const Walk& walk, const Box& box);
/// The element of the box's origin.
std::int64_t start_of(const Walk& walk, const Box& box);

/// Reads the box's elements of `type` into lanes; where the walk is outside it, `fill`.
void load_lanes(const std::byte* memory, Dtype type, const Walk& walk, double fill, const Box& box, void* to);
/// Writes lanes to the box's elements of `type`; where the walk is outside it, nothing.
void store_lanes(const void* from, const Walk& walk, const Box& box, std::byte* memory, Dtype type);

/// Calls row(lane, start, stride, count) for the runs of lanes of a walk that stays inside: from element `start` on,
/// `stride` apart.
template <class Row>
void for_each_row(const Walk& walk, const Box& box, Row&& row) {
  const auto at = [](int axis) { return static_cast<std::size_t>(axis); };
  std::int64_t start = start_of(walk, box), count = 1, stride = 0, lane = 0;
  int outer = box.rank - 1;
  for (; outer >= 0; --outer) {  // axes that go on where the run ends belong to it
    const std::int64_t extent = box.extent[at(outer)];
    if (extent == 1) continue;
    if (count > 1 && walk.strides[at(outer)] != stride * count) break;
    if (count == 1) stride = walk.strides[at(outer)];
    count *= extent;
  }
  std::array<std::int64_t, kMaxAxes> position{};
  while (true) {
    row(lane, start, stride, count);
    lane += count;
    int axis = outer;
    for (; axis >= 0; --axis) {
      start += walk.strides[at(axis)];
      if (++position[at(axis)] < box.extent[at(axis)]) break;
      start -= walk.strides[at(axis)] * box.extent[at(axis)];
      position[at(axis)] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace nixie::cpu
