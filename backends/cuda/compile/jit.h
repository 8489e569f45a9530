// JIT: CUDA C++ to cubins through NVRTC, cached on disk, compiled in parallel. Needs no GPU.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nixie::cuda {

/// Machine code for one architecture, and what the compiler said of it (registers, spills, warnings).
struct Cubin {
  std::string code;
  std::string log;
};

/// Compiles sources for one architecture (Chip::architecture), taking what the cache has. A source may `#include` the
/// embedded kernels. Throws Fault::device with the compiler's message and the line it points at. The cache is
/// $NIXIE_CACHE, else $XDG_CACHE_HOME/nixie, else ~/.cache/nixie; without a folder that is ours alone (owner and mode
/// 0700) nothing is cached. NIXIE_TRACE=source prints every source to stderr.
std::vector<Cubin> compile_sources(std::span<const std::string> sources, const std::string& architecture);

}  // namespace nixie::cuda
