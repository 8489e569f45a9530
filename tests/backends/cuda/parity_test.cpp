// Every hand-made plan on the GPU against the CPU backend, in two ways where there are some: outputs poisoned before
// each run, the graph's replay equal to the first run bit for bit. Skipped where there is no GPU.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/device/curand_fill.h"
#include "nixie/backends/registry.h"
#include "nixie/tests/backends/cuda/compiled_by.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/draft_runner.h"

namespace nixie {
namespace {

using cuda_plans::Draft;

std::shared_ptr<Backend> device() {
  static const std::shared_ptr<Backend> one_for_all_tests = cuda_or_null();
  return one_for_all_tests;
}

double drawn(Dtype dtype, std::mt19937& random) {
  if (is_floating(dtype)) return std::uniform_real_distribution<double>(-2, 2)(random);
  return is_unsigned(dtype) ? std::uniform_int_distribution<int>(0, 3)(random)
                            : std::uniform_int_distribution<int>(-1, 8)(random);
}

double tolerance(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return 1e-12;
    case Dtype::f32:
      return 2e-5;
    case Dtype::f16:
      return 0x1p-9;
    case Dtype::bf16:
      return 0x1p-7;
    case Dtype::f8e4m3:
      return 0x1p-3;
    case Dtype::f8e5m2:
      return 0x1p-2;
    default:
      return 0;
  }
}

// `part` of each element and of the largest may be off; by default what the type's rounding makes of sums.
void compare(const std::vector<Draft>& drafts, std::optional<double> wanted = {}) {
  const auto cuda = device();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  for (const Draft& draft : drafts) {
    const std::string where =
        fmt::format("{} {} {}", draft.name, draft.plan.slots[0].dtype, draft.plan.kernels[0].domain);
    SCOPED_TRACE(where);
    try {
      const std::vector<Array> expected = cuda_plans::run(*cpu, draft, 1, drawn);
      for (const auto& [name, table] : two_tables_of(draft.plan)) {
        const CompiledBy compiled_by(table);
        const std::vector<Array> found = cuda_plans::run(*cuda, draft, 3, drawn);
        const auto bound = [&](Dtype dtype) {
          const double part = wanted.value_or(tolerance(dtype));
          return cuda_plans::Bound{.of_itself = part, .of_largest = part, .most = 100};
        };
        cuda_plans::expect_close(found, expected, bound, fmt::format("{} by {}", where, name));
      }
    } catch (const Error& error) {
      ADD_FAILURE() << where << ": " << error.what();
    }
  }
}

TEST(CudaParity, ElementwiseAndReductions) { compare(cuda_plans::elementwise_and_reductions()); }

TEST(CudaParity, RandomNumbersHaveTheSameBits) {
  compare({cuda_plans::random({16, 24}), cuda_plans::random({7, 3}), cuda_plans::random({100, 1000})}, 0.0);
}

class CudaParityOf : public testing::TestWithParam<Dtype> {};

TEST_P(CudaParityOf, Convolutions) { compare(cuda_plans::all_convolutions(GetParam())); }
TEST_P(CudaParityOf, Products) { compare(cuda_plans::all_products(GetParam())); }
TEST_P(CudaParityOf, PoolingAndGather) { compare(cuda_plans::all_lookups(GetParam())); }
TEST_P(CudaParityOf, Rows) { compare(cuda_plans::all_row_heads(GetParam())); }

// Sums of products that f32 holds exactly.
TEST(CudaParity, ProductsOf8BitFloats) {
  compare(cuda_plans::products_of_stored(Math::fp32), 0x1p-12);
  compare(cuda_plans::products_of_stored(Math::ieee));
}

double any_byte(Dtype dtype, std::mt19937& random) {
  const int least = dtype == Dtype::u8 ? 0 : -128;
  return std::uniform_int_distribution<int>(least, least + 255)(random);
}

// On tensor cores, with their terms inside or copied so; where columns or terms are odd or few, by other kernels.
TEST(CudaParity, ProductsOfBytesAreExact) {
  const auto cuda = device();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  struct Case {
    Dtype left, right;
    std::array<int, 3> sizes;
    bool rows = false;
  };
  const Dtype u8 = Dtype::u8, i8 = Dtype::i8;
  for (const auto& [left, right, sizes, rows] :
       {Case{u8, i8, {1000, 776, 208}}, Case{i8, u8, {896, 904, 528}}, Case{u8, u8, {1537, 1032, 32}},
        Case{i8, i8, {777, 1016, 48}, true}, Case{u8, u8, {1000, 1008, 96}, true}, Case{i8, i8, {1000, 777, 64}},
        Case{i8, u8, {900, 1024, 31}}, Case{i8, i8, {900, 1024, 90}}, Case{u8, i8, {65, 33, 7}, true}}) {
    const Draft draft = hopper_plans::stored_product("bytes", sizes[0], sizes[1], sizes[2], left, right, rows);
    const std::vector<Array> expected = cuda_plans::run(*cpu, draft, 1, any_byte),
                             found = cuda_plans::run(*cuda, draft, 2, any_byte);
    cuda_plans::expect_close(found, expected, cuda_plans::Bound{},
                             fmt::format("{} {} {}", left, right, fmt::join(sizes, "x")));
  }
}

// f32 whose operands may be rounded to 10 bits of mantissa: sums of tens to thousands of such products.
TEST(CudaParity, ProductsInTf32) {
  compare(cuda_plans::in_tf32(cuda_plans::all_convolutions(Dtype::f32)), 0x1p-9);
  compare(cuda_plans::in_tf32(cuda_plans::all_products(Dtype::f32)), 0x1p-9);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaParityOf, testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64),
                         [](const auto& type) { return std::string(to_string(type.param)); });

// A product with bias and ReLU, of which some numbers are NaN: whoever computes it, they must not become zeros.
double with_nan(Dtype, std::mt19937& random) {
  return random() % 97 == 0 ? std::numeric_limits<double>::quiet_NaN()
                            : std::uniform_int_distribution<int>(-4, 4)(random) * 0.25;
}

TEST(CudaRelu, PassesNanOn) {
  const auto cuda = device();
  if (!cuda) GTEST_SKIP() << "no GPU";
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::f64})
    for (Math math : {Math::ieee, Math::tf32})
      for (const auto& [m, n, k] : {std::array{64, 520, 8}, std::array{1000, 1000, 16}, std::array{7, 45, 3}}) {
        const cuda_plans::Draft draft =
            cuda_plans::headed("relu", Matmul{.math = math}, dtype, {{m, k}, {k, n}}, {m, n});
        const std::vector<Array> found = cuda_plans::run(*cuda, draft, 2, with_nan),
                                 expected = cuda_plans::run(*make_cpu_backend(), draft, 1, with_nan);
        cuda_plans::expect_close(found[0], expected[0], {.of_itself = 0x1p-10, .of_largest = 0x1p-10},
                                 fmt::format("{} {}x{}x{}", dtype, m, n, k));
      }
}

TEST(CudaBackend, WithoutADeviceTheErrorSaysWhyAndWhatToDo) {
  if (cuda_or_null()) GTEST_SKIP() << "there is a GPU";
  const auto start = std::chrono::steady_clock::now();
  try {
    make_cuda_backend();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    EXPECT_EQ(error.fault(), Fault::device);
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_NE(std::string(error.what()).find("use backend: cpu"), std::string::npos) << error.what();
  }
}

TEST(CudaBackend, AutoTakesTheGpuWhereThereIsOne) {
  EXPECT_EQ(make_backend("auto")->name(), cuda_or_null() ? "cuda" : "cpu");
}

TEST(CudaBackend, BuffersKeepWhatTheyAreGiven) {
  const auto cuda = device();
  if (!cuda) GTEST_SKIP() << "no GPU";
  std::vector<std::int32_t> values(5'000'000), back(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i * 2654435761u);
  const auto bytes = static_cast<std::int64_t>(values.size() * 4);
  const auto buffer = cuda->allocate(bytes);
  cuda->upload(values.data(), *buffer, bytes);
  cuda->download(*buffer, back.data(), bytes);
  EXPECT_EQ(values, back);
}

TEST(CudaBackend, NoiseHasTheRightMoments) {
  const auto cuda = device();
  if (!cuda) GTEST_SKIP() << "no GPU";
  std::vector<float> values(1'000'000);
  const auto bytes = static_cast<std::int64_t>(values.size() * 4);
  const auto buffer = cuda->allocate(bytes);
  for (bool normal : {false, true}) {
    normal ? cuda::fill_normal(*buffer, 7) : cuda::fill_uniform(*buffer, 7);
    cuda->download(*buffer, values.data(), bytes);
    double sum = 0, squares = 0;
    for (float x : values) sum += x, squares += static_cast<double>(x) * x;
    const double mean = sum / 1e6, variance = squares / 1e6 - mean * mean;
    EXPECT_NEAR(mean, normal ? 0 : 0.5, 5e-3);
    EXPECT_NEAR(variance, normal ? 1 : 1.0 / 12, 1e-2);
  }
}

TEST(CudaBackend, TooMuchMemoryIsAMemoryFault) {
  const auto cuda = device();
  if (!cuda) GTEST_SKIP() << "no GPU";
  try {
    cuda->allocate(std::int64_t{1} << 45);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::memory);
  }
  cuda->allocate(1 << 20);  // and the device still works
}

}  // namespace
}  // namespace nixie
#endif
