// Linear and Embedding: their parameters and formulas.
#include "nixie/layers/linear.h"

namespace nixie {

Forward Linear::build(const Shape& in, Parameters& parameters) const {
  auto check_rows = [](const Shape& shape, const std::string& features) {
    check(shape.rank() == 2 && (features == "features" || std::to_string(shape[1]) == features), "input is ", shape,
          ", expected [N, ", features, "]", shape.rank() > 2 ? "; put a flatten in front" : "");
  };
  check_rows(in, "features");
  const Variable w = parameters.make("weight", {out, in[1]}, init);
  std::optional<Variable> b;
  if (bias) b = parameters.make("bias", {out}, bias_init);
  return [=, features = std::to_string(in[1])](const Tensor& x, Pass&) {
    check_rows(x.shape(), features);
    const Tensor y = matmul(x, w, {.trans_b = true});
    return b ? y + *b : y;
  };
}

Forward Embedding::build(const Shape&, Parameters& parameters) const {
  const Variable w = parameters.make("weight", {count, size}, init);
  return [=, beyond = static_cast<double>(count)](const Tensor& x, Pass&) {
    Tensor names_row = x >= 0;
    if (is_floating(x.dtype())) names_row = logical_and(names_row, x == floor(x));
    return take(w, cast(where(names_row, x, beyond), Dtype::i32), 0);
  };
}

}  // namespace nixie
