// Opens the CUDA libraries with dlopen and fills their tables.
#include "nixie/backends/cuda/device/libraries.h"

#include "nixie/backends/cuda/device/shared_library.h"

namespace nixie::cuda {
namespace {

Nvrtc open_nvrtc() {
  const SharedLibrary library("libnvrtc.so", {".13", ".12", ""}, "CUDA's NVRTC 12 or newer");
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
  static const Nvrtc table = open_nvrtc();
  return table;
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
