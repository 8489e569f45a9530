// Opens the CUDA libraries with dlopen.
#include "nixie/backends/cuda/device/libraries.h"

#include <array>
#include <optional>

#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

Nvrtc open_nvrtc(const char* stem) { return {{stem, {".13", ".12", ""}, "CUDA's NVRTC 12 or newer"}}; }

// Not every toolkit has it, and another version would compile other machine code.
std::optional<Nvrtc> open_second_nvrtc() try {
  const Nvrtc table = open_nvrtc("libnvrtc.alt.so");
  std::array<int, 2> version{}, first{};
  table.version(&version[0], &version[1]), nvrtc().version(&first[0], &first[1]);
  return version == first ? std::optional(table) : std::nullopt;
} catch (const Error&) {
  return {};
}

}  // namespace

const Nvrtc& nvrtc() {
  static const Nvrtc table = open_nvrtc("libnvrtc.so");
  return table;
}

const Nvrtc& second_nvrtc() {
  static const std::optional<Nvrtc> table = open_second_nvrtc();
  return table ? *table : nvrtc();
}

const CublasLt& cublas_lt() {
  static const CublasLt table{{"libcublasLt.so", {".13", ".12", ""}, "cuBLAS 12 or newer"}};
  return table;
}

const Curand& curand() {
  static const Curand table{{"libcurand.so", {".10", ""}, "cuRAND 10"}};
  return table;
}

}  // namespace nixie::cuda
