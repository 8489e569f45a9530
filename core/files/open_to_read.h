// open_to_read: opens a file that somebody names; read_text: reads it whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "nixie/core/base/error.h"

namespace nixie {

/// A regular file from its start: a pipe would be waited for, a device may never end. Throws
/// `PATH: cannot be read: REASON; ADVICE`.
std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice);

/// All bytes of such a file. A stream that meets a fault of the disk looks as if the file ended there; this throws.
std::string read_text(const std::filesystem::path& path, Fault fault, std::string_view advice);

}  // namespace nixie
