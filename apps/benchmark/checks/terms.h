// Which elements of the operands make one element of a convolution or a matrix product: the plain loops that the
// benchmark's checks and the tests compare with. Convolutions with fewer than three spatial axes get axes of size 1.
#pragma once

#include <array>
#include <cstdint>

#include "nixie/core/graph/op.h"

namespace nixie::benchmark {

/// A convolution's geometry, as its forward pass sees it.
class ConvTerms {
 public:
  using Sizes = std::array<std::int64_t, 5>;  ///< N, C, depth, height, width
  using Place = std::array<std::int64_t, 3>;  ///< depth, height, width

  ConvTerms(const Conv& conv, const Shape& a, const Shape& b, const Shape& result) : groups_(conv.groups) {
    const bool forward = conv.role == ConvRole::output, filter_grad = conv.role == ConvRole::filter_grad;
    x_ = five(forward ? a : filter_grad ? b : result);
    w_ = five(filter_grad ? result : b);
    y_ = five(forward ? result : a);
    for (std::size_t i = 0, skipped = 3 - conv.stride.size(); i < conv.stride.size(); ++i) {
      stride_[skipped + i] = conv.stride[i];
      pad_[skipped + i] = conv.pad[i];
      dilation_[skipped + i] = conv.dilation[i];
    }
  }

  /// Calls visit(position in x, position in w) for an element of the output.
  template <class Visit>
  void of_output(std::int64_t position, Visit&& visit) const {
    const Sizes e = split(y_, position);
    const std::int64_t first = e[1] / (w_[0] / groups_) * w_[1];  // channel of the group
    Place in;
    for_each_place(w_, [&](const Place& tap) {
      if (!input_place({e[2], e[3], e[4]}, tap, in)) return;
      for (std::int64_t c = 0; c < w_[1]; ++c) visit(at(x_, e[0], first + c, in), at(w_, e[1], c, tap));
    });
  }

  /// Calls visit(position in dy, position in w) for an element of the input gradient.
  template <class Visit>
  void of_input_grad(std::int64_t position, Visit&& visit) const {
    const Sizes e = split(x_, position);
    const std::int64_t per_group = w_[0] / groups_, first = e[1] / w_[1] * per_group;  // filter of the group
    Place out;
    for_each_place(w_, [&](const Place& tap) {
      if (!output_place({e[2], e[3], e[4]}, tap, out)) return;
      for (std::int64_t k = first; k < first + per_group; ++k)
        visit(at(y_, e[0], k, out), at(w_, k, e[1] % w_[1], tap));
    });
  }

  /// Calls visit(position in dy, position in x) for an element of the filter gradient.
  template <class Visit>
  void of_filter_grad(std::int64_t position, Visit&& visit) const {
    const Sizes e = split(w_, position);
    const std::int64_t channel = e[0] / (w_[0] / groups_) * w_[1] + e[1];
    Place in;
    for (std::int64_t n = 0; n < x_[0]; ++n)
      for_each_place(y_, [&](const Place& out) {
        if (input_place(out, {e[2], e[3], e[4]}, in)) visit(at(y_, n, e[0], out), at(x_, n, channel, in));
      });
  }

 private:
  static Sizes five(const Shape& shape) {
    Sizes sizes{shape[0], shape[1], 1, 1, 1};
    for (int i = 2; i < shape.rank(); ++i) sizes[static_cast<std::size_t>(i + 5 - shape.rank())] = shape[i];
    return sizes;
  }
  static Sizes split(const Sizes& sizes, std::int64_t position) {
    Sizes index{};
    for (std::size_t i = 5; i-- > 0; position /= sizes[i]) index[i] = position % sizes[i];
    return index;
  }
  static std::int64_t at(const Sizes& sizes, std::int64_t n, std::int64_t c, const Place& p) {
    return (((n * sizes[1] + c) * sizes[2] + p[0]) * sizes[3] + p[1]) * sizes[4] + p[2];
  }
  template <class Visit>
  static void for_each_place(const Sizes& sizes, Visit&& visit) {
    Place p{};
    for (p[0] = 0; p[0] < sizes[2]; ++p[0])
      for (p[1] = 0; p[1] < sizes[3]; ++p[1])
        for (p[2] = 0; p[2] < sizes[4]; ++p[2]) visit(p);
  }

  /// Where filter tap `tap` of an output place reads the input; false outside.
  bool input_place(const Place& out, const Place& tap, Place& in) const {
    for (std::size_t i = 0; i < 3; ++i) {
      in[i] = out[i] * stride_[i] - pad_[i] + tap[i] * dilation_[i];
      if (in[i] < 0 || in[i] >= x_[i + 2]) return false;
    }
    return true;
  }
  /// Which output place reads input place `in` with filter tap `tap`; false where none does.
  bool output_place(const Place& in, const Place& tap, Place& out) const {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t from = in[i] + pad_[i] - tap[i] * dilation_[i];
      if (from < 0 || from % stride_[i] != 0) return false;
      out[i] = from / stride_[i];
      if (out[i] >= y_[i + 2]) return false;
    }
    return true;
  }

  Sizes x_, w_, y_;
  Place stride_{1, 1, 1}, pad_{0, 0, 0}, dilation_{1, 1, 1};
  std::int64_t groups_;
};

/// Calls visit(position in a, position in b) for each product of the element at a row-major position of `result`. In a
/// convolution a and b are x and w, dy and w, or dy and x, by its role.
template <class Visit>
void for_each_term(const Conv& conv, const Shape& a, const Shape& b, const Shape& result, std::int64_t position,
                   Visit&& visit) {
  const ConvTerms terms(conv, a, b, result);
  if (conv.role == ConvRole::output)
    terms.of_output(position, visit);
  else if (conv.role == ConvRole::input_grad)
    terms.of_input_grad(position, visit);
  else
    terms.of_filter_grad(position, visit);
}

template <class Visit>
void for_each_term(const Matmul&, const Shape& a, const Shape&, const Shape& result, std::int64_t position,
                   Visit&& visit) {
  const std::int64_t m = result[-2], n = result[-1], depth = a[-1];
  const std::int64_t batch = position / (m * n), row = position / n % m, column = position % n;
  for (std::int64_t i = 0; i < depth; ++i) visit((batch * m + row) * depth + i, (batch * depth + i) * n + column);
}

}  // namespace nixie::benchmark
