// Numbers of run folders, and claiming one so that no run is overwritten.
#include "nixie/apps/trainer/record/run_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <span>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "nixie/apps/trainer/record/append_file.h"
#include "nixie/core/base/error.h"
#include "nixie/core/files/make_folders.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The files that a run writes, beside checkpoints that it keeps and files of events.
constexpr const char* kRunFiles[] = {"config.yaml",   "metrics.csv", "last.h5", "best.h5",     kScheduledCheckpoint,
                                     "metrics.jsonl", "timing.csv",  "log.txt", "report.html", "statistics.jsonl"};

/// The largest number among the folder's entries; 0 where there is none.
int largest_number(const fs::path& folder) {
  int largest = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size()) largest = std::max(largest, number);
  }
  return largest;
}

/// N of a name `step-N.h5`; -1 where it is another.
std::int64_t kept_step(const std::string& name) {
  const std::string_view start = "step-", end = ".h5";
  if (!name.starts_with(start) || !name.ends_with(end)) return -1;
  std::int64_t step = -1;
  const char* last = name.data() + name.size() - end.size();
  const auto [rest, error] = std::from_chars(name.data() + start.size(), last, step);
  return error == std::errc{} && rest == last ? step : -1;
}

/// On one line, whatever is in it.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

bool make_folder(const fs::path& folder) { return make_folders(folder, "choose another with --run"); }

/// The names `step-N.h5` in a folder, the newest first.
std::vector<std::string> kept_names(const Folder& folder) {
  std::vector<std::string> names = folder.names();
  std::erase_if(names, [](const std::string& name) { return kept_step(name) < 0; });
  std::ranges::sort(names, std::greater(), kept_step);
  return names;
}

std::string kept_name(std::int64_t step) { return fmt::format("step-{}.h5", step); }

/// Those up to `step` but for the newest `count`.
std::vector<FilePlace> outnumbered(const Folder& folder, std::int64_t step, std::int64_t count) {
  std::vector<FilePlace> files;
  for (const std::string& name : kept_names(folder))
    if (kept_step(name) <= step && count-- <= 0) files.emplace_back(folder, name);
  return files;
}

void check_in_place(const Folder& folder) {
  if (folder.is_in_place()) return;
  const int error = Folder(folder.path()).error();
  if (error != 0 && error != ENOENT && error != ENOTDIR)  // it may be there still
    fail(Fault::storage, folder.path().string(), ": cannot be reached: ", std::generic_category().message(error), "; ",
         system_remedy(error));
  fail(Fault::storage, folder.path().string(), " was moved, removed or replaced while the run used it; leave a ",
       "run's folder alone, and resume it where it is");
}

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Whether a `pid N on HOST` can be who holds a lock: a process of this host that is gone cannot.
bool may_live(const std::string& holder) {
  long pid = 0;
  std::array<char, 256> host{};
  if (std::sscanf(holder.c_str(), "pid %ld on %255s", &pid, host.data()) != 2) return false;
  return host_name() != host.data() || ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

bool has_further_names(int file) {
  struct stat about {};
  return ::fstat(file, &about) == 0 && about.st_nlink > 1;
}

/// How long a holder may take to write its name, and one that only looks to let go.
constexpr std::chrono::milliseconds kNaming(1000), kLook(10);

/// The folder's lock file, open and locked, as the folder is. The file names its last holder that has a run here.
int lock(const Folder& folder) {
  const FilePlace place(folder, ".lock");
  const auto fail_locking = [&](int error) {
    fail(Fault::storage, place.path().string(), ": cannot be locked: ", std::generic_category().message(error), "; ",
         system_remedy(error));
  };
  if (folder.error()) fail_locking(folder.error());
  check_in_place(folder);
  for (auto waited = kLook;; waited += kLook) {
    const int file = open_file(place, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (file < 0) fail_locking(errno);
    // Nobody can remove the folder's own lock from it; but some network file systems lock files alone.
    const bool has_folder = ::flock(folder.descriptor(), LOCK_EX | LOCK_NB) == 0,
               is_taken = !has_folder && errno == EWOULDBLOCK;
    const bool has_file = !is_taken && ::flock(file, LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (has_file && !has_further_names(file)) return file;
    // It is another folder's, too, as in a copy of links (cp -al), whose trainer may hold it.
    if (has_file || (has_folder && error == EWOULDBLOCK && has_further_names(file))) {
      ::close(file);
      remove_file(place);
      continue;
    }
    std::array<char, 300> text{};
    std::ignore = ::pread(file, text.data(), text.size() - 1, 0);
    const std::string holder = text.data();
    ::close(file);
    if (error == EWOULDBLOCK && !may_live(holder) && waited < kNaming) {
      std::this_thread::sleep_for(kLook);
      continue;
    }
    if (error != EWOULDBLOCK) fail_locking(error);
    fail(Fault::usage, folder.path().string(), " is in use by another trainer",
         holder.empty() ? "" : fmt::format(" ({})", printable(holder)),
         "; wait until it ends, or choose another folder with --run");
  }
}

/// As above, with this process named as the holder.
int lock_by_name(const Folder& folder) {
  const int file = lock(folder);
  const std::string holder = fmt::format("pid {} on {}", ::getpid(), host_name());
  // Who cannot be named is locked out all the same.
  if (::ftruncate(file, 0) == 0) std::ignore = ::pwrite(file, holder.data(), holder.size(), 0);
  return file;
}

void unlock(const Folder& folder, int file) {
  ::flock(folder.descriptor(), LOCK_UN);  // files of the run keep it open
  ::close(file);
}

/// Throws a usage Error that names the process and host of a trainer that has the folder.
void check_unlocked(const Folder& folder) try {
  if (fs::exists(FilePlace(folder, ".lock").status())) unlock(folder, lock(folder));
} catch (const Error& error) {
  if (error.fault() == Fault::usage) throw;  // else who locks it will tell
}

}  // namespace

fs::path make_run_folder(const fs::path& root, const std::string& name) {
  const fs::path parent = root / name;
  for (int number = largest_number(parent) + 1;; ++number) {  // another run may take the number first
    fs::path folder = parent / std::to_string(number);
    if (make_folder(folder)) return folder;
  }
}

void claim_run_folder(const fs::path& folder) {
  if (!make_folder(folder)) check_free(folder);
}

void check_holds_no_run(const Folder& folder) {
  const auto exists = [&](const std::string& file) { return fs::exists(FilePlace(folder, file).status()); };
  const auto check_absent = [&](const std::string& file) {
    check(!exists(file), folder.path().string(), " already holds a run (", file, "); go on with it by --resume",
          exists("config.yaml") ? "" : " --config FILE",
          " (in C++ Trainer::resume), or choose another folder with --run");
  };
  if (folder.error() == ENOTDIR)
    fail(Fault::storage, folder.path().string(), " is no folder; choose another with --run");
  for (const char* file : kRunFiles) check_absent(file);
  for (const std::string& name : folder.names())
    if (kept_step(name) >= 0) check_absent(name);
}

void check_run_files(const Folder& folder) {
  for (const char* name : kRunFiles) {
    const FilePlace file(folder, name);
    if (const fs::file_status found = file.status(); fs::exists(found) && !fs::is_regular_file(found))
      fail(Fault::storage, file.path().string(), " is no regular file; move it away, or choose another folder");
    check_changeable(file, file.name() == "log.txt");
  }
}

fs::path newest_run_folder(const fs::path& root, const std::string& name) {
  const int number = largest_number(root / name);
  check(number > 0, "there is no run in ", (root / name).string(), " to resume; name its folder with --run");
  return root / name / std::to_string(number);
}

std::vector<FilePlace> kept_checkpoints(const Folder& folder) {
  std::vector<FilePlace> files;
  for (const std::string& name : kept_names(folder)) files.emplace_back(folder, name);
  return files;
}

std::vector<FilePlace> run_checkpoints(const Folder& folder) {
  std::vector<FilePlace> files = {{folder, "last.h5"}, {folder, kScheduledCheckpoint}};
  std::ranges::move(kept_checkpoints(folder), std::back_inserter(files));
  files.emplace_back(folder, "best.h5");  // those kept are of the last evaluations
  return files;
}

void keep_checkpoint(const FilePlace& file, std::int64_t step, std::int64_t count) {
  const Folder& folder = file.folder();
  link_durably(file, {folder, kept_name(step)});
  for (const FilePlace& old : outnumbered(folder, step, count)) remove_file(old);
}

void check_can_keep(const Folder& folder, std::int64_t step, std::int64_t count) {
  const FilePlace kept(folder, kept_name(step));
  check_changeable(kept);
  const bool is_new = !fs::exists(kept.status());
  for (const FilePlace& old : outnumbered(folder, step, is_new ? count - 1 : count)) check_changeable(old);
}

void check_free(const Folder& folder) try {
  check_unlocked(folder);
  check_holds_no_run(folder);
} catch (const Error&) {
  check_unlocked(folder);  // the run may be of a trainer that began in between
  throw;
}

RunLock::RunLock(Folder folder) : folder_(std::move(folder)), file_(lock_by_name(folder_)) {}

void RunLock::renew() {
  check_in_place(folder_);
  if (is_at(file_, FilePlace(folder_, ".lock"))) return;
  const int file = lock_by_name(folder_);
  ::close(std::exchange(file_, file));
}

RunLock::~RunLock() { unlock(folder_, file_); }

void write_text(const FilePlace& place, const std::string& text) {
  PendingFile file(place, static_cast<std::int64_t>(text.size()));
  file.write(std::as_bytes(std::span(text)));
  file.sync();
  file.publish();
}

}  // namespace nixie
