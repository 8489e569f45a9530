// Every call is relative to the folder's descriptor.
#include "nixie/core/files/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "nixie/core/base/error.h"
#include "nixie/core/base/working_folder.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"

namespace nixie {

namespace {

const char* text_of(const std::filesystem::path& folder) { return folder.empty() ? "." : folder.c_str(); }

}  // namespace

struct Folder::Open {
  explicit Open(std::filesystem::path at)
      : path(std::move(at)), descriptor(opened(O_RDONLY)), error(descriptor < 0 ? errno : 0) {
    if (error == EACCES) descriptor = opened(O_PATH);
  }
  ~Open() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  int opened(int flags) const {
    return uninterrupted([&] { return ::open(text_of(path), flags | O_DIRECTORY | O_CLOEXEC); });
  }

  std::filesystem::path path;
  int descriptor, error;
};

namespace {

using Identity = std::optional<std::pair<dev_t, ino_t>>;

Identity identity(int result, const struct stat& about) {
  return result == 0 ? Identity({about.st_dev, about.st_ino}) : std::nullopt;
}

/// A fault of the disk says nothing of what is there.
void check_disk(int result, const std::filesystem::path& path) {
  if (const int error = errno; result != 0 && error == EIO)
    fail(Fault::storage, path.string(), ": ", std::generic_category().message(error), "; ", system_remedy(error));
}

Identity identity_of(int file, const std::filesystem::path& path) {
  struct stat about {};
  const int result = ::fstat(file, &about);
  check_disk(result, path);
  return identity(result, about);
}

Identity identity_of(const FilePlace& place) {
  struct stat about {};
  const int result = ::fstatat(place.folder().descriptor(), place.name().c_str(), &about, 0);
  check_disk(result, place.path());
  return identity(result, about);
}

}  // namespace

Folder Folder::opened(const std::filesystem::path& path) { return Folder(std::make_shared<const Open>(path)); }

const std::filesystem::path& Folder::path() const { return open_->path; }
int Folder::descriptor() const { return open_->descriptor; }
int Folder::error() const { return open_->error; }

bool Folder::is_in_place() const {
  struct stat about {};
  const Identity mine = identity_of(descriptor(), path());
  return mine && mine == identity(::stat(text_of(path()), &about), about);
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  // A description of its own, since reading moves its position.
  const int again = uninterrupted([&] { return ::openat(descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (again < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(again), &::closedir);
  if (!entries) return ::close(again), names;
  while (const dirent* entry = ::readdir(entries.get()))
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  return names;
}

FilePlace::FilePlace(Folder folder, const std::string& name)
    : folder_(std::move(folder)), path_(folder_.path() / name) {}

FilePlace FilePlace::of_path(std::filesystem::path path) {
  FilePlace place(Folder(path.parent_path()), path.filename());
  place.path_ = std::move(path);
  return place;
}

std::filesystem::path FilePlace::readable() const {
  if (folder_.is_in_place()) return path_;
  return fmt::format("/proc/self/fd/{}/{}", folder_.descriptor(), name());
}

std::filesystem::file_status FilePlace::status(std::error_code& error) const {
  using std::filesystem::file_status, std::filesystem::file_type;
  struct stat about {};
  const bool is_there = ::fstatat(folder_.descriptor(), name().c_str(), &about, 0) == 0;
  const int why = is_there ? 0 : folder_.descriptor() < 0 ? folder_.error() : errno;
  const bool is_absent = why == ENOENT || why == ENOTDIR;
  error.assign(is_absent ? 0 : why, std::generic_category());
  if (!is_there) return file_status(is_absent ? file_type::not_found : file_type::none);
  return file_status(S_ISREG(about.st_mode)   ? file_type::regular
                     : S_ISDIR(about.st_mode) ? file_type::directory
                                              : file_type::unknown);
}

std::filesystem::file_status FilePlace::status() const {
  std::error_code error;
  const std::filesystem::file_status found = status(error);
  if (error) throw std::filesystem::filesystem_error("", path_, error);
  return found;
}

int open_file(const FilePlace& place, int flags, int mode) {
  const int folder = place.folder().descriptor();
  if (folder >= 0)
    return uninterrupted([&] { return ::openat(folder, place.name().c_str(), flags | O_CLOEXEC, mode); });
  errno = place.folder().error();
  return -1;
}

bool is_at(int file, const FilePlace& place) {
  const Identity mine = identity_of(file, place.path());
  return mine && mine == identity_of(place);
}

bool is_same_file(const FilePlace& a, const FilePlace& b) {
  const Identity first = identity_of(a);
  return first && first == identity_of(b);
}

bool is_within(const std::filesystem::path& folder, const std::filesystem::path& outer) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path at = absolute_path(folder);
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  for (;; at /= "..") {
    if (fs::equivalent(at, outer, error)) return true;
    if (fs::equivalent(at, at / "..", error) || error) return false;  // the root
  }
}

}  // namespace nixie
