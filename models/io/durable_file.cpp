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
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"

namespace nixie {
namespace {

constexpr std::size_t kMaxWrite = 1 << 30;  // Linux writes at most 2 GiB - 4 KiB at once

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

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

static std::filesystem::path temporary_for(const std::filesystem::path& path) {
  return folder_of(path) / fmt::format(".{}.tmp.{}.{}", path.filename().string(), ::getpid(), number++);
}

// What failed, and how; 0 where nothing did.
static std::pair<const char*, int> sync_folder_of(const std::filesystem::path& path) {
  const int folder = uninterrupted([&] { return ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (folder < 0) return {"is written, but its folder cannot be opened", errno};
  const int error = uninterrupted([&] { return ::fsync(folder); }) == 0 ? 0 : errno;
  ::close(folder);
  const bool has_no_sync = error == EINVAL;  // some network file systems do not sync folders
  return {"is written, but its name may not survive a power failure", has_no_sync ? 0 : error};
}

// The process's own way to a file without a name.
static std::string path_of(int file) { return fmt::format("/proc/self/fd/{}", file); }

bool PendingFile::open_nameless() {
#ifdef O_TMPFILE
  file_ = uninterrupted([&] { return ::open(folder_of(path_).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666); });
  if (file_ >= 0 && ::access(path_of(file_).c_str(), R_OK) == 0) return true;  // else it could get no name later
  const bool is_unknown =
      errno == EOPNOTSUPP || errno == EINVAL || errno == EISDIR || errno == ENOENT || errno == ENOSYS;
  if (file_ < 0 && !is_unknown) fail_writing("cannot be created", errno);
  if (file_ >= 0) ::close(file_);
#endif
  return false;
}

PendingFile::PendingFile(std::filesystem::path path, std::int64_t bytes)
    : path_(std::move(path)), temporary_(temporary_for(path_)), bytes_(bytes) {
  // A rename replaces whatever stands there: for root even /dev/null.
  if (struct stat there{}; ::stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    fail(Fault::storage, path_.string(), " is a device, a pipe or a socket, which is not replaced; name a file");
  const bool is_name_free =
      ::unlink(temporary_.c_str()) == 0 || errno == ENOENT;  // of a killed process of the same number
  has_name_ = !is_name_free || !open_nameless();
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  if (has_name_) file_ = uninterrupted([&] { return ::open(temporary_.c_str(), kNew, 0666); });
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
    if (has_name_) ::unlink(temporary_.c_str());
    throw;
  }
}

PendingFile::~PendingFile() {
  if (file_ >= 0) ::close(file_);
  if (has_name_ && !is_published_) ::unlink(temporary_.c_str());
}

std::filesystem::path PendingFile::readable() const {
  return has_name_ ? temporary_ : std::filesystem::path(path_of(file_));
}

std::string write_remedy(const std::filesystem::path& file, std::int64_t bytes, int error) {
  rlimit limit{};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return fmt::format("{}; a file may have {} (RLIMIT_FSIZE); raise `ulimit -f`",
                       bytes > 0 ? fmt::format("; {} bytes are to be written", bytes) : "", limit.rlim_cur);
  if (error != ENOSPC && error != EDQUOT) return fmt::format("; {}", system_remedy(error));
  std::string needed = bytes > 0 ? fmt::format("; it needs {} bytes", bytes) : "";
  struct statvfs disk {};
  if (error == ENOSPC && ::statvfs(folder_of(file).c_str(), &disk) == 0) {
    const auto free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    const bool counts_files = disk.f_files > 0;  // file systems that make inodes as needed have 0 of 0
    if (counts_files && disk.f_favail == 0 && free > static_cast<std::uint64_t>(bytes))
      return "; its disk has room, but no inode for another file; remove some files";
    needed += fmt::format("{} {} are free", needed.empty() ? ";" : ",", free);
  }
  return needed + "; free some space";
}

void PendingFile::fail_writing(const char* what, int error) const {
  fail(Fault::storage, path_.string(), " ", what, ": ", message(error), write_remedy(path_, bytes_, error),
       is_published_ ? "; the new file is in its place" : "; what stood there before is untouched");
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
  // No call gives it a name that another file has.
  if (!has_name_ && ::linkat(AT_FDCWD, path_of(file_).c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail_writing("cannot be written", errno);
  has_name_ = true;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_writing("cannot be replaced", errno);
  is_published_ = true;
  if (const auto [what, error] = sync_folder_of(path_); error) fail_writing(what, error);
}

static void copy_durably(const std::filesystem::path& file, const std::filesystem::path& path) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  PendingFile out(path, in.tellg());
  in.seekg(0);
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    out.write(std::as_bytes(std::span(piece.data(), static_cast<std::size_t>(in.gcount()))));
  if (!in.eof()) fail_reading(file, errno, Fault::storage, "check the disk");
  out.sync();
  out.publish();
}

void link_durably(const std::filesystem::path& file, const std::filesystem::path& path) {
  const auto fail_linking = [&](const char* what, int error) {
    fail(Fault::storage, path.string(), " ", what, ": ", message(error), write_remedy(path, 0, error), "; ",
         file.string(), " is untouched");
  };
  std::error_code ignored;
  if (std::filesystem::equivalent(file, path, ignored)) return;  // a rename would leave both names
  const std::filesystem::path temporary = temporary_for(path);
  if (::link(file.c_str(), temporary.c_str()) != 0) {
    const bool has_no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK;
    return has_no_links ? copy_durably(file, path) : fail_linking("cannot be written", errno);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail_linking("cannot be replaced", error);
  }
  if (const auto [what, error] = sync_folder_of(path); error) fail_linking(what, error);
}

int remove_stale_temporaries(const std::filesystem::path& folder) {
  int removed = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!is_temporary(entry.path().filename().string())) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    const bool is_in_use = ::flock(file, LOCK_EX | LOCK_NB) != 0;
    if (!is_in_use && ::unlink(entry.path().c_str()) == 0) ++removed;
    ::close(file);
  }
  return removed;
}

}  // namespace nixie
