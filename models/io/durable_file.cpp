// Temporary, reserve, write, sync, rename, sync the folder; checks every return value.
#include "nixie/models/io/durable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"

namespace nixie {
namespace {

constexpr std::size_t kMaxWrite = 1 << 30;  // Linux writes at most 2 GiB - 4 KiB at once

std::string message(int error) { return std::generic_category().message(error); }

/// `.last.h5.tmp.1234.0`
bool is_temporary(const std::string& name) {
  const std::size_t at = name.rfind(".tmp.");
  return name.starts_with('.') && at != std::string::npos && at > 0 && at + 5 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at) + 5, name.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

}  // namespace

static std::atomic<std::uint64_t> number = 0;  // threads may write the same file at once

// A name that is as long as names may be is cut, between two characters of UTF-8.
static std::string temporary_for(const FilePlace& place) {
  const std::string end = fmt::format(".tmp.{}.{}", ::getpid(), number++);
  std::string name = "." + place.name();
  if (name.size() + end.size() > NAME_MAX) {
    std::size_t size = NAME_MAX - end.size();
    while (size > 1 && (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) --size;
    name.resize(size);
  }
  return name + end;
}

// 0, or why its names may not survive a power failure.
static int sync_error(const Folder& folder) {
  if (uninterrupted([&] { return ::fsync(folder.descriptor()); }) == 0) return 0;
  return errno == EINVAL ? 0 : errno;  // some network file systems do not sync folders
}
constexpr const char* kUnsynced = "is written, but its name may not survive a power failure";

// The process's own way to a file without a name.
static std::string path_of(int file) { return fmt::format("/proc/self/fd/{}", file); }

bool PendingFile::open_nameless() {
#ifdef O_TMPFILE
  const int folder = place_.folder().descriptor();
  file_ = uninterrupted([&] { return ::openat(folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666); });
  if (file_ >= 0 && ::access(path_of(file_).c_str(), R_OK) == 0) return true;  // else it could get no name later
  const bool is_unknown =
      errno == EOPNOTSUPP || errno == EINVAL || errno == EISDIR || errno == ENOENT || errno == ENOSYS;
  if (file_ < 0 && !is_unknown) fail_writing("cannot be created", errno);
  if (file_ >= 0) ::close(file_);
#endif
  return false;
}

PendingFile::PendingFile(FilePlace place, std::int64_t bytes)
    : place_(std::move(place)), temporary_(temporary_for(place_)), bytes_(bytes) {
  const int folder = place_.folder().descriptor();
  if (const int error = place_.folder().error()) fail_writing("cannot be created", error);
  // A rename replaces whatever is there: for root even /dev/null.
  struct stat there {};
  const bool is_there = ::fstatat(folder, place_.name().c_str(), &there, 0) == 0;
  if (!is_there && errno == ENAMETOOLONG) fail_writing("cannot be created", errno);
  if (is_there && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    fail(Fault::storage, place_.path().string(),
         " is a device, a pipe or a socket, which is not replaced; name a file");
  // One may be left of a killed process of the same number.
  const bool is_name_free = ::unlinkat(folder, temporary_.c_str(), 0) == 0 || errno == ENOENT;
  has_name_ = !is_name_free || !open_nameless();
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  if (has_name_) file_ = uninterrupted([&] { return ::openat(folder, temporary_.c_str(), kNew, 0666); });
  if (file_ < 0) fail_writing("cannot be created", errno);
  try {
    ::flock(file_, LOCK_EX | LOCK_NB);  // tells remove_stale_temporaries that this one is in use
    int error = 0;
    do error = ::posix_fallocate(file_, 0, std::max<std::int64_t>(bytes, 1));
    while (error == EINTR);
    const bool cannot_reserve = error == EINVAL || error == EOPNOTSUPP;  // this file system has to find out by writing
    if (error && !cannot_reserve) fail_writing("cannot be written", error);
    if (!error && bytes == 0 && uninterrupted([&] { return ::ftruncate(file_, 0); }) != 0)
      fail_writing("cannot be written", errno);
  } catch (...) {
    ::close(file_);
    remove_temporary();
    throw;
  }
}

PendingFile::~PendingFile() {
  if (file_ >= 0) ::close(file_);
  if (!is_published_) remove_temporary();
}

void PendingFile::remove_temporary() const {
  if (has_name_) ::unlinkat(place_.folder().descriptor(), temporary_.c_str(), 0);
}

FilePlace PendingFile::readable() const {
  return has_name_ ? FilePlace(place_.folder(), temporary_) : FilePlace(path_of(file_));
}

std::string write_remedy(const FilePlace& place, std::int64_t bytes, int error) {
  rlimit limit{};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return fmt::format("{}; a file may have {} (RLIMIT_FSIZE); raise `ulimit -f`",
                       bytes > 0 ? fmt::format("; {} bytes are to be written", bytes) : "", limit.rlim_cur);
  if (error != ENOSPC && error != EDQUOT) return fmt::format("; {}", system_remedy(error));
  std::string needed = bytes > 0 ? fmt::format("; it needs {} bytes", bytes) : "";
  struct statvfs disk {};
  if (error == ENOSPC && ::fstatvfs(place.folder().descriptor(), &disk) == 0) {
    const auto free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    const bool counts_files = disk.f_files > 0;  // file systems that make inodes as needed have 0 of 0
    if (counts_files && disk.f_favail == 0 && free > static_cast<std::uint64_t>(bytes))
      return "; its disk has room, but no inode for another file; remove some files";
    needed += fmt::format("{} {} are free", needed.empty() ? ";" : ",", free);
  }
  return needed + "; free some space";
}

void PendingFile::fail_writing(const char* what, int error) const {
  fail(Fault::storage, place_.path().string(), " ", what, ": ", message(error), write_remedy(place_, bytes_, error),
       is_published_ ? "; the new file is in its place" : "; the old file is untouched");
}

void PendingFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::write(file_, bytes.data(), std::min(bytes.size(), kMaxWrite)); });
    if (written <= 0) fail_writing("cannot be written", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void PendingFile::sync() {
  if (uninterrupted([&] { return ::fsync(file_); }) != 0) fail_writing("cannot be written", errno);
}

void PendingFile::publish() {
  const int folder = place_.folder().descriptor();
  // No call gives it a name that another file has.
  if (!has_name_ && ::linkat(AT_FDCWD, path_of(file_).c_str(), folder, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail_writing("cannot be written", errno);
  has_name_ = true;
  if (::renameat(folder, temporary_.c_str(), folder, place_.name().c_str()) != 0)
    fail_writing("cannot be replaced", errno);
  is_published_ = true;
  if (const int error = sync_error(place_.folder())) fail_writing(kUnsynced, error);
}

static void copy_durably(const FilePlace& file, const FilePlace& place) {
  constexpr const char* kAdvice = "check the disk";
  FileToRead in(file, Fault::storage, kAdvice);
  struct stat about {};
  if (::fstat(in.descriptor(), &about) != 0) fail_reading(file.path(), errno, Fault::storage, kAdvice);
  PendingFile out(place, about.st_size);
  std::vector<char> piece(1 << 20);
  while (const std::size_t got = in.read(piece)) out.write(std::as_bytes(std::span(piece).first(got)));
  out.sync();
  out.publish();
}

void link_durably(const FilePlace& file, const FilePlace& place) {
  const auto fail_linking = [&](const char* what, int error) {
    fail(Fault::storage, place.path().string(), " ", what, ": ", message(error), write_remedy(place, 0, error), "; ",
         file.path().string(), " is untouched");
  };
  if (is_same_file(file, place)) return;  // a rename would leave both names
  const int from = file.folder().descriptor(), folder = place.folder().descriptor();
  const std::string temporary = temporary_for(place);
  if (::linkat(from, file.name().c_str(), folder, temporary.c_str(), 0) != 0) {
    const bool has_no_links =
        errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK || errno == EXDEV;
    return has_no_links ? copy_durably(file, place) : fail_linking("cannot be written", errno);
  }
  if (::renameat(folder, temporary.c_str(), folder, place.name().c_str()) != 0) {
    const int error = errno;
    ::unlinkat(folder, temporary.c_str(), 0);
    fail_linking("cannot be replaced", error);
  }
  if (const int error = sync_error(place.folder())) fail_linking(kUnsynced, error);
}

void separate_from_links(const FilePlace& place) {
  struct stat about {};
  if (::fstatat(place.folder().descriptor(), place.name().c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISLNK(about.st_mode) || (S_ISREG(about.st_mode) && about.st_nlink > 1)) copy_durably(place, place);
}

void check_changeable(const FilePlace& place, bool appends) {
  // The file itself refuses by these two errors alone; by others its permissions do, which a rename does not ask.
  const int file = open_file(place, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | (appends ? O_APPEND : 0));
  const int error = file < 0 ? errno : 0;
  if (file >= 0) ::close(file);
  if (error != EPERM && error != EROFS && !(appends && error == EACCES)) return;
  fail(Fault::storage, place.path().string(), " cannot be changed: ", message(error), "; ",
       error == EPERM ? "it is immutable or append-only (lsattr); end that by chattr -i -a" : system_remedy(error),
       "; nothing was changed");
}

void remove_file(const FilePlace& place) {
  const int error = ::unlinkat(place.folder().descriptor(), place.name().c_str(), 0) == 0 ? 0 : errno;
  if (error != 0 && error != ENOENT)
    fail(Fault::storage, place.path().string(), ": cannot be removed: ", message(error), "; ", system_remedy(error));
}

int remove_stale_temporaries(const Folder& folder) {
  int removed = 0;
  for (const std::string& name : folder.names()) {
    if (!is_temporary(name)) continue;
    const int file = ::openat(folder.descriptor(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    const bool is_in_use = ::flock(file, LOCK_EX | LOCK_NB) != 0;
    if (!is_in_use && ::unlinkat(folder.descriptor(), name.c_str(), 0) == 0) ++removed;
    ::close(file);
  }
  return removed;
}

}  // namespace nixie
