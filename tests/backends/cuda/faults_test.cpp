// The CUDA backend's errors when something is missing, too old, too small or wrong: cause, place and remedy.
#ifdef NIXIE_WITH_CUDA
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/device/shared_library.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/null/backend.h"
#include "nixie/core/base/array.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/head_plans.h"
#include "nixie/tests/backends/cuda/plans.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

TEST(CudaFaults, AMissingLibraryIsNamedWithWhatToInstall) {
  EXPECT_EQ(
      error_of(Fault::device,
               [] {
                 cuda::SharedLibrary("libnixie-none.so", {".13", ".12"}, "CUDA's NVRTC 12 or newer");
               }),
      "cuda: cannot open libnixie-none.so.13: install CUDA's NVRTC 12 or newer (./dev setup cuda does so in nixie's "
      "source tree), or set CUDA_HOME to the toolkit's folder");
}

TEST(CudaFaults, ALibraryThatIsTooOldIsNamedWithWhatItLacks) {
  const cuda::SharedLibrary math("libm.so", {".6"}, "cuBLAS 12 or newer");
  double (*cosine)(double) = math.find("cos");
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(error_of(Fault::device, [&] { math.find("cublasLtCreate"); }),
            "cuda: libm.so is too old: it lacks cublasLtCreate; install cuBLAS 12 or newer");
}

// The runtime opens libcuda.so.1 by name and finds the one that is there already, in a process of its own.
void start_with(const char* driver) {
  if (!dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) std::exit(99);
  try {
    make_cuda_backend();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(error.exit_code());
  }
  std::exit(0);
}

TEST(CudaFaultsDeathTest, ADriverThatIsTooOldIsNamedWithBothVersions) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::string driver = NIXIE_BINARY_DIR "/../fakes/libcuda.so.1";
  if (!std::filesystem::exists(driver)) GTEST_SKIP() << "there is no " << driver;
  EXPECT_EXIT(start_with(driver.c_str()), testing::ExitedWithCode(3),
              "the NVIDIA driver is too old: it supports CUDA 11.4, this program needs one for CUDA 1[0-9].[0-9] or "
              "newer: install it .*, or use backend: cpu");
}

TEST(CudaFaultsAlone, AStepThatDoesNotFitNamesTheBatchThatDoesAndFreesAll) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const std::int64_t features = 1 << 18;  // 1 MiB a sample
  const auto run = [&](std::int64_t batch) {
    const Tensor x = Tensor(Array(Dtype::f32, {batch, 1})) + uniform({batch, features}, 7);
    return evaluate(sum(matmul(x, full({features, 1}, 1))), *cuda).item() / static_cast<double>(batch * features);
  };
  const std::string report = error_of(Fault::memory, [&] { run(1 << 22); });
  EXPECT_NE(report.find("largest:"), std::string::npos) << report;
  const std::string before = "a batch of ";
  const std::size_t found = report.find(before);
  ASSERT_NE(found, std::string::npos) << report;
  const std::int64_t batch = std::atoll(report.c_str() + found + before.size());
  EXPECT_GT(batch, 1000);
  EXPECT_NEAR(run(batch - batch / 50), 0.5, 1e-3);  // nothing of the failed attempt is left
}

// Memory is taken until the trial of the library's ReLUs, which needs as much as the product, does not fit.
TEST(CudaFaultsAlone, AReluThatCannotBeTriedIsAKernelOfItsOwn) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const std::int64_t size = 16384;  // 1 GiB a matrix
  Plan plan =
      cuda_plans::headed("layer", Matmul{}, Dtype::f32, {{size, size}, {size, size}}, {size, size}, false, false).plan;
  plan.kernels[0].stages = {
      {.body = {cuda_plans::head(), cuda_plans::number(0), cuda_plans::apply(Primitive::max, {0, 1})},
       .stores = {{2, 0}}}};
  cuda->lower(plan);
  plan_memory(plan);
  ASSERT_EQ(plan.groups.size(), 1u);
  ASSERT_TRUE(cuda::blas_problem(plan.groups[0])->relu);
  // Rows of 1, -1 and NaN in turn, times ones.
  const double numbers[] = {1, -1, std::numeric_limits<double>::quiet_NaN()};
  Array left(Dtype::f32, {size, size}), right(Dtype::f32, {size, size}), result(Dtype::f32, {size, size});
  const auto row = [&](Array& array, std::int64_t i) {
    return array.data<float>().subspan(static_cast<std::size_t>(i * size), static_cast<std::size_t>(size));
  };
  for (std::int64_t i = 0; i < size; ++i) {
    std::ranges::fill(row(left, i), static_cast<float>(numbers[i % 3]));
    std::ranges::fill(row(right, i), 1.0f);
  }
  std::vector<std::shared_ptr<Buffer>> buffers, taken;
  for (const Array* array : {&left, &right, &result}) {
    buffers.push_back(cuda->allocate(array->size_bytes()));
    cuda->upload(array->bytes(), *buffers.back(), array->size_bytes());
  }
  const auto device = cuda::Device::open(0);
  constexpr std::int64_t kRoom = std::int64_t{3} << 29;
  while (device->free_bytes() > kRoom) taken.push_back(cuda->allocate(device->free_bytes() - kRoom));
  const auto executable = cuda->compile(plan);
  for (int run = 0; run < 3; ++run) executable->run(buffers, plan.scalars);
  cuda->download(*buffers[2], result.bytes(), result.size_bytes());
  for (std::int64_t i : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, size - 2, size - 1})
    for (float x : row(result, i)) {
      const double expected = std::max(0.0, numbers[i % 3] * static_cast<double>(size));
      ASSERT_TRUE(i % 3 == 2 ? std::isnan(x) : x == static_cast<float>(expected)) << "row " << i << " has " << x;
    }
}

// Three updates, the second of which reads far outside its slot once `wrong` says so.
Plan updates(bool wrong) {
  Plan plan = cuda_plans::sgd(4096).plan;
  plan.kernels.resize(3, plan.kernels[0]);
  plan.kernels[0].label = "first";
  plan.kernels[1].label = "second";
  plan.kernels[2].label = "third";
  if (wrong) plan.kernels[1].loads[0].offset = std::int64_t{1} << 42;
  cuda::lower(plan, cuda::chip_named("sm_80"));
  plan_memory(plan);
  return plan;
}

// Memory that is not there.
class Nowhere final : public Buffer {
 public:
  using Buffer::Buffer;
  void* address() override { return reinterpret_cast<void*>(std::uintptr_t{1} << 46); }
};

// Runs a plan until it is a graph; `lost`: with a slot whose memory is gone after the first run.
void run_and_exit(const Plan& plan, bool lost) {
  try {
    const auto cuda = make_cuda_backend();
    const auto executable = cuda->compile(plan);
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (int slot : plan.externals) {
      const Slot& s = plan.slots[at(slot)];
      const Array zeros(s.dtype, s.shape);
      buffers.push_back(cuda->allocate(zeros.size_bytes()));
      cuda->upload(zeros.bytes(), *buffers.back(), zeros.size_bytes());
    }
    for (int i = 0; i < 4; ++i) {
      executable->run(buffers, plan.scalars);
      if (lost) buffers.back() = std::make_shared<Nowhere>(buffers.back()->size_bytes());
    }
    Array result(Dtype::f32, {4096});
    cuda->download(*buffers[0], result.bytes(), result.size_bytes());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(error.exit_code());
  }
  std::exit(0);
}

TEST(CudaFaultsDeathTest, AnIllegalAddressNamesTheKernel) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  if (!cuda_or_null()) GTEST_SKIP() << "no GPU";
  EXPECT_EXIT(run_and_exit(updates(false), false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_and_exit(updates(true), false), testing::ExitedWithCode(3),
              "^kernel \"second\": cuda: an illegal memory access was encountered .cudaErrorIllegalAddress.");
}

TEST(CudaFaultsDeathTest, AnIllegalAddressThatComesLaterNamesTheWayToTheKernel) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  if (!cuda_or_null()) GTEST_SKIP() << "no GPU";
  EXPECT_EXIT(run_and_exit(updates(false), true), testing::ExitedWithCode(3),
              "cuda: an illegal memory access .*; run again with NIXIE_SYNC=1 to learn in which");
}

}  // namespace
}  // namespace nixie
#endif
