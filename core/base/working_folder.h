// The working folder, which may be gone: nothing else asks the system for it (tests/gates_test.cpp).
#pragma once

#include <filesystem>

namespace nixie {

/// The message if a program's working folder was removed: no relative path leads anywhere then.
inline constexpr const char* kNoWorkingFolder = "the working folder is gone; change to another";

/// Empty where it is gone.
std::filesystem::path working_folder();

/// As std::filesystem::absolute, whose own error names no path.
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace nixie
