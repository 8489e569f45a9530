// Linear, Scale and Embedding: their parameters and formulas.
#include "nixie/layers/linear.h"

namespace nixie {

namespace {

/// The features' axis of an input of this shape. `features` is their number, or the word where any will do.
int features_axis(const Shape& shape, const std::optional<int>& axis, const std::string& features) {
  const auto fits = [&] { return features == "features" || std::to_string(shape[axis.value_or(1)]) == features; };
  if (!axis) {
    check(shape.rank() == 2 && fits(), "input is ", shape, ", expected [N, ", features, "]",
          shape.rank() > 2 ? "; put a flatten in front, or set axis" : "");
    return 1;
  }
  const int found = shape.normal_axis(*axis);
  check(found > 0, "axis ", *axis, " of input ", shape, " is that of the samples, expected another");
  check(fits(), "input is ", shape, ", expected ", features, " along axis ", *axis);
  return found;
}

}  // namespace

Forward Linear::build(const Shape& in, Parameters& parameters) const {
  const std::int64_t features = in[features_axis(in, axis, "features")];
  const Variable w = parameters.make("weight", {out, features}, init);
  std::optional<Variable> b;
  if (bias) b = parameters.make("bias", {out}, bias_init);
  return [=, axis = axis, features = std::to_string(features)](const Tensor& x, const Pass&) {
    const int along = features_axis(x.shape(), axis, features), last = x.rank() - 1;
    const Tensor rows = along == last ? x : transpose(x, along, last);
    const Tensor y = matmul(x.rank() == 2 ? rows : reshape(rows, {-1, rows.shape()[last]}), w, {.trans_b = true});
    const Tensor sum = b ? y + *b : y;
    if (x.rank() == 2) return sum;
    std::vector<std::int64_t> sizes = rows.shape().sizes();
    sizes.back() = w.shape()[0];
    const Tensor result = reshape(sum, sizes);
    return along == last ? result : transpose(result, along, last);
  };
}

Forward Scale::build(const Shape& in, Parameters& parameters) const {
  const int at = in.normal_axis(axis);
  check(at > 0, "axis ", axis, " of input ", in, " is that of the samples, expected another");
  const std::int64_t size = in[at];
  std::vector<std::int64_t> stored(static_cast<std::size_t>(trailing) + 1, 1);
  stored[0] = size;
  const Variable weight = parameters.make(parameter, Shape(stored), init);
  std::optional<Variable> offset;
  if (bias) offset = parameters.make("bias", {size}, bias_init);
  return [=, axis = axis](const Tensor& x, const Pass&) {
    const int along = x.shape().normal_axis(axis);
    check(x.shape()[along] == size, "input is ", x.shape(), ", expected ", size, " along axis ", axis);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
    sizes[static_cast<std::size_t>(along)] = size;
    const Tensor y = x * reshape(weight, sizes);
    return offset ? y + reshape(*offset, sizes) : y;
  };
}

Forward Embedding::build(const Shape&, Parameters& parameters) const {
  const Variable w = parameters.make("weight", {count, size}, init);
  return [=, beyond = static_cast<double>(count)](const Tensor& x, const Pass&) {
    Tensor names_row = x >= 0;
    if (is_floating(x.dtype())) names_row = logical_and(names_row, x == floor(x));
    return take(w, cast(where(names_row, x, beyond), Dtype::i32), 0);
  };
}

}  // namespace nixie
