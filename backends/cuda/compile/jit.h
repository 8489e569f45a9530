// JIT: compiles CUDA C++ to cubins by NVRTC, in parallel, with a disk cache. Needs no GPU.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nixie::cuda {

/// Machine code for one architecture, and the compiler's log (registers, spills, warnings).
struct Cubin {
  std::string code;
  std::string log;
};

/// Sources that threads compile while the caller does something else.
class Compilation {
 public:
  /// Compiles sources for one architecture (Chip::architecture), or takes cubins from the cache: equal ones once, the
  /// longest first. A source may `#include` the embedded kernels. The cache is $NIXIE_CACHE, else
  /// $XDG_CACHE_HOME/nixie, else ~/.cache/nixie; unless only we own the folder (owner and mode 0700), nothing is
  /// cached. NIXIE_TRACE=source prints every source to stderr. Throws Fault::device if NVRTC is missing.
  Compilation(std::vector<std::string> sources, std::string architecture);
  /// Begins no further program.
  ~Compilation();
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  /// The sources' cubins, once; the calling thread helps to compile. Throws Fault::device with the compiler's message
  /// and the line it points at.
  std::vector<Cubin> wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Compiles sources and waits for them.
std::vector<Cubin> compile_sources(std::span<const std::string> sources, const std::string& architecture);

}  // namespace nixie::cuda
