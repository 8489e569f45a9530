// Asks cuBLASLt for algorithms, measures them, and calls the fastest.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <span>

#include "nixie/backends/cuda/compile/cubin_cache.h"
#include "nixie/backends/cuda/device/libraries.h"
#include "nixie/backends/cuda/run/blas_work.h"
#include "nixie/backends/cuda/tune/candidate_timer.h"
#include "nixie/backends/cuda/tune/tuning_tables.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kProposals = 16;
// Raise it when algorithms are chosen otherwise: remembered choices then no longer apply.
constexpr int kChoice = 2;

cudaDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return CUDA_R_64F;
    case Dtype::f16:
      return CUDA_R_16F;
    case Dtype::bf16:
      return CUDA_R_16BF;
    case Dtype::f32:
      return CUDA_R_32F;
    default:
      break;
  }
  fail(Fault::usage, "cuBLASLt multiplies floating-point numbers, not ", to_string(dtype));
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
using Algorithm = cublasLtMatmulHeuristicResult_t;
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

class BlasWork final : public GroupWork {
 public:
  BlasWork(const Plan& plan, const BlasProblem& problem, std::int64_t l2_bytes) : p_(problem), l2_bytes_(l2_bytes) {
    const Dtype dtype = p_.a.dtype;
    double_ = dtype == Dtype::f64;
    const cublasComputeType_t compute = double_   ? CUBLAS_COMPUTE_64F
                                        : p_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
    expect(cublas_lt().desc_create(desc_.out(), compute, double_ ? CUDA_R_64F : CUDA_R_32F), "desc_create");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p_.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p_.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue());
    if (p_.bias) {
      const Dtype bias = plan.slots[at(p_.bias->slot)].dtype;
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(bias));
      bias_bytes_ = p_.bias->offset * size_of(bias);
    }
    layout(a_, p_.a, p_.rows, p_.inner);
    layout(b_, p_.b, p_.inner, p_.columns);
    layout(d_, p_.d, p_.rows, p_.columns);
  }

  // Takes the algorithm that the library's heuristics and a measurement find best, remembered on disk: an algorithm
  // decides the order of sums, so a later run must take the same. Without tuning the library's first proposal. False
  // where no algorithm is known to pass NaN on through a ReLU.
  bool choose() {
    const std::string key = key_of();
    const bool measures = tuning() != Tuning::off;
    if (const auto known = remembered(key); measures && known && known->code.size() == sizeof choice_) {
      std::memcpy(&choice_, known->code.data(), sizeof choice_);
      return true;
    }
    std::vector<Algorithm> candidates = ask();
    if (p_.relu && !with_room([&] { drop_those_that_lose_nan(candidates); })) return false;
    if (p_.relu && candidates.empty()) return false;
    if (candidates.empty()) fail(Fault::device, "cuBLASLt: no algorithm for ", key);
    choice_ = candidates[0];
    const auto measure = [&] { choice_ = candidates.size() > 1 ? fastest(candidates) : candidates[0]; };
    if (!measures || !with_room(measure)) return true;  // the library's own order is not remembered
    const Cubin mine{std::string(reinterpret_cast<const char*>(&choice_), sizeof choice_), ""};
    if (tuning() == Tuning::again) return cubin_cache().keep(key, mine), true;
    // Ranks of one machine measure at the same time.
    std::memcpy(&choice_, cubin_cache().agree(key, mine).code.data(), sizeof choice_);
    return true;
  }

  std::int64_t scratch_bytes() const override { return static_cast<std::int64_t>(choice_.workspaceSize); }
  std::string variant() const override { return "cuBLASLt"; }

  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    const auto address = [&](const BlasProblem::Matrix& matrix) {
      return addresses.slots[at(matrix.slot)] + matrix.offset * size_of(matrix.dtype);
    };
    call({address(p_.a), address(p_.b), address(p_.d),
          p_.bias ? addresses.slots[at(p_.bias->slot)] + bias_bytes_ : nullptr, addresses.scratch},
         choice_, stream);
  }

 private:
  struct Buffers {
    char *a, *b, *d, *bias, *scratch;
  };

  cublasLtEpilogue_t epilogue() const {
    if (p_.bias) return p_.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    return p_.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  }

  void call(const Buffers& memory, const Algorithm& algorithm, cudaStream_t stream) const {
    if (p_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const void* alpha = double_ ? static_cast<const void*>(&one64) : &one;
    const void* beta = double_ ? static_cast<const void*>(&zero64) : &zero;
    expect(cublas_lt().matmul(library_handle(), desc_, alpha, memory.a, a_, memory.b, b_, beta, memory.d, d_, memory.d,
                              d_, &algorithm.algo, memory.scratch, algorithm.workspaceSize, stream),
           "matmul");
  }

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
  // Under `again` nothing is, the first time that this process asks.
  static std::optional<Cubin> remembered(const std::string& key) {
    static std::mutex mutex;
    static std::set<std::string> asked;
    const std::lock_guard lock(mutex);
    if (asked.insert(key).second && tuning() == Tuning::again) return {};
    return cubin_cache().find(key);
  }

  // Runs a trial; false where the memory that it asks for is not there.
  template <class Trying>
  static bool with_room(Trying trying) {
    try {
      trying();
      return true;
    } catch (const Error& error) {
      if (error.fault() != Fault::memory) throw;
      return false;
    }
  }

  std::string key_of() const {
    int device = 0;
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    std::string key = fmt::format("cuBLASLt {} {}, choice {}: {} x {} x {} x {}{}{}{}", cublas_lt().version(),
                                  properties.name, kChoice, p_.batches, p_.rows, p_.columns, p_.inner,
                                  p_.bias ? " bias" : "", p_.relu ? " relu" : "", p_.tf32 ? " tf32" : "");
    for (const auto* m : {&p_.a, &p_.b, &p_.d})
      key += fmt::format(" {}{} {} {} {}", m->dtype, m->transposed ? "T" : "", m->leading, m->batch_stride,
                         alignment_of(*m));
    return key;
  }

  std::vector<Algorithm> ask() const {
    Preference preference;
    expect(cublas_lt().preference_create(preference.out()), "preference_create");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      expect(cublas_lt().preference_set(preference, attribute, &value, sizeof value), "preference_set");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{32} << 20);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p_.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p_.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p_.d));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p_.d));
    std::vector<Algorithm> found(kProposals);
    int count = 0;
    expect(cublas_lt().heuristic(library_handle(), desc_, a_, b_, d_, d_, preference, static_cast<int>(found.size()),
                                 found.data(), &count),
           "heuristic");
    found.resize(at(count));
    return found;
  }

  // Memory of its own to run algorithms on, full of one byte; sets of operands take turns.
  struct Trial {
    Stream stream;
    std::vector<Handle<void*, cudaFree>> blocks;
    std::vector<Buffers> sets;
  };
  void prepare(Trial& trial, std::span<const Algorithm> candidates, std::size_t sets, int byte) const {
    CUDA_CHECK(cudaStreamCreateWithFlags(trial.stream.out(), cudaStreamNonBlocking));
    std::size_t workspace = 0;
    for (const Algorithm& candidate : candidates) workspace = std::max(workspace, candidate.workspaceSize);
    const auto filled = [&](std::int64_t bytes) {
      const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256));
      auto& block = trial.blocks.emplace_back();
      CUDA_CHECK(cudaMalloc(block.out(), size));
      CUDA_CHECK(cudaMemsetAsync(block, byte, size, trial.stream));
      return static_cast<char*>(block.get());
    };
    char *bias = filled(p_.rows * 8), *scratch = filled(static_cast<std::int64_t>(workspace));
    for (std::size_t i = 0; i < sets; ++i)
      trial.sets.push_back({filled(extent(p_.a, p_.rows, p_.inner)), filled(extent(p_.b, p_.inner, p_.columns)),
                            filled(extent(p_.d, p_.rows, p_.columns)), bias, scratch});
  }

  // Some of the library's ReLUs make zero of NaN, which would hide that a net has diverged.
  void drop_those_that_lose_nan(std::vector<Algorithm>& candidates) const {
    Trial trial;
    prepare(trial, candidates, 1, 0xff);  // NaN in every type
    const Buffers& memory = trial.sets[0];
    const auto size = static_cast<std::size_t>(size_of(p_.d.dtype));
    std::erase_if(candidates, [&](const Algorithm& candidate) {
      std::array<char, 8> found{};
      CUDA_CHECK(cudaMemsetAsync(memory.d, 0, size, trial.stream));
      call(memory, candidate, trial.stream);
      CUDA_CHECK(cudaMemcpyAsync(found.data(), memory.d, size, cudaMemcpyDeviceToHost, trial.stream));
      CUDA_CHECK(cudaStreamSynchronize(trial.stream));
      return found == std::array<char, 8>{};
    });
  }

  // Values do not matter, as long as they are not zeros.
  Algorithm fastest(std::span<const Algorithm> candidates) const {
    constexpr std::size_t kFewestLaunches = 8;
    Trial trial;
    const std::size_t sets = sets_beyond_l2(
        extent(p_.a, p_.rows, p_.inner) + extent(p_.b, p_.inner, p_.columns) + extent(p_.d, p_.rows, p_.columns),
        l2_bytes_);
    prepare(trial, candidates, sets, 0x3c);
    CandidateTimer timer(trial.stream);
    for (const Algorithm& candidate : candidates)
      timer.add(std::max(sets, kFewestLaunches),
                [&](std::size_t launch) { call(trial.sets[launch % sets], candidate, trial.stream); });
    return candidates[fastest_of(candidates.size(), [&](std::size_t candidate) {
                        return timer.microseconds(candidate);
                      }).index];
  }

  // Bytes from the first element to the end of the last.
  std::int64_t extent(const BlasProblem::Matrix& matrix, std::int64_t rows, std::int64_t columns) const {
    const std::int64_t lines = matrix.transposed ? rows : columns;
    return ((p_.batches - 1) * matrix.batch_stride + lines * matrix.leading) * size_of(matrix.dtype);
  }

  BlasProblem p_;
  std::int64_t l2_bytes_;
  Desc desc_;
  Layout a_, b_, d_;
  Algorithm choice_{};
  std::int64_t bias_bytes_ = 0;
  bool double_ = false;
};

}  // namespace

std::unique_ptr<GroupWork> make_blas_work(const Plan& plan, const BlasProblem& problem, const Chip& device) {
  auto work = std::make_unique<BlasWork>(plan, problem, device.l2_bytes);
  return work->choose() ? std::move(work) : nullptr;
}

}  // namespace nixie::cuda
