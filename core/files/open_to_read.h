// open_to_read: opens a file that somebody names.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "nixie/core/base/error.h"

namespace nixie {

/// A regular file from its start: a pipe would be waited for, a device may never end. Throws
/// `PATH: cannot be read: REASON; ADVICE`.
std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice);

}  // namespace nixie
