// Joins padded arrays that are side by side, and moves gates and reductions from behind a max pooling's gradient to
// before it, and checks of a product to its operands.
#include "nixie/core/passes/gradient_forms.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// Along each axis, from the first position to behind the last.
using Interval = std::pair<std::int64_t, std::int64_t>;
using Box = std::vector<Interval>;

struct Placed {
  Tensor array;
  Box box;
};

Shape shape_of(const Box& box) {
  std::vector<std::int64_t> sizes;
  for (const auto& [low, high] : box) sizes.push_back(high - low);
  return Shape(std::move(sizes));
}

// The arrays by their range along an axis, if these ranges follow each other without gaps from one end of the box to
// the other.
std::optional<std::map<Interval, std::vector<Placed>>> along(int axis, const std::vector<Placed>& arrays,
                                                             const Box& box) {
  const auto at = static_cast<std::size_t>(axis);
  std::map<Interval, std::vector<Placed>> ranges;
  for (const Placed& one : arrays) ranges[one.box[at]].push_back(one);
  std::int64_t end = box[at].first;
  for (const auto& [range, found] : ranges) {
    if (range.first != end) return {};
    end = range.second;
  }
  return end == box[at].second && ranges.size() > 1 ? std::optional(std::move(ranges)) : std::nullopt;
}

// Each axis is divided once.
std::optional<Tensor> joined(const std::vector<Placed>& arrays, const Box& box, Axes divided, const MakeNode& make) {
  if (arrays.size() == 1) return arrays[0].box == box ? std::optional(arrays[0].array) : std::nullopt;
  for (int axis = 0; axis < static_cast<int>(box.size()); ++axis) {
    if (std::ranges::count(divided, axis)) continue;
    const auto ranges = along(axis, arrays, box);
    if (!ranges) continue;
    divided.push_back(axis);
    std::vector<Tensor> parts;
    for (const auto& [range, found] : *ranges) {
      Box inside = box;
      inside[at(axis)] = range;
      const std::optional<Tensor> part = joined(found, inside, divided, make);
      if (!part) return {};
      parts.push_back(*part);
    }
    return make(Concat{axis}, std::move(parts), shape_of(box), arrays[0].array.dtype());
  }
  return {};
}

const Pool* max_pool_of(const Tensor& x, PoolRole role) {
  const auto* pool = op_as<Pool>(x);
  return pool && pool->kind == PoolKind::max && pool->role == role ? pool : nullptr;
}

// Formulas of one array, position by position, for another array in its place.
class Replacement {
 public:
  Replacement(const Tensor& of, const Tensor& instead, const MakeNode& make) : make_(make), shape_(instead.shape()) {
    done_.emplace(of.id(), instead);
  }

  /// None if y is made of anything but the array and numbers.
  std::optional<Tensor> operator()(const Tensor& y) {
    const auto known = done_.find(y.id());
    return known != done_.end() ? known->second : done_.emplace(y.id(), made(y)).first->second;
  }

 private:
  std::optional<Tensor> made(const Tensor& y) {
    const Op& op = y.node().op;
    if (is_a<Constant>(op)) return make_(op, {}, shape_, y.dtype());
    if (is_a<Expand>(op) && y.inputs()[0].shape().size() == 1) return make_(op, y.inputs(), shape_, y.dtype());
    if (!is_a<Map>(op)) return {};
    std::vector<Tensor> inputs;
    for (const Tensor& input : y.inputs()) {
      const std::optional<Tensor> mine = (*this)(input);
      if (!mine) return {};
      inputs.push_back(*mine);
    }
    return make_(op, std::move(inputs), shape_, y.dtype());
  }

  const MakeNode& make_;
  const Shape shape_;
  std::unordered_map<const Node*, std::optional<Tensor>> done_;
};

// x reduced to one value; itself if it is one.
Tensor reduced_to_one(ReduceKind kind, const Tensor& x, const Shape& shape, Dtype dtype, const MakeNode& make) {
  Reduce all{kind, {}};
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.shape()[axis] != 1) all.axes.push_back(axis);
  return all.axes.empty() ? x : make(all, {x}, shape, dtype);
}

// The gradient of a max pooling that y is made of, position by position; windows that do not overlap.
std::optional<Tensor> gradient_behind(const Tensor& y) {
  std::vector<Tensor> left{y};
  std::unordered_set<const Node*> seen;
  while (!left.empty()) {
    const Tensor x = left.back();
    left.pop_back();
    if (x.shape() != y.shape() || !seen.insert(x.id()).second) continue;
    if (const Pool* pool = max_pool_of(x, PoolRole::input_grad)) {
      const Tensor& dy = x.inputs()[0];
      bool apart = pool->dilation.empty() && dy.dtype() == x.dtype();
      for (std::size_t i = 0; i < pool->window.size(); ++i)
        apart &= pool->pad[i] == 0 && (pool->stride[i] >= pool->window[i] || dy.shape()[static_cast<int>(i) + 1] == 1);
      return apart ? std::optional(x) : std::nullopt;
    }
    if (is_a<Map>(x)) left.insert(left.end(), x.inputs().begin(), x.inputs().end());
  }
  return {};
}

}  // namespace

std::optional<Tensor> concat_of_padded(const std::vector<Tensor>& terms, const MakeNode& make) {
  std::vector<Placed> arrays;
  std::int64_t filled = 0;
  for (const Tensor& term : terms) {
    const auto* pad = op_as<Pad>(term);
    if (!pad || pad->value != 0) return {};
    const Tensor& array = term.inputs()[0];
    Box box;
    for (int axis = 0; axis < array.rank(); ++axis) {
      const std::int64_t low = pad->low[at(axis)], size = array.shape()[axis];
      box.emplace_back(low, low + size);
    }
    filled += array.shape().size();
    arrays.push_back({array, std::move(box)});
  }
  if (arrays.empty() || filled == 0 || filled != terms[0].shape().size()) return {};
  Box whole;
  for (std::int64_t size : terms[0].shape()) whole.emplace_back(0, size);
  return joined(arrays, whole, {}, make);
}

std::optional<Tensor> gated_before_pooling(const Map& mul, const std::vector<Tensor>& factors, Dtype dtype,
                                           const MakeNode& make) {
  for (const std::size_t i : {0, 1}) {
    const Tensor& dx = factors[i];
    const Pool* pool = max_pool_of(dx, PoolRole::input_grad);
    if (!pool || dx.dtype() != dtype || dx.inputs()[0].dtype() != dtype) continue;
    const Tensor &dy = dx.inputs()[0], &index = dx.inputs()[1];
    if (!max_pool_of(index, PoolRole::index)) continue;
    const Tensor& x = index.inputs()[0];
    Pool forward = *pool;
    forward.role = PoolRole::output;
    const Tensor& passes = factors[1 - i];
    if (!is_a<Map>(passes) || passes.dtype() != Dtype::boolean) continue;
    const auto gate = Replacement(x, make(forward, {x}, dy.shape(), x.dtype()), make)(passes);
    if (!gate) continue;
    std::vector<Tensor> gated{dy, *gate};
    if (i == 1) std::swap(gated[0], gated[1]);
    return make(*pool, {make(mul, std::move(gated), dy.shape(), dtype), index}, dx.shape(), dtype);
  }
  return {};
}

std::optional<Tensor> reduced_before_pooling(const Reduce& reduce, const Tensor& x, const Shape& shape, Dtype dtype,
                                             const MakeNode& make) {
  using enum ReduceKind;
  const bool known = reduce.kind == sum || reduce.kind == mean || reduce.kind == max || reduce.kind == min;
  if (shape.size() != 1 || x.dtype() != dtype || !known) return {};
  const std::optional<Tensor> dx = gradient_behind(x);
  if (!dx) return {};
  const Tensor& dy = dx->inputs()[0];
  const auto of_passed = Replacement(*dx, dy, make)(x),
             of_zero = Replacement(*dx, make(Constant{0, false}, {}, shape, dx->dtype()), make)(x);
  if (!of_passed || !of_zero) return {};
  const Tensor passed = reduced_to_one(reduce.kind, *of_passed, shape, dtype, make);
  const std::int64_t all = x.shape().size(), zeros = all - dy.shape().size();
  const auto* number = op_as<Constant>(*of_zero);
  if (reduce.kind == sum && number && number->value == 0) return passed;
  if (reduce.kind == sum && number && number->value == 1) return passed + zeros;
  if (reduce.kind == sum) return passed + *of_zero * zeros;
  if (reduce.kind == max) return zeros > 0 ? maximum(passed, *of_zero) : passed;
  if (reduce.kind == min) return zeros > 0 ? minimum(passed, *of_zero) : passed;
  const double share = static_cast<double>(zeros) / static_cast<double>(all);
  return passed * (1 - share) + *of_zero * share;
}

std::optional<Tensor> finite_operands(const Reduce& reduce, const Tensor& x, const Shape& shape, Dtype dtype,
                                      const MakeNode& make) {
  if (reduce.kind != ReduceKind::min || shape.size() != 1) return {};
  Tensor check = x;
  while (has_result(check, ResultType::cast)) check = Tensor(check.inputs()[0]);
  const auto* map = op_as<Map>(check);
  if (!map || map->op->formula.body.size() != 2 || map->op->formula.body.back().primitive != Primitive::is_finite)
    return {};
  const Tensor& product = check.inputs()[0];
  if (!is_a<Matmul>(product) || product.dtype() != Dtype::f32) return {};
  const Tensor &a = product.inputs()[0], &b = product.inputs()[1];
  const std::int64_t read = a.shape().size() + b.shape().size();
  if (a.dtype() != Dtype::f16 || b.dtype() != Dtype::f16 || a.shape()[a.rank() - 1] < 1) return {};
  if (read >= product.shape().size()) return {};
  const auto of = [&](const Tensor& operand) {
    return reduced_to_one(ReduceKind::min, *Replacement(product, operand, make)(x), shape, dtype, make);
  };
  return dtype == Dtype::boolean ? logical_and(of(a), of(b)) : minimum(of(a), of(b));
}

}  // namespace nixie
