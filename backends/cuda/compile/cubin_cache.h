// The disk cache of compiled kernels (cubins) and of cuBLASLt's measured choices: one file per key, written atomically,
// in $NIXIE_CACHE, else $XDG_CACHE_HOME/nixie, else ~/.cache/nixie.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "nixie/backends/cuda/compile/jit.h"

namespace nixie::cuda {

class CubinCache {
 public:
  /// Uses the folder if only we own it (created if missing, mode 0700); otherwise caches nothing.
  explicit CubinCache(const std::filesystem::path& folder);
  bool enabled() const { return !folder_.empty(); }
  /// The folder; empty if nothing is cached.
  const std::filesystem::path& folder() const { return folder_; }
  /// The entry of this key; nothing if it is missing or damaged.
  std::optional<Cubin> find(const std::string& key) const;
  /// Stores a cubin; a full or unwritable disk is no error.
  void keep(const std::string& key, const Cubin& cubin) const;
  /// Stores one of several possible entries, unless another process did since this one looked, and returns that which
  /// all of them find: `mine` where nothing is cached.
  Cubin agree(const std::string& key, const Cubin& mine) const;

 private:
  /// Writes an entry beside the others; empty where that fails.
  std::filesystem::path write(const std::string& key, const Cubin& cubin) const;
  std::filesystem::path folder_;
};

/// The cache of this user, see compile_sources (compile/jit.h).
const CubinCache& cubin_cache();

}  // namespace nixie::cuda
