// JIT: compiles CUDA C++ to cubins by NVRTC, in parallel, with a disk cache. Needs no GPU.
#pragma once

#include <span>
#include <string>
#include <string_view>
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

/// Spilled bytes and registers per thread, the maximum over a log's kernels.
struct ResourceUse {
  int spilled_bytes = 0;
  int registers = 0;
};
ResourceUse resource_use(std::string_view log);

}  // namespace nixie::cuda
