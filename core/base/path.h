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

/// The path with the home folder in place of a leading `~`, as shells write it. Throws a usage Error where
/// HOME is not set.
std::string with_home(const std::string& path);

inline std::string field_text(const Path& path) { return field_text(path.string()); }

}  // namespace nixie
