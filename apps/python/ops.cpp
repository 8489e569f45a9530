// The ops of core/ops/ops.h under their own names: a line for each. nixie/*.py gives them numpy's and the Array API's
// names and arguments.
#include "nixie/core/ops/ops.h"

#include <fmt/format.h>

#include "nixie/apps/python/arguments.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/formats.h"

namespace nixie::python {
namespace {

using T = const Tensor&;
using Sizes = const std::vector<std::int64_t>&;

// How a parameter of an op comes from Python, and what of it the op takes.
template <class P>
struct Argument {
  using Type = P;
  static P value(const P& given) { return given; }
  static const Operand* device(const P&) { return nullptr; }
};
template <>
struct Argument<Tensor> {
  using Type = Operand;
  static const Tensor& value(const Operand& given) { return given.tensor; }
};
template <>
struct Argument<std::vector<Tensor>> {
  using Type = std::vector<Operand>;
  static std::vector<Tensor> value(const std::vector<Operand>& given) {
    std::vector<Tensor> tensors;
    for (const Operand& each : given) tensors.push_back(each.tensor);
    return tensors;
  }
};
template <>
struct Argument<Axes> {
  using Type = AxesArgument;
  static const Axes& value(const AxesArgument& given) { return given.axes; }
};
template <>
struct Argument<std::optional<Axes>> {
  using Type = std::optional<AxesArgument>;
  static std::optional<Axes> value(const Type& given) { return given ? std::optional(given->axes) : std::nullopt; }
};
template <class T>
struct Argument<std::vector<T>> {
  using Type = NumbersArgument<T>;
  static const std::vector<T>& value(const Type& given) { return given.numbers; }
};
template <>
struct Argument<Dtype> {
  using Type = DtypeArgument;
  static Dtype value(const DtypeArgument& given) { return given.dtype; }
};
template <>
struct Argument<std::vector<Index>> {
  using Type = py::list;
  static std::vector<Index> value(const py::list& given) {
    std::vector<Index> indices;
    // The ends of a slice may lie anywhere, an index beyond 64 bits is outside.
    const auto number = [](py::handle each, PyObject* beyond = nullptr) -> std::optional<std::int64_t> {
      if (each.is_none()) return {};
      const Py_ssize_t found = PyNumber_AsSsize_t(each.ptr(), beyond);
      if (found == -1 && PyErr_Occurred()) throw py::error_already_set();
      return found;
    };
    for (const py::handle each : given) {
      if (!PySlice_Check(each.ptr()))
        indices.emplace_back(*number(each, PyExc_IndexError));
      else
        indices.push_back(
            Index::range(number(each.attr("start")), number(each.attr("stop")), number(each.attr("step")).value_or(1)));
    }
    return indices;
  }
};
template <class P>
using Of = Argument<std::remove_cvref_t<P>>;

void collect(std::vector<Operand*>& all, Operand& one) { all.push_back(&one); }
void collect(std::vector<Operand*>& all, std::vector<Operand>& several) {
  for (Operand& each : several) all.push_back(&each);
}
template <class Other>
void collect(std::vector<Operand*>&, Other&) {}

py::object result_of(Tensor tensor, Device& device) { return py::cast(make_value(std::move(tensor), device)); }
py::object result_of(const Sorted& sorted, Device& device) {
  return py::make_tuple(result_of(sorted.values, device), result_of(sorted.indices, device));
}

// An argument as the op wants it; a TypeError of one line for another kind of object.
template <class Type>
Type converted(const char* name, std::size_t i, py::handle object) {
  try {
    return object.cast<Type>();
  } catch (const py::cast_error&) {
    throw py::type_error(fmt::format("{}: argument {} is a {}, expected {}", name, i + 1,
                                     Py_TYPE(object.ptr())->tp_name, py::detail::make_caster<Type>::name.text));
  }
}

template <class... Type, std::size_t... i>
std::tuple<Type...> all_converted(const char* name, const py::args& given, std::index_sequence<i...>) {
  if (given.size() != sizeof...(Type))
    throw py::type_error(fmt::format("{}: {} arguments, expected {}", name, given.size(), sizeof...(Type)));
  return {converted<Type>(name, i, given[i])...};
}

template <class R, class... P>
void op(py::module_& module, const char* name, R (*function)(P...)) {
  module.def(name, [=](const py::args& args) {
    auto given = all_converted<typename Of<P>::Type...>(name, args, std::index_sequence_for<P...>());
    return std::apply(
        [&](auto&... each) {
          std::vector<Operand*> operands;
          (collect(operands, each), ...);
          fit_large_numbers(operands);
          return result_of(function(Of<P>::value(each)...), common_device({operands.begin(), operands.end()}));
        },
        given);
  });
}

// Leaves, which are made on a device: the last argument.
template <class... P>
void leaf(py::module_& module, const char* name, Tensor (*function)(P...)) {
  module.def(name, [=](const py::args& args) {
    const auto given =
        all_converted<typename Of<P>::Type..., std::string>(name, args, std::make_index_sequence<sizeof...(P) + 1>());
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return make_value(function(Of<P>::value(std::get<i>(given))...), Device::named(std::get<sizeof...(P)>(given)));
    }
    (std::index_sequence_for<P...>());
  });
}

Axes all_axes(T x) {
  Axes axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

#define UNARY(name)                    \
  {                                    \
#name, [](T x) { return name(x); } \
  }
#define BINARY(name)                           \
  {                                            \
#name, [](T a, T b) { return name(a, b); } \
  }
#define REDUCTION(name)                                                                \
  {                                                                                    \
#name, [](T x, const std::optional <Axes>& axes,                                   \
              bool keepdims) { return name(x, axes ? *axes : all_axes(x), keepdims); } \
  }
const std::pair<const char*, Tensor (*)(T)> kUnary[] = {
    UNARY(logical_not), UNARY(sign),   UNARY(sqrt),          UNARY(rsqrt),   UNARY(square), UNARY(reciprocal),
    UNARY(exp),         UNARY(exp2),   UNARY(expm1),         UNARY(log),     UNARY(log2),   UNARY(log1p),
    UNARY(sin),         UNARY(cos),    UNARY(tan),           UNARY(asin),    UNARY(acos),   UNARY(atan),
    UNARY(sinh),        UNARY(cosh),   UNARY(tanh),          UNARY(erf),     UNARY(erfc),   UNARY(sigmoid),
    UNARY(floor),       UNARY(ceil),   UNARY(round),         UNARY(trunc),   UNARY(gelu),   UNARY(is_finite),
    UNARY(is_inf),      UNARY(is_nan), UNARY(stop_gradient), UNARY(softplus)};
const std::pair<const char*, Tensor (*)(T, T)> kBinary[] = {BINARY(logical_and), BINARY(logical_or), BINARY(fmod),
                                                            BINARY(atan2),       BINARY(maximum),    BINARY(minimum),
                                                            BINARY(relu),        BINARY(elu)};
const std::pair<const char*, Tensor (*)(T, const std::optional<Axes>&, bool)> kReductions[] = {
    REDUCTION(sum),      REDUCTION(prod),   REDUCTION(max),      REDUCTION(min),    REDUCTION(mean),
    REDUCTION(variance), REDUCTION(stddev), REDUCTION(argmax),   REDUCTION(argmin), REDUCTION(any),
    REDUCTION(all),      REDUCTION(norm),   REDUCTION(logsumexp)};
#undef UNARY
#undef BINARY
#undef REDUCTION

}  // namespace

void bind_ops(py::module_& m) {
  for (const auto& [name, function] : kUnary) op(m, name, function);
  for (const auto& [name, function] : kBinary) op(m, name, function);
  for (const auto& [name, function] : kReductions) op(m, name, function);
  op(m, "where", &where);
  op(m, "cast", &cast);
  op(m, "wrapped", &wrapped);
  op(m, "clip", &clip);

  leaf(
      m, "full", +[](Sizes shape, T value, Dtype dtype) { return full(Shape(shape), value, dtype); });
  leaf(
      m, "coordinate", +[](Sizes shape, int axis) { return coordinate(Shape(shape), axis); });
  leaf(
      m, "eye", +[](std::int64_t rows, std::int64_t columns, std::int64_t diagonal, Dtype dtype) {
        return eye(rows, columns, diagonal, dtype);
      });
  leaf(
      m, "uniform", +[](Sizes shape, std::uint64_t stream, T step) { return uniform(Shape(shape), stream, step); });
  leaf(
      m, "normal", +[](Sizes shape, std::uint64_t stream, T step) { return normal(Shape(shape), stream, step); });
  m.def("random_stream", &random_stream);

  op(
      m, "broadcast_to", +[](T x, Sizes shape) { return broadcast_to(x, Shape(shape)); });
  op(
      m, "reshape", +[](T x, Sizes sizes) { return reshape(x, sizes); });
  op(m, "expand_dims", &expand_dims);
  op(m, "squeeze", &squeeze);
  op(m, "permute", &permute);
  op(m, "moveaxis", &moveaxis);
  op(m, "flip", &flip);
  op(m, "tile", &tile);
  op(
      m, "repeat", +[](T x, std::int64_t repeats, int axis) { return repeat(x, repeats, axis); });
  op(m, "roll", &roll);
  op(m, "tril", &tril);
  op(m, "triu", &triu);
  op(m, "slice", &slice);
  op(
      m, "update", +[](T x, const std::vector<Index>& indices, T value) { return update(x, indices, value); });
  op(m, "pad", &pad);
  op(m, "concat", &concat);
  op(m, "stack", &stack);
  op(m, "take", &take);
  op(m, "take_along_axis", &take_along_axis);
  op(m, "scatter", &scatter);
  op(m, "scatter_mul", &scatter_mul);
  op(m, "scatter_max", &scatter_max);
  op(m, "scatter_min", &scatter_min);
  op(
      m, "scatter_add",
      +[](Sizes shape, T indices, T updates, int axis) { return scatter_add(Shape(shape), indices, updates, axis); });
  op(m, "one_hot", &one_hot);
  op(m, "diff", &diff);
  op(m, "searchsorted", &searchsorted);
  op(m, "argsort", &argsort);
  op(m, "sort", &sort);
  op(
      m, "topk", +[](T x, std::int64_t k, int axis) { return topk(x, k, axis); });
  op(
      m, "cumsum", +[](T x, int axis) { return cumsum(x, axis); });
  op(
      m, "cumprod", +[](T x, int axis) { return cumprod(x, axis); });
  op(m, "cummax", &cummax);
  op(m, "cummin", &cummin);

  op(m, "einsum", &einsum);
  op(
      m, "conv",
      +[](T x, T w, const std::vector<int>& stride, const std::vector<int>& pad, const std::vector<int>& dilation,
          int groups) { return conv(x, w, {.stride = stride, .pad = pad, .dilation = dilation, .groups = groups}); });
  op(
      m, "deconv",
      +[](T x, T w, const std::vector<int>& stride, const std::vector<int>& pad, const std::vector<int>& dilation,
          int groups, const std::vector<int>& output_pad) {
        return deconv(x, w, {.stride = stride, .pad = pad, .dilation = dilation, .groups = groups}, output_pad);
      });
  op(
      m, "max_pool",
      +[](T x, const std::vector<int>& window, const std::vector<int>& stride, const std::vector<int>& pad,
          const std::vector<int>& dilation, bool ceil_mode) {
        return max_pool(x,
                        {.window = window, .stride = stride, .pad = pad, .dilation = dilation, .ceil_mode = ceil_mode});
      });
  op(
      m, "average_pool",
      +[](T x, const std::vector<int>& window, const std::vector<int>& stride, const std::vector<int>& pad,
          bool ceil_mode, bool count_pad) {
        return average_pool(
            x, {.window = window, .stride = stride, .pad = pad, .ceil_mode = ceil_mode, .count_pad = count_pad});
      });
  op(
      m, "resize", +[](T x, Sizes sizes, const std::string& mode, bool align_corners, bool antialias) {
        using enum ResizeMode;
        return resize(x, sizes,
                      {.mode = mode == "bilinear"  ? linear
                               : mode == "bicubic" ? cubic
                                                   : nearest,
                       .align_corners = align_corners,
                       .antialias = antialias});
      });
  op(m, "softmax", &softmax);
  op(
      m, "quantized", +[](T x, const std::string& format) { return quantized(x, format_named(format)); });
  op(
      m, "quantized_stochastically", +[](T x, const std::string& format, T random) {
        return quantized(x, format_named(format), Rounding::stochastic, random);
      });
  op(m, "log_softmax", &log_softmax);
  m.def("promote", [](DtypeArgument a, DtypeArgument b) { return promote(a.dtype, b.dtype); });
  m.def("dtype_of", [](py::handle object) { return converted<DtypeArgument>("dtype", 0, object).dtype; });
}

}  // namespace nixie::python
