// Opens the CUDA libraries with dlopen and fills their tables.
#include "nixie/backends/cuda/device/libraries.h"

#include <array>
#include <optional>

#include "nixie/backends/cuda/device/shared_library.h"
#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

Nvrtc open_nvrtc(const char* stem) {
  const SharedLibrary library(stem, {".13", ".12", ""}, "CUDA's NVRTC 12 or newer");
  Nvrtc table;
  library.find(table.version, "nvrtcVersion");
  library.find(table.error_string, "nvrtcGetErrorString");
  library.find(table.create, "nvrtcCreateProgram");
  library.find(table.destroy, "nvrtcDestroyProgram");
  library.find(table.compile, "nvrtcCompileProgram");
  library.find(table.log_size, "nvrtcGetProgramLogSize");
  library.find(table.log, "nvrtcGetProgramLog");
  library.find(table.cubin_size, "nvrtcGetCUBINSize");
  library.find(table.cubin, "nvrtcGetCUBIN");
  return table;
}

// Not every toolkit has it, and another version would compile other machine code.
std::optional<Nvrtc> open_second_nvrtc() try {
  const Nvrtc table = open_nvrtc("libnvrtc.alt.so");
  std::array<int, 2> version{}, first{};
  table.version(&version[0], &version[1]), nvrtc().version(&first[0], &first[1]);
  return version == first ? std::optional(table) : std::nullopt;
} catch (const Error&) {
  return {};
}

CublasLt open_cublas_lt() {
  const SharedLibrary library("libcublasLt.so", {".13", ".12", ""}, "cuBLAS 12 or newer");
  CublasLt table;
  library.find(table.create, "cublasLtCreate");
  library.find(table.destroy, "cublasLtDestroy");
  library.find(table.version, "cublasLtGetVersion");
  library.find(table.status_string, "cublasLtGetStatusString");
  library.find(table.desc_create, "cublasLtMatmulDescCreate");
  library.find(table.desc_destroy, "cublasLtMatmulDescDestroy");
  library.find(table.desc_set, "cublasLtMatmulDescSetAttribute");
  library.find(table.layout_create, "cublasLtMatrixLayoutCreate");
  library.find(table.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.find(table.layout_set, "cublasLtMatrixLayoutSetAttribute");
  library.find(table.preference_create, "cublasLtMatmulPreferenceCreate");
  library.find(table.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.find(table.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library.find(table.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(table.matmul, "cublasLtMatmul");
  return table;
}

Curand open_curand() {
  const SharedLibrary library("libcurand.so", {".10", ""}, "cuRAND 10");
  Curand table;
  library.find(table.create, "curandCreateGenerator");
  library.find(table.destroy, "curandDestroyGenerator");
  library.find(table.seed, "curandSetPseudoRandomGeneratorSeed");
  library.find(table.uniform, "curandGenerateUniform");
  library.find(table.normal, "curandGenerateNormal");
  return table;
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
  static const CublasLt table = open_cublas_lt();
  return table;
}

const Curand& curand() {
  static const Curand table = open_curand();
  return table;
}

}  // namespace nixie::cuda
