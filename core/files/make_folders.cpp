// Creates folders; explains dangling links, which mkdir reports as EEXIST.
#include "nixie/core/files/make_folders.h"

#include "nixie/core/base/error.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// Why a folder could not be made.
std::string reason(const fs::path& folder, const std::error_code& error) {
  fs::path part;
  for (const fs::path& name : folder) {
    part /= name;
    std::error_code ignored, unknown;
    if (fs::is_symlink(fs::symlink_status(part, ignored)) && !fs::exists(part, unknown) && !unknown)
      return fmt::format("{} is a link to {}, which is not there", part.string(),
                         fs::read_symlink(part, ignored).string());
  }
  return error.message();
}

}  // namespace

bool make_folders(const fs::path& folder, std::string_view advice) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  const bool is_made = !error && fs::create_directory(folder, error);
  if (error) fail(Fault::storage, folder.string(), ": cannot be made: ", reason(folder, error), "; ", advice);
  return is_made;
}

}  // namespace nixie
