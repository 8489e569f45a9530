// A rename would replace a link itself, so links are refused: where they lead, the user names.
#include "nixie/apps/trainer/program/output_file.h"

#include <sys/stat.h>

#include <system_error>

#include "nixie/core/base/error.h"

namespace nixie {

namespace fs = std::filesystem;

FilesInUse::FilesInUse(const std::vector<fs::path>& files) {
  struct stat about {};
  for (const fs::path& file : files)
    if (::stat(file.c_str(), &about) == 0) files_.try_emplace({about.st_dev, about.st_ino}, file);
}

const fs::path* FilesInUse::find(const fs::path& file) const {
  struct stat about {};
  if (files_.empty() || ::stat(file.c_str(), &about) != 0) return nullptr;
  const auto found = files_.find({about.st_dev, about.st_ino});
  return found == files_.end() ? nullptr : &found->second;
}

std::string output_fault(const fs::path& file, const FilesInUse& in_use, const std::string& instead) {
  std::error_code ignored;
  const fs::file_status led_to = fs::status(file, ignored);
  const bool is_folder = fs::is_directory(led_to);
  if (fs::exists(led_to) && !fs::is_regular_file(led_to) && !is_folder) return {};
  const std::string path = file.string();
  if (const fs::path* used = in_use.find(file))
    return fmt::format("{} is the same file as {}, which this command uses; {}", path, used->string(), instead);
  if (fs::is_symlink(fs::symlink_status(file, ignored)))
    return fmt::format("{} is a link to {}{}; {}, or remove the link", path, fs::read_symlink(file, ignored).string(),
                       fs::exists(led_to) ? "" : ", which is not there", instead);
  return is_folder ? fmt::format("{} is a folder; {}", path, instead) : "";
}

void check_output(const fs::path& file, const FilesInUse& in_use, const std::string& instead) {
  const std::string fault = output_fault(file, in_use, instead);
  check(fault.empty(), fault);
}

}  // namespace nixie
