// make_folders: a folder to write to, with those above it.
#pragma once

#include <filesystem>
#include <string_view>

namespace nixie {

/// Makes a folder and those above it; false where it was there. Throws Fault::storage: `d/q: cannot be made: d is a
/// link to e, which is not there; ADVICE`.
bool make_folders(const std::filesystem::path& folder, std::string_view advice);

}  // namespace nixie
