// Slices of both operands, term by term; and the stored numbers of both operands, whose scales go behind the product.
#include "nixie/core/passes/products.h"

#include <algorithm>
#include <optional>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

constexpr std::int64_t kMostTerms = 4;

// Position `term` of an axis, every `step`-th along the spatial axes of images [N, C, ...].
Tensor term_of(const Tensor& x, int axis, std::int64_t term, const std::vector<int>& step = {}) {
  std::vector<Index> indices(at(x.shape().rank()), Index::all());
  for (std::size_t i = 0; i < step.size(); ++i)
    indices[i + 2] = Index::range(0, x.shape()[static_cast<int>(i) + 2], step[i]);
  indices[at(axis)] = Index::range(term, term + 1);
  return slice(x, indices);
}

// The sum of a_term * b_term over terms, each broadcast to the shape.
template <class A, class B>
Tensor sum_of_terms(std::int64_t terms, const Shape& shape, Dtype dtype, const A& a, const B& b) {
  const Dtype computed = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor sum;
  for (std::int64_t term = 0; term < terms; ++term) {
    const Tensor product =
        broadcast_to(retype(a(term), computed), shape) * broadcast_to(retype(b(term), computed), shape);
    sum = term == 0 ? product : sum + product;
  }
  return retype(sum, dtype);
}

// Nothing where the sums are long or of other products.
Tensor expanded(const Matmul&, const Tensor& x) {
  const Tensor &a = x.inputs()[0], &b = x.inputs()[1];
  const int last = a.shape().rank() - 1;
  const std::int64_t terms = a.shape()[last];
  if (terms < 1 || terms > kMostTerms) return {};
  return sum_of_terms(
      terms, x.shape(), x.dtype(), [&](std::int64_t term) { return term_of(a, last, term); },
      [&](std::int64_t term) { return term_of(b, last - 1, term); });
}

Tensor expanded(const Conv& conv, const Tensor& x) {
  if (conv.role == ConvRole::filter_grad || conv.groups != 1) return {};
  const Tensor &images = x.inputs()[0], &filters = x.inputs()[1];
  const bool is_output = conv.role == ConvRole::output;
  const auto is = [](int number) { return [number](std::int64_t each) { return each == number; }; };
  if (!std::all_of(filters.shape().begin() + 2, filters.shape().end(), is(1)) ||
      !std::ranges::all_of(conv.pad, is(0)) || (!is_output && !std::ranges::all_of(conv.stride, is(1))))
    return {};
  const std::int64_t terms = images.shape()[1];
  if (terms < 1 || terms > kMostTerms) return {};
  for (int axis = 2; axis < x.shape().rank(); ++axis)  // others where a deconvolution adds to the end of its output
    if (x.shape()[axis] != ceil_div(images.shape()[axis], is_output ? conv.stride[at(axis - 2)] : 1)) return {};
  std::vector<std::int64_t> of_results(at(x.shape().rank()), 1);
  of_results[1] = x.shape()[1];
  return sum_of_terms(
      terms, x.shape(), x.dtype(),
      [&](std::int64_t term) { return term_of(images, 1, term, is_output ? conv.stride : std::vector<int>()); },
      [&](std::int64_t term) { return reshape(term_of(filters, is_output ? 1 : 0, term), of_results); });
}

}  // namespace

Graph expand_short_products(const Graph& graph) {
  const std::vector<Tensor> order = topological(graph);
  const auto is_product = [](const Tensor& x) { return is_a<Matmul, Conv>(x); };
  if (std::ranges::none_of(order, is_product)) return graph;
  bool any = false;
  const auto by = [&](const Tensor& x, std::vector<Tensor> inputs) {
    const Tensor same = with_inputs(x, std::move(inputs));
    Tensor short_product;
    if (is_floating(x.dtype())) {
      if (const auto* matmul = op_as<Matmul>(x)) short_product = expanded(*matmul, same);
      if (const auto* conv = op_as<Conv>(x)) short_product = expanded(*conv, same);
    }
    any |= short_product.id() != nullptr;
    return short_product.id() ? short_product : same;
  };
  const Graph result = rewritten(graph, by, order);
  return any ? simplify(result) : graph;
}

namespace {

// Views that only choose and order elements. What a Pad adds would not be scaled.
bool is_choice(const Tensor& x) { return is_view(x) && !is_a<Pad>(x); }

// Whether x only names another storage type for its input.
bool is_retyped(const Tensor& x) { return has_result(x, ResultType::retyped) && is_floating(x.inputs()[0].dtype()); }

// The operand as views of stored numbers, and their scale; none of another operand.
std::optional<ScaledNumbers> stored(const Tensor& operand) {
  std::vector<Tensor> views;  // from the operand down
  Tensor at = operand;
  for (; is_choice(at) || (is_retyped(at) && !is_f8(at.dtype())); at = at.inputs()[0])
    if (is_choice(at)) views.push_back(at);
  std::optional<ScaledNumbers> found = scaled_numbers(at);
  if (!found && is_f8(at.dtype())) found = ScaledNumbers{at, {}};
  if (!found) return {};
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    found->numbers = Tensor::make(view->node().op, {found->numbers}, view->shape(), found->numbers.dtype());
  return found;
}

// The product of stored numbers; none where an operand has none, or is in a batch: kernels take two matrices.
std::optional<Tensor> of_stored(const Tensor& x) {
  const auto* matmul = op_as<Matmul>(x);
  if (!matmul || x.rank() != 2 || x.dtype() == Dtype::f64 || x.inputs()[0].dtype() != x.dtype()) return {};
  const std::optional<ScaledNumbers> a = stored(x.inputs()[0]), b = stored(x.inputs()[1]);
  if (!a || !b) return {};
  Tensor y = Tensor::make(*matmul, {a->numbers, b->numbers}, x.shape(), Dtype::f32);
  const Tensor &left = a->scale, &right = b->scale;
  if (left.has_value() || right.has_value())
    y = y * (left.has_value() && right.has_value() ? left * right : left.has_value() ? left : right);
  return retype(y, x.dtype());
}

}  // namespace

Graph multiply_stored_numbers(const Graph& graph) {
  bool any = false;
  Graph result = rewritten(graph, [&](const Tensor& x, std::vector<Tensor> inputs) {
    const Tensor same = with_inputs(x, std::move(inputs));
    const std::optional<Tensor> product = of_stored(same);
    any |= product.has_value();
    return product.value_or(same);
  });
  return any ? result : graph;
}

}  // namespace nixie
