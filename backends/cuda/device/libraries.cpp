// Opens the CUDA libraries with dlopen.
#include "nixie/backends/cuda/device/libraries.h"

namespace nixie::cuda {

const Nvrtc& nvrtc() {
  static const Nvrtc table{{"libnvrtc.so", {".13", ".12", ""}, "CUDA's NVRTC 12 or newer"}};
  return table;
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
