// Plain: an array as plain loops see it.
#pragma once

#include "nixie/tests/test.h"

namespace nixie {

/// An array as plain loops see it.
struct Plain {
  std::vector<std::int64_t> sizes;
  std::vector<double> values;

  std::int64_t size() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  }
};

using Place = std::vector<std::int64_t>;

/// Calls `function(place)` for each place of a shape, in row-major order.
template <class Function>
void each_place(const std::vector<std::int64_t>& sizes, Function&& function) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  Place place(sizes.size(), 0);
  while (true) {
    function(place);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++place[axis - 1] == sizes[axis - 1]) place[--axis] = 0;
    if (axis == 0) return;
  }
}

/// The element at a place, as broadcasting reads it.
inline double at(const Plain& x, const Place& place) {
  std::int64_t offset = 0;
  const std::size_t shift = place.size() - x.sizes.size();
  for (std::size_t axis = 0; axis < x.sizes.size(); ++axis)
    offset = offset * x.sizes[axis] + (x.sizes[axis] == 1 ? 0 : place[axis + shift]);
  return x.values[static_cast<std::size_t>(offset)];
}

/// An array of these sizes, each element from its place.
template <class Function>
Plain filled(std::vector<std::int64_t> sizes, Function&& function) {
  Plain result{std::move(sizes), {}};
  each_place(result.sizes, [&](const Place& place) { result.values.push_back(function(place)); });
  return result;
}

}  // namespace nixie
