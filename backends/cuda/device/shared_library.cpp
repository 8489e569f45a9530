// dlopen and dlsym, with remedies.
#include "nixie/backends/cuda/device/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

std::vector<std::string> folders() {
  std::vector<std::string> found{""};
  const auto add_toolkit = [&](const std::string& root) {
    for (const char* part : {"/lib64/", "/lib/", "/targets/x86_64-linux/lib/"}) found.push_back(root + part);
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"})
    if (const char* root = std::getenv(variable); root && *root) add_toolkit(root);
  // A toolkit in a folder of its own, such as that of ./dev setup cuda, needs no variable. A package names none.
  found.emplace_back(NIXIE_CUDA_LIBRARIES);
  add_toolkit("/usr/local/cuda");
  return found;
}

}  // namespace

SharedLibrary::SharedLibrary(std::string stem, const std::vector<std::string>& versions, std::string package)
    : stem_(std::move(stem)), package_(std::move(package)) {
  for (const std::string& folder : folders())
    for (const std::string& version : versions) {
      handle_ = dlopen((folder + stem_ + version).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
    }
  fail(Fault::device, "cuda: cannot open ", stem_, versions[0], ": install ", package_,
       " (./dev setup cuda does so in nixie's source tree), or set CUDA_HOME to the toolkit's folder");
}

Symbol SharedLibrary::find(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found) fail(Fault::device, "cuda: ", stem_, " is too old: it lacks ", name, "; install ", package_);
  return {found};
}

}  // namespace nixie::cuda
