// Sizes, strides and broadcasting of N-dimensional arrays.
#include "nixie/core/base/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <ostream>

#include "nixie/core/base/integer_math.h"

namespace nixie {

Shape::Shape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {
  if (sizes_.size() > kMostAxes)
    fail(Fault::usage, "a shape of ", sizes_.size(), " axes, expected at most ", kMostAxes);
  std::int64_t total = 1;
  for (std::int64_t size : sizes_) {
    if (size < 0) fail(Fault::usage, "shape ", to_string(*this), " has a negative size");
    if (size > kMostElements / total)
      fail(Fault::usage, "shape ", to_string(*this), " has more than 2^48 elements, which no machine holds");
    total *= std::max<std::int64_t>(size, 1);
  }
}

std::int64_t Shape::size() const {
  std::int64_t total = 1;
  for (std::int64_t size : sizes_) total *= size;
  return total;
}

int Shape::normal_axis(int axis) const {
  if (axis < -rank() || axis >= rank())  // the text is made only when it is needed: this runs everywhere
    fail(Fault::usage, "axis ", axis, " is out of range for shape ", to_string(*this));
  return axis < 0 ? axis + rank() : axis;
}

Axes Shape::normal_axes(const Axes& axes) const {
  Axes normal;
  for (int axis : axes) normal.push_back(normal_axis(axis));
  std::ranges::sort(normal);
  check(std::ranges::adjacent_find(normal) == normal.end(), "an axis is named twice for shape ", to_string(*this));
  return normal;
}

Shape Shape::with(int axis, std::int64_t size) const {
  std::vector<std::int64_t> sizes = sizes_;
  sizes[at(normal_axis(axis))] = size;
  return Shape(std::move(sizes));
}

Strides Shape::row_major() const {
  Strides strides(sizes_.size());
  std::int64_t stride = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    strides[at(axis)] = stride;
    stride *= sizes_[at(axis)];
  }
  return strides;
}

Strides Shape::channels_last() const {
  if (rank() < 3) return row_major();
  Strides strides(sizes_.size(), 1);
  std::int64_t stride = sizes_[1];
  for (std::size_t axis = sizes_.size(); axis-- > 2; stride *= sizes_[axis]) strides[axis] = stride;
  strides[0] = stride;
  return strides;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.sizes(), ", ")); }

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> sizes(at(rank));
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a[-i] : 1, y = i <= b.rank() ? b[-i] : 1;
    check(x == y || x == 1 || y == 1, "shapes ", to_string(a), " and ", to_string(b), " do not broadcast together");
    sizes[at(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::move(sizes));
}

Axes all_axes(const Shape& shape) {
  std::vector<int> axes(at(shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Axes inverse(const Axes& order) {
  Axes result = order;
  for (std::size_t i = 0; i < order.size(); ++i) result[at(order[i])] = static_cast<int>(i);
  return result;
}

}  // namespace nixie

auto fmt::formatter<nixie::Shape>::format(const nixie::Shape& shape, format_context& context) const
    -> format_context::iterator {
  return fmt::formatter<std::string>::format(nixie::to_string(shape), context);
}
