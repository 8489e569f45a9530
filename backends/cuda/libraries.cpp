// Opens the CUDA libraries with dlopen and fills their tables.
#include "backends/cuda/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"

namespace nixie::cuda {
namespace {

std::vector<std::string> folders() {
  std::vector<std::string> found{""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"})
    if (const char* root = std::getenv(variable); root && *root)
      for (const char* part : {"/lib64/", "/lib/", "/targets/x86_64-linux/lib/"})
        found.push_back(root + std::string(part));
  for (const char* part : {"/lib64/", "/lib/", "/targets/x86_64-linux/lib/"})
    found.push_back("/usr/local/cuda" + std::string(part));
  return found;
}

// A shared library that stays open until the program ends.
class SharedLibrary {
 public:
  SharedLibrary(const char* stem, std::vector<const char*> versions, const char* package)
      : stem_(stem), package_(package) {
    for (const std::string& folder : folders())
      for (const char* version : versions) {
        handle_ = dlopen((folder + stem + version).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_) return;
      }
    fail(Fault::device, "cuda: cannot open ", stem, versions[0], ": install ", package,
         " or set CUDA_HOME to the toolkit's folder");
  }
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (!function) fail(Fault::device, "cuda: ", stem_, " is too old: it lacks ", name, "; install a newer ", package_);
  }

 private:
  void* handle_ = nullptr;
  const char* stem_;
  const char* package_;
};

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
