// The working folder, which may be gone: nothing else asks the system for it (tests/gates_test.cpp).
#pragma once

#include <filesystem>
#include <system_error>

#include "nixie/core/base/error.h"

namespace nixie {

/// The message if a program's working folder was removed: no relative path leads anywhere then.
inline constexpr const char* kNoWorkingFolder = "the working folder is gone; change to another";

/// Empty where it is gone.
inline std::filesystem::path working_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return error ? std::filesystem::path() : folder;
}

/// As std::filesystem::absolute, whose own error names no path.
inline std::filesystem::path absolute_path(const std::filesystem::path& path) {
  if (path.is_absolute()) return path;
  const std::filesystem::path folder = working_folder();
  if (folder.empty()) fail(Fault::storage, path.string(), ": ", kNoWorkingFolder);
  return folder / path;
}

}  // namespace nixie
