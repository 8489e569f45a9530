// The CUDA libraries that are opened on first use, each as a table of the functions that we call.
#pragma once

#include <cublasLt.h>
#include <curand.h>
#include <nvrtc.h>

namespace nixie::cuda {

struct Nvrtc {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) error_string;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
};

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

struct Curand {
  decltype(&curandCreateGenerator) create;
  decltype(&curandDestroyGenerator) destroy;
  decltype(&curandSetPseudoRandomGeneratorSeed) seed;
  decltype(&curandGenerateUniform) uniform;
  decltype(&curandGenerateNormal) normal;
};

/// Opened on the first call. Throws Fault::device, naming the library and the remedy, if it cannot be found.
/// Searched for by the loader, then in lib64/ and lib/ of $CUDA_HOME, $CUDA_PATH and /usr/local/cuda.
const Nvrtc& nvrtc();
/// A copy of NVRTC beside the first, which many threads share out: a copy parses one program at a time. The first where
/// the toolkit has no other of its version.
const Nvrtc& second_nvrtc();
const CublasLt& cublas_lt();
const Curand& curand();

}  // namespace nixie::cuda
