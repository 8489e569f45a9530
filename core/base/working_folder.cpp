// The working folder: asked of the system here alone.
#include "nixie/core/base/working_folder.h"

#include <system_error>

#include "nixie/core/base/error.h"

namespace nixie {

std::filesystem::path working_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return error ? std::filesystem::path() : folder;
}

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  if (path.is_absolute()) return path;
  const std::filesystem::path folder = working_folder();
  if (folder.empty()) fail(Fault::storage, path.string(), ": ", kNoWorkingFolder);
  return folder / path;
}

}  // namespace nixie
