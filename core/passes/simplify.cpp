// Simplify: rebuilds a graph with hash-consing and local rules.
#include "nixie/core/passes/simplify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/gradient_forms.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

template <class... Parts>
std::string key(const Parts&... parts) {
  std::string text;
  (fmt::format_to(std::back_inserter(text), "{},", parts), ...);
  return text;
}
template <class T>
std::string list(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

std::string product_key(const Matmul& m) { return key(static_cast<int>(m.math)); }
std::string product_key(const Conv& c) {
  return key(static_cast<int>(c.role), list(c.stride), list(c.pad), list(c.dilation), c.groups,
             static_cast<int>(c.math));
}

// The node's own part of its identity; inputs, shape and dtype are added by the caller.
std::string op_key(const Op& op) {
  return std::visit(overloaded{
                        [](const Constant& c) { return key(c.value, c.weak); },
                        [](const Input& i) {
                          return key(i.name, fmt::ptr(i.storage.get()), fmt::ptr(i.variable.get()),
                                     i.has_variable_layout);
                        },
                        [](const Map& m) { return key(fmt::ptr(m.op.get())); },
                        []<OneOf<Coordinate, Concat, Gather> T>(const T& o) { return key(o.axis); },
                        [](const Reduce& r) { return key(static_cast<int>(r.kind), list(r.axes)); },
                        []<OneOf<Expand, Reshape> T>(const T&) { return std::string(); },
                        [](const Permute& p) { return key(list(p.order)); },
                        [](const Slice& s) { return key(list(s.start), list(s.step)); },
                        [](const Pad& p) { return key(list(p.low), list(p.high), p.value); },
                        [](const Scatter& s) { return key(s.axis, static_cast<int>(s.kind)); },
                        [](const ArgSort& s) { return key(s.axis, s.descending); },
                        [](const Scan& s) { return key(static_cast<int>(s.kind), s.axis, s.reverse, s.exclusive); },
                        [](const Random& r) { return key(static_cast<int>(r.kind), r.stream, r.first); },
                        []<OneOf<Matmul, Conv> T>(const T& product) { return product_key(product); },
                        [](const RoundedProduct& r) {
                          return key(std::visit([](const auto& each) { return product_key(each); }, r.product),
                                     r.sums.every, fmt::ptr(r.sums.merge.get()));
                        },
                        [](const Pool& p) {
                          return key(static_cast<int>(p.kind), static_cast<int>(p.role), list(p.window), list(p.stride),
                                     list(p.pad), list(p.dilation), p.count_pad);
                        },
                        // Two of the same kind are not equal: each is one exchange between the ranks.
                        [](const Collective& c) {
                          return key(static_cast<int>(c.kind), fmt::ptr(c.communicator.get()), c.root, c.number);
                        },
                    },
                    op);
}

// Whether a formula is one primitive of its parameters in order; x * x of one parameter is none.
bool is_primitive(const ElementwiseInfo& op, Primitive primitive) {
  const auto& body = op.formula.body;
  const int count = arity(primitive);
  if (op.formula.arity != count || static_cast<int>(body.size()) != count + 1 || body.back().primitive != primitive)
    return false;
  for (int i = 0; i < count; ++i)
    if (body.back().args[at(i)] != i) return false;
  return true;
}

bool is_number(const Tensor& x, double value) {
  const auto* constant = op_as<Constant>(x);
  return constant && constant->value == value;
}

// The primitives whose results are exact in doubles; functions of a backend may round otherwise.
struct Exact {
  Primitive primitive;
  double (*result)(double a, double b, double c);
};
constexpr Exact kExact[] = {
    {Primitive::abs, [](double a, double, double) { return std::abs(a); }},
    {Primitive::less, [](double a, double b, double) -> double { return a < b; }},
    {Primitive::less_equal, [](double a, double b, double) -> double { return a <= b; }},
    {Primitive::is_nan, [](double a, double, double) -> double { return std::isnan(a); }},
    {Primitive::select, [](double a, double b, double c) { return a != 0 ? b : c; }},
    {Primitive::neg, [](double a, double, double) { return -a; }},
    {Primitive::add, [](double a, double b, double) { return a + b; }},
    {Primitive::sub, [](double a, double b, double) { return a - b; }},
    {Primitive::mul, [](double a, double b, double) { return a * b; }},
    {Primitive::div, [](double a, double b, double) { return a / b; }},
};

constexpr int kMostOfProduct = 32;  // nodes of a product that is taken apart; what it shares is visited again

class Simplifier {
 public:
  Tensor rewrite(const Op& op, std::vector<Tensor> inputs, const Shape& shape, Dtype dtype) {
    const Tensor* x = inputs.empty() ? nullptr : &inputs[0];
    if (is_a<Expand, Reshape, Permute, Slice>(op) && is_a<Constant>(*x)) return unique(x->node().op, {}, shape, dtype);
    if (is_a<Expand, Reshape>(op) && x->shape() == shape) return *x;
    if ((is_a<Expand>(op) && is_a<Expand>(*x)) || (is_a<Reshape>(op) && is_a<Reshape>(*x)))
      return rewrite(op, x->inputs(), shape, dtype);
    if (const auto* outer = std::get_if<Permute>(&op)) {
      if (const auto* inner = op_as<Permute>(*x)) {
        Permute both;
        for (int axis : outer->order) both.order.push_back(inner->order[at(axis)]);
        if (std::ranges::is_sorted(both.order)) return x->inputs()[0];
        return rewrite(both, x->inputs(), shape, dtype);
      }
    }
    const MakeNode make = [this](const Op& made, std::vector<Tensor> from, const Shape& size, Dtype type) {
      return rewrite(made, std::move(from), size, type);
    };
    if (const auto* map = std::get_if<Map>(&op)) {
      if (Tensor same = neutral(*map->op, inputs, shape, dtype); same.id()) return same;
      if (const auto number = folded(*map->op, inputs, dtype))
        return unique(Constant{*number, false}, {}, shape, dtype);
      // One multiplication in place of a logarithm and an exponential.
      if (is_primitive(*map->op, Primitive::pow) && is_number(inputs[1], 2) && is_floating(dtype) &&
          inputs[0].shape() == shape && inputs[0].dtype() == dtype)
        return unique(square(inputs[0]).node().op, {inputs[0]}, shape, dtype);
      if (is_primitive(*map->op, Primitive::mul))
        if (const auto dx = gated_before_pooling(*map, inputs, dtype, make)) return *dx;
      if (is_primitive(*map->op, Primitive::add))
        if (const auto whole = side_by_side(op, inputs, shape, dtype, make)) return *whole;
    }
    if (const auto* reduce = std::get_if<Reduce>(&op)) {
      if (const auto smaller = reduced_before_pooling(*reduce, *x, shape, dtype, make)) return *smaller;
      if (const auto fewer = finite_operands(*reduce, *x, shape, dtype, make)) return *fewer;
      if (Tensor sum = factored(*reduce, *x, shape, dtype); sum.id()) return sum;
    }
    return unique(op, std::move(inputs), shape, dtype);
  }

 private:
  // x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1, x to the power of 1, casts that change nothing and a scope's hooks are x.
  static Tensor neutral(const ElementwiseInfo& op, const std::vector<Tensor>& inputs, const Shape& shape, Dtype dtype) {
    auto same = [&](const Tensor& x) { return x.shape() == shape && x.dtype() == dtype && !is_a<Constant>(x); };
    const bool converts = op.traits.result == ResultType::cast || op.traits.result == ResultType::retyped;
    const bool rounds = op.traits.result == ResultType::cast && !is_rounded(inputs[0]);
    if (converts && !rounds && same(inputs[0])) return inputs[0];
    // An op of one graph alone that gives its input had a gradient to say, which is in the graph by now.
    const bool is_identity = op.formula.arity == 1 && op.formula.body.size() == 1;
    if (is_identity && !op.traits.is_listed && same(inputs[0])) return inputs[0];
    if (inputs.size() != 2) return {};
    const bool add = is_primitive(op, Primitive::add), mul = is_primitive(op, Primitive::mul);
    const auto is = [&](Primitive primitive) { return is_primitive(op, primitive); };
    const double right = add || is(Primitive::sub) ? 0 : mul || is(Primitive::div) || is(Primitive::pow) ? 1 : NAN;
    if (is_number(inputs[1], right) && same(inputs[0])) return inputs[0];
    if ((add || mul) && is_number(inputs[0], right) && same(inputs[1])) return inputs[1];
    return {};
  }

  // The terms of a sum as a product: factors that differ from term to term, and common ones, at the sum's shape.
  struct Product {
    std::vector<Tensor> factors = {}, common = {};
    Op mul = {}, neg = {};
    bool negative = false;
  };
  Product factors_of(const Tensor& x, const Reduce& reduce, const Shape& shape) {
    Product product;
    std::vector<Tensor> left{x};  // the next one last
    for (int visited = 0; !left.empty(); ++visited) {
      const Tensor at = left.back();
      left.pop_back();
      const auto* map = op_as<Map>(at);
      const std::vector<Tensor>& inputs = at.inputs();
      const bool is_product = map &&
                              (is_primitive(*map->op, Primitive::mul) || is_primitive(*map->op, Primitive::neg)) &&
                              std::ranges::all_of(inputs, [&](const Tensor& y) { return y.dtype() == at.dtype(); });
      const Tensor* of = is_a<Expand>(at) ? &inputs[0] : nullptr;
      if (is_product && visited < kMostOfProduct) {
        product.negative ^= inputs.size() == 1;
        (inputs.size() == 1 ? product.neg : product.mul) = at.node().op;
        left.insert(left.end(), inputs.rbegin(), inputs.rend());
      } else if (of && std::ranges::all_of(reduce.axes, [&](int axis) { return of->shape()[axis] == 1; })) {
        product.common.push_back(rewrite(Expand{}, {*of}, shape, at.dtype()));
      } else {
        product.factors.push_back(at);
      }
    }
    return product;
  }

  // sum(x * c) is c * sum(x) where c repeats along the summed axes. Batch normalisation's gradients have two sums
  // then: the others are those two with factors of a channel.
  Tensor factored(const Reduce& reduce, const Tensor& x, const Shape& shape, Dtype dtype) {
    if (reduce.kind != ReduceKind::sum || !is_floating(dtype) || x.dtype() != dtype) return {};
    const Product product = factors_of(x, reduce, shape);
    const bool any = std::ranges::any_of(product.factors, [](const Tensor& factor) { return !is_a<Constant>(factor); });
    if (product.common.empty() || !any) return {};
    Tensor sum = product.factors[0];
    for (std::size_t i = 1; i < product.factors.size(); ++i)
      sum = rewrite(product.mul, {sum, product.factors[i]}, x.shape(), dtype);
    sum = unique(reduce, {sum}, shape, dtype);
    for (const Tensor& factor : product.common) sum = rewrite(product.mul, {sum, factor}, shape, dtype);
    return product.negative ? rewrite(product.neg, {sum}, shape, dtype) : sum;
  }

  // The sum of arrays that are padded with zeros and side by side, such as gradients of all parts of an array.
  std::optional<Tensor> side_by_side(const Op& add, const std::vector<Tensor>& inputs, const Shape& shape, Dtype dtype,
                                     const MakeNode& make) {
    const auto filled = [&](const Tensor& x) -> std::int64_t {
      if (x.shape() != shape || x.dtype() != dtype) return 0;
      if (is_a<Pad>(x)) return x.inputs()[0].shape().size();
      const auto known = filled_.find(x.id());
      return known == filled_.end() ? 0 : known->second;
    };
    const std::int64_t a = filled(inputs[0]), b = filled(inputs[1]);
    if (a == 0 || b == 0) return {};
    if (a + b < shape.size()) filled_[unique(add, inputs, shape, dtype).id()] = a + b;
    if (a + b != shape.size()) return {};
    std::vector<Tensor> terms, left = inputs;
    while (!left.empty()) {
      const Tensor x = left.back();
      left.pop_back();
      if (is_a<Pad>(x))
        terms.push_back(x);
      else
        left.insert(left.end(), x.inputs().begin(), x.inputs().end());
    }
    return concat_of_padded(terms, make);
  }

  // The number that exact arithmetic on numbers gives: that of doubles, or comparisons and choices among numbers as
  // their type holds them. Integer arithmetic has rules of its own and stays.
  static std::optional<double> folded(const ElementwiseInfo& op, const std::vector<Tensor>& inputs, Dtype dtype) {
    std::vector<double> values;
    for (const Tensor& x : inputs)
      if (!is_a<Constant>(x) || (dtype == Dtype::boolean && !is_floating(x.dtype()))) return {};
    const auto held = [](double value, Dtype type) {
      return visit_dtype(type, [&](auto held) { return convert<double>(convert<decltype(held)>(value)); });
    };
    if (op.traits.result == ResultType::cast && dtype != Dtype::f64)
      return held(op_as<Constant>(inputs[0])->value, dtype);
    if (!is_floating(dtype) && dtype != Dtype::boolean) return {};
    const bool compares = std::ranges::any_of(op.formula.body, [](const Instruction& step) {
      return step.primitive == Primitive::less || step.primitive == Primitive::less_equal ||
             step.primitive == Primitive::is_nan;
    });
    for (const Instruction& step : op.formula.body) {
      if (step.primitive == Primitive::parameter) {
        const Tensor& number = inputs[at(step.index)];
        const double value = op_as<Constant>(number)->value;
        values.push_back(compares ? held(value, number.dtype()) : value);
      } else if (step.primitive == Primitive::constant) {
        values.push_back(step.value);
      } else {
        const auto exact = std::ranges::find(kExact, step.primitive, &Exact::primitive);
        if (exact == std::end(kExact)) return {};
        const auto arg = [&](std::size_t i) { return step.args[i] < 0 ? 0 : values[at(step.args[i])]; };
        values.push_back(exact->result(arg(0), arg(1), arg(2)));
      }
    }
    return values.back();
  }

  Tensor unique(const Op& op, std::vector<Tensor> inputs, const Shape& shape, Dtype dtype) {
    std::string text = key(op.index(), op_key(op), to_string(shape), to_string(dtype));
    for (const Tensor& input : inputs) text += key(input.node().number);
    const auto [slot, fresh] = unique_.try_emplace(std::move(text));
    if (fresh) slot->second = Tensor::make(op, std::move(inputs), shape, dtype);
    return slot->second;
  }

  std::unordered_map<std::string, Tensor> unique_;
  std::unordered_map<const Node*, std::int64_t> filled_;  // sums of padded arrays: how many elements these have
};

}  // namespace

Graph simplify(const Graph& graph) {
  Simplifier simplifier;
  return rewritten(graph, [&](const Tensor& x, std::vector<Tensor> inputs) {
    return simplifier.rewrite(x.node().op, std::move(inputs), x.shape(), x.dtype());
  });
}

std::string signature(const Graph& graph) {
  std::unordered_map<const Node*, std::size_t> number;
  std::string text;
  for (const Tensor& x : topological(graph)) {
    const auto* input = op_as<Input>(x);
    const bool of_variable = input && input->storage && input->storage->of_variable();  // its layout may differ
    const bool leaf = input || is_scalar(x);
    text += key(x.node().op.index(), leaf ? "" : op_key(x.node().op), of_variable, to_string(x.shape()),
                to_string(x.dtype()));
    for (const Tensor& input : x.inputs()) text += key(number.at(input.id()));
    text += '\n';
    number.emplace(x.id(), number.size());
  }
  for (const Tensor& output : graph.outputs) text += key(number.at(output.id()));
  return text;
}

}  // namespace nixie
