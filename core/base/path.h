// Path: a file or folder that an options struct names; configurations read it relative to the file it stands in.
#pragma once

#include <filesystem>
#include <string>

#include "nixie/core/base/fields.h"

namespace nixie {

/// A path by another type, so that readers of configurations know which texts are paths.
struct Path : std::filesystem::path {
  using path::path;
  Path(const std::filesystem::path& other) : path(other) {}
};

inline std::string field_text(const Path& path) { return field_text(path.string()); }

}  // namespace nixie
