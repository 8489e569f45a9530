// AppendFile: POSIX descriptors, since streams cannot sync.
#include "nixie/apps/trainer/record/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "nixie/core/base/error.h"
#include "nixie/core/files/uninterrupted.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {

AppendFile::AppendFile(FilePlace place) : place_(std::move(place)) {
  separate_from_links(place_);
  file_ = open_file(place_, O_WRONLY | O_APPEND);
  struct stat about {};
  if (file_ < 0 || ::fstat(file_, &about) != 0) fail_writing(errno);
  bytes_ = about.st_size;
}

void AppendFile::check_place() const {
  struct stat about {};
  if (::fstatat(place_.folder().descriptor(), place_.name().c_str(), &about, 0) != 0 && errno != ENOENT)
    fail_writing(errno);
  if (!is_at(file_, place_))
    fail(Fault::storage, place_.path().string(),
         " was removed or replaced while the run wrote to it; leave a run's folder alone, and resume");
  const std::lock_guard lock(mutex_);
  if (::fstat(file_, &about) == 0 && about.st_size != bytes_)
    fail(Fault::storage, place_.path().string(), " has ", about.st_size, " bytes where the run wrote ", bytes_,
         ": another program changed it; leave a run's folder alone, and resume");
}

AppendFile::~AppendFile() { ::close(file_); }

void AppendFile::fail_writing(int error, std::size_t bytes) const {
  fail(Fault::storage, place_.path().string(), ": cannot be written: ", std::generic_category().message(error),
       write_remedy(place_, static_cast<std::int64_t>(bytes), error), ", and resume");
}

void AppendFile::append(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(file_, bytes.data(), bytes.size()); });
    if (written <= 0) fail_writing(written < 0 ? errno : ENOSPC, bytes.size());
    bytes.remove_prefix(static_cast<std::size_t>(written));
    bytes_ += written;
  }
}

void AppendFile::sync() {
  if (uninterrupted([&] { return ::fsync(file_); }) != 0) fail_writing(errno);
}

}  // namespace nixie
