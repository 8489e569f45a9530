// Every hand-made plan on the GPU against the CPU backend: outputs poisoned before each run, the graph's replay equal
// to the first run bit for bit. Skipped where there is no GPU.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/noise.h"
#include "backends/registry.h"
#include "core/array.h"
#include "core/memory.h"
#include "tests/backends/cuda_plans.h"

namespace nixie {
namespace {

using cuda_plans::Draft;

std::shared_ptr<Backend> cuda_or_null() {
  static const std::shared_ptr<Backend> backend = []() -> std::shared_ptr<Backend> {
    try {
      return make_cuda_backend();
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return backend;
}

// What a slot holds before the run: random values, or bytes that no result leaves.
Array initial(const Slot& slot, bool poisoned, unsigned seed) {
  Array array(slot.dtype, slot.shape);
  std::mt19937 random(seed);
  visit_dtype(slot.dtype, [&](auto type) {
    using T = decltype(type);
    const bool floating = is_floating(slot.dtype);
    std::uniform_real_distribution<double> real(-2, 2);
    std::uniform_int_distribution<int> whole(slot.dtype == Dtype::u8 ? 0 : -1, slot.dtype == Dtype::u8 ? 3 : 8);
    for (T& x : array.data<T>()) x = convert<T>(floating ? real(random) : static_cast<double>(whole(random)));
  });
  if (poisoned) std::memset(array.bytes(), 0xab, static_cast<std::size_t>(array.size_bytes()));
  return array;
}

std::vector<Array> run(Backend& backend, const Draft& draft, int times) {
  Plan plan = draft.plan;
  backend.lower(plan);
  plan_memory(plan);
  const auto executable = backend.compile(plan);
  std::set<int> read;
  for (const Kernel& kernel : draft.plan.kernels)
    for (int slot : slots_read(kernel)) read.insert(slot);
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int slot : plan.externals)
    buffers.push_back(backend.allocate(plan.slots[static_cast<std::size_t>(slot)].size_bytes()));
  std::vector<Array> first;
  for (int time = 0; time < times; ++time) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const int slot = plan.externals[i];
      const Array array =
          initial(plan.slots[static_cast<std::size_t>(slot)], !read.count(slot), 17u + static_cast<unsigned>(slot));
      backend.upload(array.bytes(), *buffers[i], array.size_bytes());
    }
    executable->run(buffers, plan.scalars);
    std::vector<Array> results;
    for (int slot : draft.outputs) {
      const Slot& s = plan.slots[static_cast<std::size_t>(slot)];
      results.emplace_back(s.dtype, s.shape);
      backend.download(*buffers[static_cast<std::size_t>(slot)], results.back().bytes(), results.back().size_bytes());
    }
    if (time == 0) first = results;
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(0, std::memcmp(first[i].bytes(), results[i].bytes(), static_cast<std::size_t>(first[i].size_bytes())))
          << draft.name << ": run " << time << " differs from the first";
  }
  return first;
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
    default:
      return 0;
  }
}

void expect_close(const Array& found, const Array& expected, double tolerance, const std::string& what) {
  const std::vector<double> x = found.to_vector<double>(), y = expected.to_vector<double>();
  double scale = 0;
  for (double value : y)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (std::abs(x[i] - y[i]) <= tolerance * (std::abs(y[i]) + std::min(scale, 100.0))) continue;
    if (++wrong <= 3) ADD_FAILURE() << what << ": element " << i << " is " << x[i] << ", expected " << y[i];
  }
  EXPECT_EQ(wrong, 0) << what << ": wrong elements of " << x.size();
}

void compare(const std::vector<Draft>& drafts, bool exactly = false) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  for (const Draft& draft : drafts) {
    const std::string where =
        fmt::format("{} {} {}", draft.name, draft.plan.slots[0].dtype, draft.plan.kernels[0].domain);
    SCOPED_TRACE(where);
    try {
      const std::vector<Array> found = run(*cuda, draft, 3), expected = run(*cpu, draft, 1);
      for (std::size_t i = 0; i < found.size(); ++i)
        expect_close(found[i], expected[i], exactly ? 0 : tolerance(found[i].dtype()),
                     fmt::format("{} output {}", where, i));
    } catch (const Error& error) {
      ADD_FAILURE() << where << ": " << error.what();
    }
  }
}

TEST(CudaParity, ElementwiseAndReductions) { compare(cuda_plans::elementwise_and_reductions()); }

TEST(CudaParity, RandomNumbersHaveTheSameBits) {
  compare({cuda_plans::random({16, 24}), cuda_plans::random({7, 3}), cuda_plans::random({100, 1000})}, true);
}

class CudaParityOf : public testing::TestWithParam<Dtype> {};

TEST_P(CudaParityOf, Convolutions) { compare(cuda_plans::all_convolutions(GetParam())); }
TEST_P(CudaParityOf, Products) { compare(cuda_plans::all_products(GetParam())); }
TEST_P(CudaParityOf, PoolingAndGather) { compare(cuda_plans::all_lookups(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Types, CudaParityOf, testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64),
                         [](const auto& type) { return std::string(to_string(type.param)); });

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
  const auto cuda = cuda_or_null();
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
  const auto cuda = cuda_or_null();
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
  const auto cuda = cuda_or_null();
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
