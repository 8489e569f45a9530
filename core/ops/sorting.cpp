// Sorting by a network of compare-and-exchange steps, each elementwise on two halves of the array: so it runs on every
// backend. About log2(n)^2 / 2 steps (Batcher 1968, the form in which every step sorts upwards).
#include <bit>

#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// Elements and where they came from; positions from `count` on are padding and sort last.
struct Keyed {
  Tensor value, index;
};

// Whether a comes before b in sorted order: no two elements are equal, since indices differ.
Tensor is_before(const Keyed& a, const Keyed& b, std::int64_t count, bool descending) {
  const Tensor real_a = a.index < count, real_b = b.index < count, nan_a = is_nan(a.value), nan_b = is_nan(b.value);
  const Keyed &low = descending ? b : a, &high = descending ? a : b;
  const Tensor nan_low = descending ? nan_b : nan_a, nan_high = descending ? nan_a : nan_b;
  const Tensor less = where(nan_low == nan_high, low.value < high.value, nan_high);
  const Tensor greater = where(nan_low == nan_high, high.value < low.value, nan_low);
  const Tensor by_value = logical_or(less, logical_and(logical_not(greater), a.index < b.index));
  return where(real_a == real_b, by_value, real_a);
}

Tensor half(const Tensor& x, std::int64_t which, bool reversed) {
  std::vector<Index> indices(static_cast<std::size_t>(x.rank()), Index::all());
  indices[static_cast<std::size_t>(x.rank()) - 2] = Index(which);
  const Tensor part = slice(x, indices);
  return reversed ? flip(part, {-1}) : part;
}

// Compares the two halves of every run of 2 * reach elements, the second one mirrored or not, and exchanges.
Keyed exchange(const Keyed& x, std::int64_t reach, bool mirrored, std::int64_t count, bool descending) {
  const Shape shape = x.value.shape();
  std::vector<std::int64_t> sizes(shape.begin(), shape.end() - 1);
  sizes.insert(sizes.end(), {shape[-1] / (2 * reach), 2, reach});
  const Tensor value = reshape(x.value, sizes), index = reshape(x.index, sizes);
  const Keyed a{half(value, 0, false), half(index, 0, false)}, b{half(value, 1, mirrored), half(index, 1, mirrored)};
  const Tensor in_order = is_before(a, b, count, descending);
  const auto joined = [&](const Tensor& low, const Tensor& high) {
    const Tensor first = where(in_order, low, high), second = where(in_order, high, low);
    return reshape(stack({first, mirrored ? flip(second, {-1}) : second}, first.rank() - 1), shape);
  };
  return {joined(a.value, b.value), joined(a.index, b.index)};
}

}  // namespace

Tensor argsort(const Tensor& x, int axis, bool descending) {
  const int at = x.shape().normal_axis(axis);
  const std::int64_t count = x.shape()[at];
  check(count <= std::int64_t{1} << 30, "argsort: axis ", at, " of ", x.shape(), " is longer than 2^30");
  const Tensor last = stop_gradient(transpose(x, at, -1));
  const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
  std::vector<std::int64_t> low(static_cast<std::size_t>(x.rank()), 0), high = low;
  high.back() = count == 0 ? 0 : size - count;
  const Tensor padded = pad(last, low, high);
  Keyed keyed{padded, coordinate(padded.shape(), -1)};
  for (std::int64_t run = 1; run < count; run *= 2) {  // runs of this length are sorted
    keyed = exchange(keyed, run, true, count, descending);
    for (std::int64_t reach = run / 2; reach >= 1; reach /= 2) keyed = exchange(keyed, reach, false, count, descending);
  }
  std::vector<Index> real(static_cast<std::size_t>(x.rank()), Index::all());
  real.back() = Index::range(0, count);
  return transpose(slice(keyed.index, real), at, -1);
}

Tensor sort(const Tensor& x, int axis, bool descending) {
  return take_along_axis(x, argsort(x, axis, descending), axis);
}

Sorted topk(const Tensor& x, std::int64_t k, int axis) {
  const int at = x.shape().normal_axis(axis);
  check(k >= 0 && k <= x.shape()[at], "topk: k is ", k, " for axis ", at, " of ", x.shape());
  std::vector<Index> first(static_cast<std::size_t>(x.rank()), Index::all());
  first[static_cast<std::size_t>(at)] = Index::range(0, k);
  const Tensor indices = slice(argsort(x, at, true), first);
  return {take_along_axis(x, indices, at), indices};
}

}  // namespace nixie
