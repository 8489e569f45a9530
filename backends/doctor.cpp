// Opens each part as the backend does, so that its own error says what is wrong.
#include "nixie/backends/doctor.h"

#include <functional>

#include "nixie/core/base/error.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/compile/cubin_cache.h"
#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/device/libraries.h"
#endif

namespace nixie {
namespace {

[[maybe_unused]] Finding examine(const char* part, const std::function<std::string()>& look) try {
  return {part, true, look()};
} catch (const Error& error) {
  return {part, false, error.what()};
}

}  // namespace

#ifdef NIXIE_WITH_CUDA
std::vector<Finding> examine_cuda() {
  return {examine("GPU",
                  [] {
                    const auto device = cuda::Device::open(0);
                    return fmt::format("{} ({}), {:.1f} GiB free", device->name(), cuda::what_is_fast(device->chip()),
                                       static_cast<double>(device->free_bytes()) / (1 << 30));
                  }),
          examine("NVRTC",
                  [] {
                    int major = 0, minor = 0;
                    check(cuda::nvrtc().version(&major, &minor) == NVRTC_SUCCESS, "NVRTC does not report its version");
                    return fmt::format("version {}.{}", major, minor);
                  }),
          examine("cuBLASLt", [] { return fmt::format("version {}", cuda::cublas_lt().version()); }),
          examine("cuRAND", [] { return cuda::curand(), std::string("found"); }), examine("kernel cache", [] {
            check(cuda::cubin_cache().enabled(),
                  "there is no private folder for compiled kernels, so each run compiles them again; set "
                  "NIXIE_CACHE to a folder with mode 0700");
            return cuda::cubin_cache().folder().string();
          })};
}
#else
std::vector<Finding> examine_cuda() {
  return {{"CUDA", false,
           "this program was built without CUDA; run ./dev setup cuda in nixie's source tree and build again, or stay "
           "with backend: cpu"}};
}
#endif

}  // namespace nixie
