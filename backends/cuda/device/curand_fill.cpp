// Calls cuRAND's Philox generator.
#include "nixie/backends/cuda/device/curand_fill.h"

#include "nixie/backends/cuda/device/handle.h"
#include "nixie/backends/cuda/device/libraries.h"

namespace nixie::cuda {
namespace {

void expect(curandStatus_t status, const char* what) {
  if (status != CURAND_STATUS_SUCCESS) fail(Fault::device, "cuRAND: status ", static_cast<int>(status), " in ", what);
}

void destroy_generator(curandGenerator_t generator) { curand().destroy(generator); }

template <class Fill>
void fill(Buffer& buffer, std::uint64_t seed, Fill&& fill) {
  CUDA_CHECK(cudaDeviceSynchronize());
  Handle<curandGenerator_t, destroy_generator> generator;
  expect(curand().create(generator.out(), CURAND_RNG_PSEUDO_PHILOX4_32_10), "create");
  expect(curand().seed(generator, seed), "seed");
  fill(generator.get(), static_cast<float*>(buffer.address()), static_cast<std::size_t>(buffer.size_bytes() / 4));
  CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace

void fill_uniform(Buffer& buffer, std::uint64_t seed) {
  fill(buffer, seed, [](curandGenerator_t generator, float* to, std::size_t count) {
    expect(curand().uniform(generator, to, count), "uniform");
  });
}

void fill_normal(Buffer& buffer, std::uint64_t seed) {
  fill(buffer, seed, [](curandGenerator_t generator, float* to, std::size_t count) {
    expect(curand().normal(generator, to, count, 0.0f, 1.0f), "normal");
  });
}

}  // namespace nixie::cuda
