// A shared library opened at run time.
#pragma once

#include <string>
#include <vector>

namespace nixie::cuda {

/// An address in a library, as a pointer to the function that it is.
struct Symbol {
  void* address;
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
};

/// Stays open until the program ends.
class SharedLibrary {
 public:
  /// Opens `stem` followed by the first available of `versions`: by the loader, then in lib64/ and lib/ of $CUDA_HOME,
  /// $CUDA_PATH and $CUDAToolkit_ROOT, of the toolkit that nixie was built with, and of /usr/local/cuda. Throws
  /// Fault::device naming the library and the `package` to install if there is none.
  SharedLibrary(std::string stem, const std::vector<std::string>& versions, std::string package);

  /// Throws Fault::device if the library is too old to have it.
  Symbol find(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string stem_, package_;
};

}  // namespace nixie::cuda
