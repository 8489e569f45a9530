// Maps row-major strided products to the column-major ones of BLAS.
#include "nixie/backends/cuda/families/blas.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/families/conv/conv_fprop.h"
#include "nixie/backends/cuda/families/pooled_result.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/products/product.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// The last two axes and the batch of a strided array.
struct Strided {
  std::int64_t rows, columns, row_stride, column_stride, batches, batch_stride;
};

// Batch axes as one, where a single stride walks them.
std::optional<Strided> strided(const Shape& shape, const Strides& strides) {
  const int rank = shape.rank();
  if (rank < 2) return {};
  Strided m{shape[rank - 2], shape[rank - 1], strides[at(rank - 2)], strides[at(rank - 1)], 1, 0};
  for (int axis = rank - 3; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (m.batches > 1 && strides[at(axis)] != m.batch_stride * m.batches) return {};
    if (m.batches == 1) m.batch_stride = strides[at(axis)];
    m.batches *= shape[axis];
  }
  return m;
}

// As a column-major matrix of which `m` is the transpose: its columns are m's rows.
std::optional<BlasProblem::Matrix> column_major(const Strided& m) {
  BlasProblem::Matrix matrix;
  matrix.batch_stride = m.batch_stride;
  const bool rows_dense = m.column_stride == 1 || m.columns == 1, columns_dense = m.row_stride == 1 || m.rows == 1;
  if (rows_dense && (m.rows == 1 || m.row_stride >= m.columns)) {
    matrix.leading = m.rows == 1 ? m.columns : m.row_stride;
    return matrix;
  }
  if (columns_dense && (m.columns == 1 || m.column_stride >= m.rows)) {
    matrix.transposed = true;
    matrix.leading = m.columns == 1 ? m.rows : m.column_stride;
    return matrix;
  }
  return {};
}

bool is_full(const Access& access) { return access.inside.empty(); }

std::variant<BlasProblem, Refusal> as_blas(const Plan& plan, const Kernel& kernel) {
  if (!kernel.head || !std::holds_alternative<Matmul>(kernel.head->op)) return Refusal{"no matrix product"};
  const std::optional<BiasRelu> after = bias_relu_of(kernel);
  if (!after || after->instructions != kernel.stages[0].body.size())
    return Refusal{"other work on the result than a bias and ReLU"};
  const Operand &left = kernel.head->operands[0], &right = kernel.head->operands[1];
  const Access& store = kernel.stores[at(kernel.stages[0].stores[0].access)];
  const Dtype dtype = dtype_of(plan, left.slot), result = dtype_of(plan, store.slot);
  if (!is_floating(dtype) || is_f8(dtype) || dtype_of(plan, right.slot) != dtype || !is_full(store))
    return Refusal{"operands of these types"};
  if (result != dtype && !(result == Dtype::f32 && compute_dtype(dtype) == Dtype::f32))
    return Refusal{"a result of this type"};

  const auto x = strided(left.shape, left.strides), y = strided(right.shape, right.strides),
             z = strided(kernel.domain, store.strides);
  if (!x || !y || !z || kernel.domain.size() == 0 || x->columns == 0)
    return Refusal{"no elements, or batches without a common stride"};
  if (z->batches > std::numeric_limits<std::int32_t>::max()) return Refusal{"2^31 batches or more"};
  // Row-major D = X Y is column-major D' = Y' X': Y' is the first matrix.
  const auto a = column_major(*y), b = column_major(*x), d = column_major(*z);
  if (!a || !b || !d || d->transposed) return Refusal{"matrices without dense rows or columns"};

  BlasProblem p{.rows = z->columns, .columns = z->rows, .inner = x->columns, .batches = z->batches};
  p.a = *a, p.b = *b, p.d = *d;
  p.tf32 = dtype == Dtype::f32 && std::get<Matmul>(kernel.head->op).math == Math::tf32;
  p.a.slot = right.slot, p.a.offset = right.offset, p.a.dtype = dtype;
  p.b.slot = left.slot, p.b.offset = left.offset, p.b.dtype = dtype;
  p.d.slot = store.slot, p.d.offset = store.offset, p.d.dtype = result;
  // In f64 the library is twice as slow with anything after the product.
  if (dtype == Dtype::f64 && (after->relu || after->bias)) return Refusal{"f64 with work on the result"};
  p.relu = after->relu;
  if (after->bias) {
    const Access& bias = kernel.loads[at(*after->bias)];
    const int rank = kernel.domain.rank();
    for (int axis = 0; axis + 1 < rank; ++axis)
      if (bias.strides[at(axis)] != 0) return Refusal{"a bias that is not along the last axis"};
    if (bias.strides[at(rank - 1)] != 1 || !is_full(bias) || dtype_of(plan, bias.slot) != result)
      return Refusal{"a bias of another type or layout"};
    p.bias = bias;
  }
  return p;
}

// Whether f32 matrices are multiplied on tensor cores in parts in less time than by the library's multiply-adds.
bool gains_in_parts(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  if (!kernel.head || !is_product(*kernel.head) || kernel.domain.size() == 0) return false;
  return multiplier_of(plan, *kernel.head, chip) == Multiplier::tensor_cores_in_parts &&
         product_estimate(plan, kernel, chip).seconds < chip.seconds({.fma = flop(kernel), .launches = 1});
}

class Blas final : public Family {
 public:
  std::string_view name() const override { return "cuBLASLt"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    if (beats_library(plan, kernel, chip)) return Refusal{"f32 matrices, which are multiplied faster as halves"};
    if (gains_in_parts(plan, kernel, chip)) return Refusal{"f32 matrices, which are multiplied faster in parts"};
    auto found = as_blas(plan, kernel);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    return Choice{.kernel = kernel, .sizes = std::get<BlasProblem>(found)};
  }
  KernelCode generate(const Plan&, const Choice& choice, const Chip&, const std::string&) const override {
    fail(Fault::usage, "\"", choice.kernel.label, "\" is a call of cuBLASLt, not a program");
  }
};

}  // namespace

const Family& blas() {
  static const Blas family;
  return family;
}

const BlasProblem* blas_problem(const Group& group) {
  const auto* by = dynamic_cast<const Implementers*>(group.implementation.get());
  return by ? std::any_cast<BlasProblem>(&by->choices.front().sizes) : nullptr;
}

Kernel relu_after(const Kernel& product) {
  const Stage& stage = product.stages[0];
  const Dtype type = stage.body[at(stage.stores[0].value)].type;
  const Access& result = product.stores[at(stage.stores[0].access)];
  Kernel relu{.label = "relu after " + product.label, .domain = product.domain, .loads = {result}, .stores = {result}};
  relu.stages = {{.body = {{.primitive = Primitive::load, .type = type},
                           {.primitive = Primitive::constant, .type = type},
                           {.primitive = Primitive::max, .type = type, .args = {0, 1, -1}}},
                  .stores = {{2, 0}}}};
  return relu;
}

}  // namespace nixie::cuda
