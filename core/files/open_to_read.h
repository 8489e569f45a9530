// open_to_read: opens a file that somebody names; read_text: reads it whole; fail_reading: what it is where that fails.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "nixie/core/base/error.h"

namespace nixie {

/// The fault where a file or folder cannot be read, for its errno: that of its kind if the name is wrong, else
/// Fault::storage. What the system refuses (permissions, descriptors, the disk) may be whole.
Fault fault_of_reading(int error, Fault of_kind);

/// What to do where the system refuses a file, for its errno: `check the disk`.
std::string_view system_remedy(int error);

/// Throws that fault, `PATH: cannot be read: REASON; ADVICE`, with `advice` if the name is wrong, else with
/// system_remedy.
[[noreturn]] void fail_reading(const std::filesystem::path& path, int error, Fault of_kind, std::string_view advice);

/// A regular file from its start: a pipe would be waited for, a device may never end. Throws as
/// fail_reading does.
std::ifstream open_to_read(const std::filesystem::path& path, Fault fault, std::string_view advice);

/// All bytes of such a file. A stream that meets a fault of the disk looks as if the file ended there; this throws.
std::string read_text(const std::filesystem::path& path, Fault fault, std::string_view advice);

}  // namespace nixie
