// Path: a file or folder in an options struct; a configuration's paths are relative to its file.
#pragma once

#include <filesystem>
#include <string>

#include "nixie/core/base/fields.h"

namespace nixie {

/// A path with its own type, so that the configuration reader knows which texts are paths.
struct Path : std::filesystem::path {
  using path::path;
  Path(const std::filesystem::path& other) : path(other) {}
};

inline std::string field_text(const Path& path) { return field_text(path.string()); }

}  // namespace nixie
