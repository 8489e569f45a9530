// A shared library opened at run time.
#pragma once

#include <string>
#include <vector>

namespace nixie::cuda {

/// Stays open until the program ends.
class SharedLibrary {
 public:
  /// Opens `stem` followed by the first available of `versions`: by the loader, then in lib64/ and lib/ of $CUDA_HOME,
  /// $CUDA_PATH and $CUDAToolkit_ROOT, of the toolkit that nixie was built with, and of /usr/local/cuda. Throws
  /// Fault::device naming the library and the `package` to install if there is none.
  SharedLibrary(std::string stem, const std::vector<std::string>& versions, std::string package);

  /// Throws Fault::device if the library is too old to have the function.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(address(name));
  }

 private:
  void* address(const char* name) const;
  void* handle_ = nullptr;
  std::string stem_, package_;
};

}  // namespace nixie::cuda
