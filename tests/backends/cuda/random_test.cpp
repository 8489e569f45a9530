// Random numbers of CUDA kernels, bit for bit against cuRAND's device functions. Skipped where there is no GPU or no
// curand_kernel.h to compile.
#ifdef NIXIE_WITH_CUDA
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/device/handle.h"
#include "nixie/backends/cuda/device/libraries.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"

namespace nixie {
namespace {

constexpr const char* kWords = R"(
#include <curand_kernel.h>
extern "C" __global__ void words(unsigned long long stream, unsigned step, unsigned first, uint4* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(stream, step, 4ull * (first + i), &state);
  out[i] = curand4(&state);
}
)";

std::string header_folder() {
  std::vector<std::string> folders{NIXIE_CURAND_INCLUDE, "/usr/local/cuda/include"};
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/include");
  for (const std::string& folder : folders)
    if (std::filesystem::exists(folder + "/curand_kernel.h")) return folder;
  return {};
}

std::string compile(const std::string& folder, const std::string& architecture) {
  nvrtcProgram program = nullptr;
  const std::string include = "-I" + folder, standard = include + "/cccl", gpu = "--gpu-architecture=" + architecture;
  const char* options[] = {include.c_str(), standard.c_str(), gpu.c_str(), "-default-device"};
  cuda::nvrtc().create(&program, kWords, "words.cu", 0, nullptr, nullptr);
  const nvrtcResult result = cuda::nvrtc().compile(program, 4, options);
  std::size_t size = 0;
  cuda::nvrtc().log_size(program, &size);
  std::string log(size, ' '), code;
  cuda::nvrtc().log(program, log.data());
  EXPECT_EQ(result, NVRTC_SUCCESS) << log;
  if (result == NVRTC_SUCCESS) {
    cuda::nvrtc().cubin_size(program, &size);
    code.resize(size);
    cuda::nvrtc().cubin(program, code.data());
  }
  cuda::nvrtc().destroy(&program);
  return code;
}

class CudaRandom : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda_ = make_cuda_backend();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    const std::string folder = header_folder();
    if (folder.empty()) GTEST_SKIP() << "no curand_kernel.h here";
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    const std::string code = compile(folder, cuda::architecture_of(properties.major, properties.minor));
    ASSERT_FALSE(code.empty());
    CUDA_CHECK(cudaLibraryLoadData(library_.out(), code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUDA_CHECK(cudaLibraryGetKernel(&kernel_, library_, "words"));
  }

  /// cuRAND's 32-bit numbers of blocks [first, first + 256 * groups) of a stream.
  std::vector<std::uint32_t> words(std::uint64_t stream, std::uint32_t step, unsigned first, unsigned groups) {
    std::vector<std::uint32_t> out(groups * 1024u);
    const auto bytes = static_cast<std::int64_t>(out.size() * 4);
    const auto buffer = cuda_->allocate(bytes);
    cuda_->synchronize();
    void* address = buffer->address();
    void* parameters[] = {&stream, &step, &first, &address};
    CUDA_CHECK(
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(groups), dim3(256), parameters, 0, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
    cuda_->download(*buffer, out.data(), bytes);
    return out;
  }

  std::shared_ptr<Backend> cuda_;
  cuda::Library library_;
  cudaKernel_t kernel_ = nullptr;
};

const Shape kShapes[] = {{1000, 1021}, {7, 3}, {4096}, {3, 5, 7, 11}};
const std::int32_t kSteps[] = {0, 1, 123456789, -1};

float on_device(const Array& array, std::int64_t i) { return array.data<float>()[static_cast<std::size_t>(i)]; }

TEST_F(CudaRandom, UniformsAndBernoullisHaveCurandsBits) {
  for (const std::uint64_t stream : {random_stream(7, "dropout"), ~std::uint64_t{0}})
    for (const std::int32_t step : kSteps)
      for (const Shape& shape : kShapes) {
        const unsigned groups = static_cast<unsigned>((shape.size() + 1023) / 1024);
        const std::string where = fmt::format("{} step {}", shape, step);
        const std::vector<std::uint32_t> expected = words(stream, static_cast<std::uint32_t>(step), 0, groups);
        const Tensor at = Tensor(Array::from(std::vector<std::int32_t>{step}, {}));
        const std::vector<Tensor> found =
            evaluate({uniform(shape, stream, at), cast(bernoulli(shape, 0.3, stream, at), Dtype::f32)}, *cuda_);
        const Array u = found[0].array(), b = found[1].array();
        for (std::int64_t i = 0; i < shape.size(); ++i) {
          const float exact = static_cast<float>(expected[static_cast<std::size_t>(i)] >> 8) * 0x1p-24f;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(on_device(u, i)), std::bit_cast<std::uint32_t>(exact))
              << where << " element " << i;
          ASSERT_EQ(on_device(b, i), exact < 0.3f ? 1.0f : 0.0f) << where << " element " << i;
        }
      }
}

double ulps(double found, double exact) {
  return std::abs(found - exact) / std::ldexp(1.0, std::ilogb(std::max(std::abs(exact), 0x1p-126)) - 23);
}

// The normals of the CPU, and those that the formula makes of cuRAND's bits.
TEST_F(CudaRandom, NormalsAreWithin2UlpOfTheCpuAndOfCurandsBits) {
  const auto cpu = make_cpu_backend(2);
  const std::uint64_t stream = random_stream(3, "noise");
  double from_cpu = 0, from_bits = 0;
  for (const Shape& shape : kShapes) {
    const Array found = evaluate(normal(shape, stream, 5), *cuda_).array();
    const Array expected = evaluate(normal(shape, stream, 5), *cpu).array();
    const std::vector<std::uint32_t> bits = words(stream, 5, 0, static_cast<unsigned>((shape.size() + 1023) / 1024));
    for (std::int64_t i = 0; i < shape.size(); ++i) {
      const std::size_t pair = static_cast<std::size_t>(i) / 2 * 2;
      const auto exact = normals_from(bits[pair], bits[pair + 1]);
      from_cpu = std::max(from_cpu, ulps(on_device(found, i), on_device(expected, i)));
      from_bits = std::max(from_bits, ulps(on_device(found, i), exact[static_cast<std::size_t>(i) % 2]));
    }
  }
  EXPECT_LE(from_cpu, 2);
  EXPECT_LE(from_bits, 2);
  RecordProperty("ulps_from_cpu", std::to_string(from_cpu));
}

}  // namespace
}  // namespace nixie
#endif
