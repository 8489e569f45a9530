// Maps row-major strided products to cuBLASLt's column-major ones and calls it.
#include "backends/cuda/matmul.h"

#include <algorithm>
#include <numeric>

#include "backends/cuda/libraries.h"

namespace nixie::cuda {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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

// What the stage does to the product: nothing (-1), or adds load i; nothing else is a library's.
std::optional<int> added_load(const Kernel& kernel) {
  if (kernel.stages.size() != 1 || kernel.stages[0].stores.size() != 1) return {};
  const Stage& stage = kernel.stages[0];
  const auto& body = stage.body;
  if (stage.stores[0].value != static_cast<int>(body.size()) - 1) return {};
  const auto is = [&](int reg, Primitive primitive) { return body[at(reg)].primitive == primitive; };
  if (body.size() == 1 && is(0, Primitive::head)) return -1;
  if (body.size() == 3 && is(2, Primitive::add) && body[2].args[0] + body[2].args[1] == 1)
    for (int head : {0, 1})
      if (is(head, Primitive::head) && is(1 - head, Primitive::load)) return body[at(1 - head)].index;
  return {};
}

cudaDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return CUDA_R_64F;
    case Dtype::f16:
      return CUDA_R_16F;
    case Dtype::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

void expect(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(Fault::device, "cuBLASLt: ", cublas_lt().status_string(status), " in ", what);
}

void destroy_handle(cublasLtHandle_t handle) { cublas_lt().destroy(handle); }
void destroy_desc(cublasLtMatmulDesc_t desc) { cublas_lt().desc_destroy(desc); }
void destroy_layout(cublasLtMatrixLayout_t layout) { cublas_lt().layout_destroy(layout); }
void destroy_preference(cublasLtMatmulPreference_t preference) { cublas_lt().preference_destroy(preference); }
using Desc = Handle<cublasLtMatmulDesc_t, destroy_desc>;
using Layout = Handle<cublasLtMatrixLayout_t, destroy_layout>;
using Preference = Handle<cublasLtMatmulPreference_t, destroy_preference>;

cublasLtHandle_t library_handle() {
  static thread_local Handle<cublasLtHandle_t, destroy_handle> handle;
  if (!handle) expect(cublas_lt().create(handle.out()), "create");
  return handle;
}

std::uint32_t alignment_of(const BlasProblem::Matrix& matrix) {
  std::int64_t bytes = std::gcd<std::int64_t>(256, matrix.offset * size_of(matrix.dtype));
  bytes = std::gcd(bytes, matrix.batch_stride * size_of(matrix.dtype));
  return static_cast<std::uint32_t>(bytes);
}

class BlasWork final : public Work {
 public:
  BlasWork(const Plan& plan, const BlasProblem& problem) : p_(problem) {
    const Dtype dtype = p_.a.dtype;
    double_ = dtype == Dtype::f64;
    expect(cublas_lt().desc_create(desc_.out(), double_ ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                   double_ ? CUDA_R_64F : CUDA_R_32F),
           "desc_create");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p_.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p_.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p_.bias) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      const Dtype bias = plan.slots[at(p_.bias->slot)].dtype;
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(bias));
      bias_bytes_ = p_.bias->offset * size_of(bias);
    }
    layout(a_, p_.a, p_.rows, p_.inner);
    layout(b_, p_.b, p_.inner, p_.columns);
    layout(d_, p_.d, p_.rows, p_.columns);
    choose();
  }
  std::int64_t scratch_bytes() const override { return static_cast<std::int64_t>(choice_.workspaceSize); }

  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    const auto address = [&](const BlasProblem::Matrix& matrix) {
      return addresses.slots[at(matrix.slot)] + matrix.offset * size_of(matrix.dtype);
    };
    if (p_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, addresses.slots[at(p_.bias->slot)] + bias_bytes_);
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const void* alpha = double_ ? static_cast<const void*>(&one64) : &one;
    const void* beta = double_ ? static_cast<const void*>(&zero64) : &zero;
    expect(cublas_lt().matmul(library_handle(), desc_, alpha, address(p_.a), a_, address(p_.b), b_, beta, address(p_.d),
                              d_, address(p_.d), d_, &choice_.algo, addresses.scratch, choice_.workspaceSize, stream),
           "matmul");
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) const {
    expect(cublas_lt().desc_set(desc_, attribute, &value, sizeof value), "desc_set");
  }
  // `rows` and `columns` as used; a transposed matrix is stored the other way round.
  void layout(Layout& layout, const BlasProblem::Matrix& matrix, std::int64_t rows, std::int64_t columns) {
    if (matrix.transposed) std::swap(rows, columns);
    expect(cublas_lt().layout_create(layout.out(), data_type(matrix.dtype), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), matrix.leading),
           "layout_create");
    const auto batches = static_cast<std::int32_t>(p_.batches);
    expect(cublas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches), "batches");
    expect(cublas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
                                  sizeof matrix.batch_stride),
           "batch stride");
  }
  void choose() {
    Preference preference;
    expect(cublas_lt().preference_create(preference.out()), "preference_create");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      expect(cublas_lt().preference_set(preference, attribute, &value, sizeof value), "preference_set");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{32} << 20);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p_.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p_.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p_.d));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p_.d));
    int found = 0;
    expect(cublas_lt().heuristic(library_handle(), desc_, a_, b_, d_, d_, preference, 1, &choice_, &found),
           "heuristic");
    if (found == 0) fail(Fault::device, "cuBLASLt: no algorithm for ", p_.rows, " x ", p_.columns, " x ", p_.inner);
  }

  BlasProblem p_;
  Desc desc_;
  Layout a_, b_, d_;
  cublasLtMatmulHeuristicResult_t choice_{};
  std::int64_t bias_bytes_ = 0;
  bool double_ = false;
};

}  // namespace

std::optional<BlasProblem> as_blas(const Plan& plan, const Kernel& kernel) {
  if (!kernel.head || !std::holds_alternative<Matmul>(kernel.head->op)) return {};
  const std::optional<int> added = added_load(kernel);
  if (!added) return {};
  const Operand &left = kernel.head->operands[0], &right = kernel.head->operands[1];
  const Access& store = kernel.stores[at(kernel.stages[0].stores[0].access)];
  const auto dtype_of_slot = [&](int slot) { return plan.slots[at(slot)].dtype; };
  const Dtype dtype = dtype_of_slot(left.slot), result = dtype_of_slot(store.slot);
  if (!is_floating(dtype) || dtype_of_slot(right.slot) != dtype || !is_full(store)) return {};
  if (result != dtype && !(result == Dtype::f32 && compute_dtype(dtype) == Dtype::f32)) return {};

  const auto x = strided(left.shape, left.strides), y = strided(right.shape, right.strides),
             z = strided(kernel.domain, store.strides);
  if (!x || !y || !z || kernel.domain.size() == 0 || x->columns == 0) return {};
  if (z->batches > std::numeric_limits<std::int32_t>::max()) return {};
  // Row-major D = X Y is column-major D' = Y' X': Y' is the first matrix.
  const auto a = column_major(*y), b = column_major(*x), d = column_major(*z);
  if (!a || !b || !d || d->transposed) return {};

  BlasProblem p{.rows = z->columns, .columns = z->rows, .inner = x->columns, .batches = z->batches};
  p.a = *a, p.b = *b, p.d = *d;
  p.a.slot = right.slot, p.a.offset = right.offset, p.a.dtype = dtype;
  p.b.slot = left.slot, p.b.offset = left.offset, p.b.dtype = dtype;
  p.d.slot = store.slot, p.d.offset = store.offset, p.d.dtype = result;
  if (*added >= 0) {
    const Access& bias = kernel.loads[at(*added)];
    const int rank = kernel.domain.rank();
    for (int axis = 0; axis + 1 < rank; ++axis)
      if (bias.strides[at(axis)] != 0) return {};
    if (bias.strides[at(rank - 1)] != 1 || !is_full(bias) || dtype_of_slot(bias.slot) != result) return {};
    p.bias = bias;
  }
  return p;
}

std::unique_ptr<Work> make_blas_work(const Plan& plan, const BlasProblem& problem) {
  return std::make_unique<BlasWork>(plan, problem);
}

}  // namespace nixie::cuda
