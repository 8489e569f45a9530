// JIT: compiles CUDA C++ to cubins by NVRTC, in parallel, with a disk cache. Needs no GPU.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nixie::cuda {

/// Machine code for one architecture, and the compiler's log (registers, spills, warnings).
struct Cubin {
  std::string code;
  std::string log;
};

/// Compiles sources for one architecture (Chip::architecture), or takes cubins from the cache. A source may `#include`
/// the embedded kernels. Throws Fault::device with the compiler's message and the line it points at. The cache is
/// $NIXIE_CACHE, else $XDG_CACHE_HOME/nixie, else ~/.cache/nixie; unless only we own the folder (owner and mode
/// 0700), nothing is cached. NIXIE_TRACE=source prints every source to stderr.
std::vector<Cubin> compile_sources(std::span<const std::string> sources, const std::string& architecture);

}  // namespace nixie::cuda
