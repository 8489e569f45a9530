// Sizes, strides and broadcasting of N-dimensional arrays.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "nixie/core/base/error.h"

namespace nixie {

/// Indices of dimensions: one, or several in braces. Negative ones count from the end, as in numpy.
class Axes : public std::vector<int> {
 public:
  Axes() = default;
  Axes(int axis) : vector{axis} {}
  template <std::same_as<bool> Bool>
  Axes(Bool) = delete;  // a `keepdims` without its axes
  Axes(std::initializer_list<int> axes) : vector(axes) {}
  Axes(std::vector<int> axes) : vector(std::move(axes)) {}
};
/// Distance in elements between neighbours along each dimension; 0 repeats one element.
using Strides = std::vector<std::int64_t>;

/// The sizes of an array's dimensions, outermost first. Rank 0 is a scalar; sizes may be 0.
///
/// Sizes are checked here: no shape has more than kMostElements elements (sizes of 0 counted as 1), so that
/// elements times bytes, strides, offsets and sums over many arrays fit in 63 bits everywhere else. Nor has one more
/// than kMostAxes axes, as numpy's: what takes the square of their number takes no time.
class Shape {
 public:
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
  static constexpr int kMostAxes = 64;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::vector<std::int64_t>(sizes)) {}
  /// Throws for a negative size, and for more than kMostElements elements or kMostAxes axes.
  explicit Shape(std::vector<std::int64_t> sizes);

  int rank() const { return static_cast<int>(sizes_.size()); }
  /// Number of elements.
  std::int64_t size() const;
  /// Size along an axis; negative axes count from the end. Throws if out of range.
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(normal_axis(axis))]; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }

  /// The axis as a number in [0, rank). Throws when out of range.
  int normal_axis(int axis) const;
  /// Sorted, distinct, non-negative axes. Throws on a repeated or out-of-range axis.
  Axes normal_axes(const Axes& axes) const;
  /// This shape with one size replaced.
  Shape with(int axis, std::int64_t size) const;
  /// Strides of a dense row-major array of this shape.
  Strides row_major() const;
  /// Strides of a dense array whose axis 1 is innermost (NHWC images and filters); row-major below rank 3.
  Strides channels_last() const;

  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> sizes_;
};

/// `[2, 3]`
std::string to_string(const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// numpy's broadcasting: sizes are aligned at the end and must be equal or 1. Throws when they do not match.
Shape broadcast(const Shape& a, const Shape& b);

/// All axes of a shape: 0, 1, ..., rank - 1.
Axes all_axes(const Shape& shape);
/// The order of axes that undoes a permutation.
Axes inverse(const Axes& order);

}  // namespace nixie

template <>
struct fmt::formatter<nixie::Shape> : fmt::formatter<std::string> {
  auto format(const nixie::Shape& shape, format_context& context) const -> format_context::iterator;
};
