// The public math: every op on Tensors, found by argument type. Formulas and
// gradients: elementwise_ops.cpp, shape_ops.cpp, indexing.cpp, rows.cpp,
// reductions.cpp, contractions.cpp, resize.cpp, einsum.cpp, composites.cpp,
// collectives.cpp.
//
// Ops broadcast as in numpy, infer shapes at the call, and throw Fault::usage there if shapes, axes or types do not
// match. Reductions keep the reduced axes with size 1 by default, so results broadcast.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>

#include "nixie/core/graph/tensor.h"

namespace nixie {

class World;  // core/graph/world.h

// ---- elementwise (elementwise_ops.cpp; tests/core/ops_test.cpp) ----
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);  ///< true division, as in Python: integers give f32, 7 / 2 is 3.5
Tensor operator%(const Tensor& a, const Tensor& b);  ///< remainder, as in Python: -7 % 2 is 1
Tensor operator-(const Tensor& x);
Tensor operator==(const Tensor& a, const Tensor& b);  ///< comparisons give bool
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator&&(const Tensor& a, const Tensor& b);  ///< logical_and; both sides are always computed
Tensor operator||(const Tensor& a, const Tensor& b);
Tensor operator!(const Tensor& x);
Tensor logical_and(const Tensor& a, const Tensor& b);  ///< bool as well
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor operator&(const Tensor& a, const Tensor& b);  ///< bits of integers
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
Tensor operator<<(const Tensor& a, const Tensor& b);
Tensor operator>>(const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);  ///< a where the condition is not 0
/// To integers: toward zero, saturating, NaN as 0. To f16, bf16 and 8-bit floats: rounded here, whether or not the
/// value is ever stored, also from the same type.
Tensor cast(const Tensor& x, Dtype dtype);
/// To an integer type modulo 2^bits, where a cast saturates: as C++ converts integers, and as arithmetic wraps around.
Tensor wrapped(const Tensor& x, Dtype dtype);
Tensor floating(const Tensor& x);  ///< integers and 8-bit floats as f32, other floating types as they are
Tensor widened(const Tensor& x);   ///< 8-bit floats as f32, other types as they are
/// A cast that only chooses the storage type: a half is rounded when it is stored, like sums and products of halves.
/// Precision policies and gradients use it.
Tensor retype(const Tensor& x, Dtype dtype);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, const Tensor& b);       ///< C's remainder: the sign of a
Tensor remainder(const Tensor& a, const Tensor& b);  ///< a - floor(a / b) b: the sign of b, as in Python
// Integers stay integers; by 0 they give 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);  ///< floor(a / b), Python's //: -7 by 2 is -4; with remainder
Tensor trunc_divide(const Tensor& a, const Tensor& b);  ///< trunc(a / b), C's / of integers: -7 by 2 is -3; with fmod
Tensor atan2(const Tensor& y, const Tensor& x);         ///< gradient 0 at (0, 0)
Tensor maximum(const Tensor& a, const Tensor& b);       ///< propagates NaN; 0 is larger than -0
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);  ///< -1, 0 or 1; of NaN NaN
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor safe_log(const Tensor& x);  ///< log x, and -50 for x <= 0
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor tanh2(const Tensor& x);     ///< tanh with base 2: (4^x - 1) / (4^x + 1)
Tensor sigmoid(const Tensor& x);   ///< 1 / (1 + e^-x)
Tensor sigmoid2(const Tensor& x);  ///< 1 / (1 + 2^-x)
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);  ///< 1 - erf(x), with all its digits where that is small
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  ///< to nearest, ties to even
Tensor trunc(const Tensor& x);
Tensor binade(const Tensor& x);  ///< the largest power of two that is not above |x|; 0 below the normal numbers
Tensor is_finite(const Tensor& x);
Tensor is_inf(const Tensor& x);
Tensor is_nan(const Tensor& x);
Tensor binarize(const Tensor& x);                         ///< 1 for x >= 0, else -1
Tensor relu(const Tensor& x, const Tensor& slope = 0.0);  ///< x for x >= 0, else slope * x
Tensor elu(const Tensor& x, const Tensor& alpha = 1.0);
Tensor gelu(const Tensor& x);  ///< x * Phi(x), by erf
Tensor softplus(const Tensor& x);
Tensor stop_gradient(const Tensor& x);  ///< x, with a zero gradient

// ---- leaves, views and indexing (shape_ops.cpp, indexing.cpp; tests/core/shape_ops_test.cpp) ----
Tensor full(const Shape& shape, const Tensor& value, Dtype dtype = Dtype::f32);
Tensor zeros(const Shape& shape, Dtype dtype = Dtype::f32);
Tensor ones(const Shape& shape, Dtype dtype = Dtype::f32);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
/// 0, 1, ..., size - 1 along an axis of `shape`, i32.
Tensor coordinate(const Shape& shape, int axis);
Tensor arange(std::int64_t size);
/// `count` numbers from start to stop, both included.
Tensor linspace(double start, double stop, std::int64_t count, Dtype dtype = Dtype::f32);
/// Ones on a diagonal of [rows, columns], by default a square, and zeros beside it.
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, std::int64_t diagonal = 0,
           Dtype dtype = Dtype::f32);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// One size may be -1: inferred.
Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& sizes);
inline Tensor reshape(const Tensor& x, const Shape& shape) { return reshape(x, shape.sizes()); }
inline Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return reshape(x, std::vector<std::int64_t>(sizes));
}
Tensor expand_dims(const Tensor& x, const Axes& axes);  ///< new axes of size 1 at these positions of the result
Tensor squeeze(const Tensor& x, const Axes& axes);      ///< drops axes of size 1
Tensor flatten(const Tensor& x, int first = 1);         ///< merges the axes from `first` on
Tensor permute(const Tensor& x, const Axes& order);
/// Reverses the axes, or swaps two.
Tensor transpose(const Tensor& x);
Tensor transpose(const Tensor& x, int a, int b);
/// Axis from[i] becomes axis to[i]; the others keep their order.
Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to);
Tensor flip(const Tensor& x, const Axes& axes);
/// Repeats the array, repeats[i] times along axis i of the result; numpy's rule if ranks differ.
Tensor tile(const Tensor& x, const std::vector<std::int64_t>& repeats);
/// Each element `repeats` times, one after the other; without an axis of the flattened array.
Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<int> axis = {});
/// Moves element i to position i + shift, cyclically.
Tensor roll(const Tensor& x, std::int64_t shift, int axis);
/// Zeros above (below) a diagonal of the last two axes.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

/// One axis of an indexing: a position (drops the axis), or start:stop:step as in numpy.
class Index {
 public:
  Index(std::int64_t position) : start_(position), position_(true) {}
  static Index range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop = {}, std::int64_t step = 1);
  static Index all() { return range({}); }
  /// Indices that take the range of one axis, and all of the others.
  static std::vector<Index> along(int axis, Index range);
  /// First position and number of positions along an axis of this size. Throws for a position out of range.
  std::pair<std::int64_t, std::int64_t> resolve(std::int64_t size) const;
  bool is_position() const { return position_; }
  std::int64_t step() const { return step_; }

 private:
  std::optional<std::int64_t> start_, stop_;
  std::int64_t step_ = 1;
  bool position_ = false;
};
/// x[indices...]; missing trailing axes are taken whole.
Tensor slice(const Tensor& x, const std::vector<Index>& indices);
/// x with x[indices...] replaced by value (broadcast).
Tensor update(const Tensor& x, const std::vector<Index>& indices, const Tensor& value);
/// x with value (broadcast) where the mask is not 0. (Braces are indices.)
Tensor update_where(const Tensor& x, const Tensor& mask, const Tensor& value);
template <std::convertible_to<Tensor> Mask>
Tensor update(const Tensor& x, const Mask& mask, const Tensor& value) {
  return update_where(x, mask, value);
}
/// `low` and `high` elements of value before and after each axis.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& low, const std::vector<std::int64_t>& high,
           double value = 0);
Tensor concat(const std::vector<Tensor>& parts, int axis);
Tensor stack(const std::vector<Tensor>& parts, int axis = 0);
/// `parts` pieces of one size along an axis, or the pieces between positions: {2, 3} gives [0, 2), [2, 3), [3, end).
std::vector<Tensor> split(const Tensor& x, std::int64_t parts, int axis = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& positions, int axis = 0);
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> positions, int axis = 0) {
  return split(x, std::vector<std::int64_t>(positions), axis);
}
/// x at each position of an axis, without the axis: stack's inverse.
std::vector<Tensor> unstack(const Tensor& x, int axis = 0);
/// The difference of each element and the one before it, n times; for bools whether they differ.
Tensor diff(const Tensor& x, int n = 1, int axis = -1);

// ---- index arrays (indexing.cpp; tests/core/numpy_test.cpp, scatter_test.cpp) ----
// Negative indices count from the end. An index out of range throws if the host holds the indices; if
// they are computed, its element becomes NaN (for integers the type's largest number), never another element.
/// x[.., indices, ..] along an axis.
Tensor take(const Tensor& x, const Tensor& indices, int axis = 0);
/// numpy's take_along_axis: result[i, j] = x[i, indices[i, j]] for axis 1 of 2.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis);
/// Adds updates into zeros of `shape` at indices along an axis; an index out of range makes the whole result NaN.
Tensor scatter_add(const Shape& shape, const Tensor& indices, const Tensor& updates, int axis = 0);
/// x with x[.., indices, ..] along an axis replaced by updates (broadcast); the last update of a position wins.
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = 0);
/// x multiplied at x[.., indices, ..] by each update (broadcast), or the larger or smaller of x and all of them; NaN
/// wins. Equal candidates share the gradient evenly.
Tensor scatter_mul(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = 0);
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = 0);
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = 0);
/// 1 where the class is the index, along a new axis (last by default).
Tensor one_hot(const Tensor& indices, std::int64_t classes, Dtype dtype = Dtype::f32, int axis = -1);

// ---- order (rows.cpp; tests/core/sorting_test.cpp): stable; NaN is larger than every number, as in numpy ----
/// i32 positions along the axis in the order of their values.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);
Tensor sort(const Tensor& x, int axis = -1, bool descending = false);
struct Sorted {
  Tensor values, indices;  ///< i32 positions along the axis
};
/// The k largest, largest first, or the k smallest, smallest first.
Sorted topk(const Tensor& x, std::int64_t k, int axis = -1, bool largest = true);
/// For each value the i32 position in a sorted vector before which it belongs: before its equals, or behind them.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

// ---- scans (rows.cpp; tests/core/scans_test.cpp): over the elements up to each one ----
struct ScanOptions {
  bool reverse = false;    ///< from the last element to the first
  bool exclusive = false;  ///< without the element itself: the first sum is 0, the first product 1
};
Tensor cumsum(const Tensor& x, int axis, ScanOptions options = {});  ///< of the type that sum has
Tensor cumprod(const Tensor& x, int axis, ScanOptions options = {});
Tensor cummax(const Tensor& x, int axis);  ///< NaN from the first NaN on; the gradient goes to the first of equals
Tensor cummin(const Tensor& x, int axis);

// ---- reductions (reductions.cpp; tests/core/reductions_test.cpp): over the axes; without axes over all ----
Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< its type is sum_dtype(x.dtype())
Tensor prod(const Tensor& x);
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< as sum
Tensor max(const Tensor& x);
Tensor max(const Tensor& x, const Axes& axes, bool keepdims = true);
Tensor min(const Tensor& x);
Tensor min(const Tensor& x, const Axes& axes, bool keepdims = true);
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< integers give f32; of nothing NaN
/// Biased: divided by n. NaN for infinities; on CUDA also for two elements whose difference is beyond the type, and a
/// mean that is computed in the same kernel is infinite or NaN with it.
Tensor variance(const Tensor& x);
Tensor variance(const Tensor& x, const Axes& axes, bool keepdims = true);
Tensor stddev(const Tensor& x);
Tensor stddev(const Tensor& x, const Axes& axes, bool keepdims = true);
// Positions are i32, which kernels index with, at half the memory of i64; an axis of 2^31 elements is refused.
Tensor argmax(const Tensor& x);                                          ///< over all elements
Tensor argmax(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< i32 row-major position over the axes
Tensor argmin(const Tensor& x);
Tensor argmin(const Tensor& x, const Axes& axes, bool keepdims = true);
Tensor any(const Tensor& x);
Tensor any(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< bool
Tensor all(const Tensor& x);
Tensor all(const Tensor& x, const Axes& axes, bool keepdims = true);
Tensor norm(const Tensor& x);
Tensor norm(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< sqrt of the sum of squares; gradient 0 at 0
/// Sums axes so that the result has a shape that broadcasts to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);

Tensor count_nonzero(const Tensor& x);
Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdims = true);  ///< i64

// ---- contractions (contractions.cpp; tests/core/contractions_test.cpp) ----
struct MatmulOptions {
  bool trans_a = false, trans_b = false;  ///< swap the last two axes first
  Sums sums = {};                         ///< of f32 and halves; those of gradients are rounded alike
};
/// numpy's matmul: [..., m, k] x [..., k, n]; leading axes broadcast; a vector is a row on the left, a column on the
/// right. Products of u8, i8 and bool are i32, also einsum's and convolutions'; i64 is refused.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});
/// Products of each element of a with each of b: [size of a, size of b].
Tensor outer(const Tensor& a, const Tensor& b);
/// Sums of products over axes_a of a and axes_b of b, pair by pair; the result has a's other axes, then b's.
Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& axes_a, const Axes& axes_b);
/// numpy's einsum with letters and `...`: einsum("...ij,...jk->...ik", {x, y}). Operands are combined left to right,
/// all cast to the type of a product of all of them first; axes of `...` broadcast and stay in the result.
Tensor einsum(const std::string& subscripts, const std::vector<Tensor>& operands);
struct ConvOptions {
  std::vector<int> stride = {1}, pad = {0}, dilation = {1};  ///< one number, or one per spatial axis
  int groups = 1;
  Sums sums = {};  ///< as in MatmulOptions
};
/// x [N, C, spatial...], w [K, C / groups, window...] -> [N, K, out...], out = (in + 2 pad - dilation (window - 1) - 1)
/// / stride + 1.
Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options = {});
/// Transposed convolution: x [N, K, spatial...], w [K, C / groups, window...] -> [N, C, (in - 1) stride - 2 pad +
/// dilation (window - 1) + 1 + output_pad].
Tensor deconv(const Tensor& x, const Tensor& w, const ConvOptions& options = {},
              const std::vector<int>& output_pad = {0});
struct PoolOptions {
  std::vector<int> window = {2};
  std::vector<int> stride = {};                           ///< empty: the window
  std::vector<int> pad = {0};                             ///< at most half the window's extent
  std::vector<int> dilation = {1};                        ///< distance between a window's positions
  int channels = 1, channel_stride = 0, channel_pad = 0;  ///< the window along channels; stride 0: the window
  bool ceil_mode = false;                                 ///< the last window may extend past the input
  bool count_pad = false;                                 ///< the average includes padding (PyTorch's default)
};
/// x [N, C, spatial...] -> [N, C', out...], out = (in + 2 pad - dilation (window - 1) - 1) / stride + 1.
Tensor max_pool(const Tensor& x, const PoolOptions& options);
Tensor average_pool(const Tensor& x, const PoolOptions& options);
Tensor l2_pool(const Tensor& x, const PoolOptions& options);  ///< sqrt of the window's sum of squares

// ---- resizing (resize.cpp; tests/core/resize_test.cpp) ----
enum class ResizeMode : std::uint8_t {
  nearest,  ///< element floor(i in / out) of the input, in any type; the others make integers f32
  linear,   ///< the two neighbours, along each axis
  cubic,    ///< the four neighbours, along each axis: Keys' kernel with a = -0.75 (-0.5 with antialias)
};
struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;  ///< the first and the last element stay in place; not for nearest
  bool antialias = false;      ///< where an axis shrinks, the kernel is wider by in / out; not for nearest
};
/// x [N, C, spatial...] with 1 to 3 spatial axes -> [N, C, sizes...], as PyTorch's interpolate: element i of an axis is
/// at (i + 0.5) in / out - 0.5 of the input, with align_corners at i (in - 1) / (out - 1). Throws if `sizes` does not
/// have one positive number for each spatial axis, or an axis is empty.
Tensor resize(const Tensor& x, const std::vector<std::int64_t>& sizes, const ResizeOptions& options = {});

// ---- random numbers (shape_ops.cpp): functions of the stream, the step and the element alone ----
/// [0, 1), f32. `stream` from random_stream(seed, purpose); `step` an i32 scalar; `first` in [0, 2^53) the position in
/// the stream of the first element, so that a part of an array is drawn as it is in the whole.
Tensor uniform(const Shape& shape, std::uint64_t stream, const Tensor& step = 0, std::int64_t first = 0);
Tensor normal(const Shape& shape, std::uint64_t stream, const Tensor& step = 0, std::int64_t first = 0);
/// True with probability p, bool.
Tensor bernoulli(const Shape& shape, const Tensor& p, std::uint64_t stream, const Tensor& step = 0,
                 std::int64_t first = 0);

// ---- collectives (collectives.cpp): values that all ranks of a World compute together ----
// Each rank builds the same collectives in the same order, with inputs of the same shape and type; x itself where there
// is one rank. Gradients are those of the sum of all ranks' losses. Types: f64, f32, f16, bf16, i64, i32; halves are
// summed in f32, except by reduce_scatter on GPUs. Throws Fault::usage for other types.
/// The sum of the ranks' x, of x's shape, in a fixed order of the ranks: the same bits in each run and on each rank.
Tensor all_reduce(const World& world, const Tensor& x);
/// The ranks' x [N, ...] side by side, [ranks * N, ...]; x has at least one axis.
Tensor all_gather(const World& world, const Tensor& x);
/// The sum of the ranks' x [ranks * N, ...]: of its equal parts along axis 0 this rank's, [N, ...].
Tensor reduce_scatter(const World& world, const Tensor& x);
/// The x of rank `root`.
Tensor broadcast_from(const World& world, const Tensor& x, int root = 0);

// ---- composites (composites.cpp; tests/core/reductions_test.cpp) ----
Tensor softmax(const Tensor& x, const Axes& axes);
/// x less its largest value along the axes, to which the gradient is blind: of large numbers exp does not overflow
/// then, nor do their digits hide a sum's logarithm. NaN where the largest value is infinite.
Tensor less_largest(const Tensor& x, const Axes& axes);
Tensor log_softmax(const Tensor& x, const Axes& axes);
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims = true);
/// (x - mean) / sqrt(variance + eps) over the axes.
Tensor standardize(const Tensor& x, const Axes& axes, double eps);
/// x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta (PyTorch's local_response_norm).
Tensor local_response_norm(const Tensor& x, int size, double alpha, double beta, double bias);

}  // namespace nixie
