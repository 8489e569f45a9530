// The CUDA libraries that are opened on first use, each as a table of the functions that we call, found by their names.
#pragma once

#include <cublasLt.h>
#include <curand.h>
#include <nvrtc.h>

#include "nixie/backends/cuda/device/shared_library.h"

namespace nixie::cuda {

struct Nvrtc {
  SharedLibrary library;
  decltype(&nvrtcVersion) version = library.find("nvrtcVersion");
  decltype(&nvrtcGetErrorString) error_string = library.find("nvrtcGetErrorString");
  decltype(&nvrtcCreateProgram) create = library.find("nvrtcCreateProgram");
  decltype(&nvrtcDestroyProgram) destroy = library.find("nvrtcDestroyProgram");
  decltype(&nvrtcCompileProgram) compile = library.find("nvrtcCompileProgram");
  decltype(&nvrtcGetProgramLogSize) log_size = library.find("nvrtcGetProgramLogSize");
  decltype(&nvrtcGetProgramLog) log = library.find("nvrtcGetProgramLog");
  decltype(&nvrtcGetCUBINSize) cubin_size = library.find("nvrtcGetCUBINSize");
  decltype(&nvrtcGetCUBIN) cubin = library.find("nvrtcGetCUBIN");
};

struct CublasLt {
  SharedLibrary library;
  decltype(&cublasLtCreate) create = library.find("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy = library.find("cublasLtDestroy");
  decltype(&cublasLtGetVersion) version = library.find("cublasLtGetVersion");
  decltype(&cublasLtGetStatusString) status_string = library.find("cublasLtGetStatusString");
  decltype(&cublasLtMatmulDescCreate) desc_create = library.find("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = library.find("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = library.find("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) layout_create = library.find("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = library.find("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = library.find("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = library.find("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = library.find("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = library.find("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = library.find("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmul) matmul = library.find("cublasLtMatmul");
};

struct Curand {
  SharedLibrary library;
  decltype(&curandCreateGenerator) create = library.find("curandCreateGenerator");
  decltype(&curandDestroyGenerator) destroy = library.find("curandDestroyGenerator");
  decltype(&curandSetPseudoRandomGeneratorSeed) seed = library.find("curandSetPseudoRandomGeneratorSeed");
  decltype(&curandGenerateUniform) uniform = library.find("curandGenerateUniform");
  decltype(&curandGenerateNormal) normal = library.find("curandGenerateNormal");
};

/// Opened on the first call. Throws Fault::device, naming the library and the remedy, if it cannot be found.
/// Searched for by the loader, then in lib64/ and lib/ of $CUDA_HOME, $CUDA_PATH and /usr/local/cuda.
const Nvrtc& nvrtc();
const CublasLt& cublas_lt();
const Curand& curand();

}  // namespace nixie::cuda
