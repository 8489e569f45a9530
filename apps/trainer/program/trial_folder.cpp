// The mark gets its name once it is locked, so one that nobody locks is left over.
#include "nixie/apps/trainer/program/trial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "nixie/core/files/folder.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "nixie-trial-";
constexpr const char* kMark = ".made-by-nixie-for-a-trial";

bool lock(int file) { return ::flock(file, LOCK_EX | LOCK_NB) == 0; }

/// Whether the folder was made here and its process is gone.
bool is_left_over(const fs::path& folder) {
  const int mark = open_file(folder / kMark, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (mark < 0) return false;
  struct stat about {};
  const bool is_mark = ::fstat(mark, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == ::geteuid();
  const bool is_left = is_mark && lock(mark);
  ::close(mark);
  return is_left;
}

void remove_left_over(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const bool is_folder = entry.symlink_status(ignored).type() == fs::file_type::directory;
    const bool has_name = entry.path().filename().string().starts_with(kName);
    if (is_folder && has_name && is_left_over(entry.path())) fs::remove_all(entry.path(), ignored);
  }
}

/// The mark, locked; -1 where the folder gets none and stays if this process is killed.
int make_mark(const fs::path& folder) {
  const fs::path early = folder / (std::string(kMark) + ".new");
  const int mark = open_file(early, O_WRONLY | O_CREAT | O_EXCL, 0600);
  std::error_code error;
  if (mark >= 0 && lock(mark)) fs::rename(early, folder / kMark, error);
  return mark;
}

}  // namespace

TrialFolder::TrialFolder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return;
  remove_left_over(parent);
  std::string name = (parent / (std::string(kName) + "XXXXXX")).string();
  if (!::mkdtemp(name.data())) return;
  path_ = name;
  mark_ = make_mark(path_);
}

TrialFolder::~TrialFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (mark_ >= 0) ::close(mark_);
}

}  // namespace nixie
