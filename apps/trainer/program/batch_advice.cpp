// Tries batches in child processes, since a process keeps parts of what it has freed. The mark of a folder gets its
// name once it is locked, so one that nobody locks is left over.
#include "nixie/apps/trainer/program/batch_advice.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/program/subprocess.h"
#include "nixie/backends/cpu/contract/scratch.h"
#include "nixie/backends/cpu/host/memory.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/threads.h"
#include "nixie/core/files/folder.h"
#include "nixie/core/passes/plan_too_large.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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

constexpr unsigned kSecondsOfTrial = 30;        // one that still runs then says nothing
constexpr std::chrono::seconds kLastTrial(10);  // later none begins
constexpr std::int64_t kSpareBytes = 2 << 20;   // runs of the same take a little more or less
constexpr double kCloseEnough = 1.25;           // between a batch that fits and one that does not

std::string batch_assignment(const TrainConfig& config, std::int64_t batch) {
  return fmt::format("data.{}.batch={}", config.data.kind(), batch);
}

/// For a child: it takes no memory that others use, prints nothing, leaves signals to its parent, and ends without an
/// answer when its time is over.
void become_trial() {
  cpu::release_scratch();
  cpu::limit_to_free_bytes(kSpareBytes);
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0)
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  for (const int signal : {SIGALRM, SIGXCPU}) std::signal(signal, [](int) { ::_exit(0); });
  ::alarm(kSecondsOfTrial);
}

/// Whether a batch fits; nothing where that was not found.
std::optional<bool> fits(const TrainConfig& config, std::int64_t batch, const BatchTrial& trial) try {
  const TrialFolder folder;
  if (folder.path().empty()) return std::nullopt;
  run_apart("a trial", [&] {
    become_trial();
    trial(with_assignments(config, "a trial", {batch_assignment(config, batch)}), folder.path());
    return std::string("fits");
  });
  return true;
} catch (const Error& error) {
  return error.fault() == Fault::memory ? std::optional(false) : std::nullopt;
}

/// Between the batch of the configuration, which is too large, and 1, a large one that fits; 0 where 1 does not.
/// Nothing where that was not found.
std::optional<std::int64_t> fitting_batch(const TrainConfig& config, std::int64_t guess, const BatchTrial& trial) {
  const Clock::time_point end = Clock::now() + kLastTrial;
  std::int64_t fitting = 0, too_large = config.data.batch();
  for (std::int64_t next = guess;
       too_large - fitting > 1 && static_cast<double>(too_large) > kCloseEnough * static_cast<double>(fitting);) {
    if (Clock::now() > end) break;
    const std::optional<bool> answer = fits(config, next, trial);
    if (!answer) break;
    (*answer ? fitting : too_large) = next;
    // The first that is too large may be so for what no batch changes.
    next = fitting == 0
               ? 1
               : static_cast<std::int64_t>(std::sqrt(static_cast<double>(fitting) * static_cast<double>(too_large)));
    if (next == fitting) ++next;
  }
  if (fitting == 0 && too_large > 1) return std::nullopt;
  return fitting;
}

/// The end of the line.
std::string advice(const TrainConfig& config, std::int64_t guess, const BatchTrial& trial) {
  const std::int64_t batch = config.data.batch();
  const std::string given = fmt::format("; the batch is {}", batch);
  if (batch == 1) return given + ", try a smaller model";
  const std::int64_t first = guess > 0 ? guess : std::max<std::int64_t>(1, batch / 2);
  if (make_backend(config.backend, 1)->name() == "cpu")
    if (const auto found = fitting_batch(config, first, trial))
      return *found > 0
                 ? fmt::format("{}; one of {} was tried and fits: --set {}", given, *found,
                               batch_assignment(config, *found))
                 : given +
                       "; none is sure to fit, 1 did not when it was tried: use a larger machine or a smaller model";
  return guess == 0 ? "; no batch is sure to fit, use a larger device or a smaller model"
                    : fmt::format("{}, try --set {}", given, batch_assignment(config, guess));
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

void within_batch(const TrainConfig& config, const std::function<void()>& work) try {
  work();
} catch (const std::bad_alloc&) {
  throw BatchTooLarge("out of memory", config.data.batch() / 2);
} catch (const NoThread&) {
  throw;
} catch (const PlanTooLarge& error) {
  throw BatchTooLarge(error.need(), error.fitting_batch());
} catch (const Error& error) {
  if (error.fault() != Fault::memory) throw;
  throw BatchTooLarge(error.what(), config.data.batch() / 2);
}

void with_batch_advice(const TrainConfig& config, const std::function<void()>& work, const BatchTrial& trial) {
  std::optional<BatchTooLarge> too_large;
  try {
    return work();
  } catch (const BatchTooLarge& error) {
    too_large = error;  // what `work` took is free when the trials begin
  }
  listen_to_signals();  // whose first one would leave the folder of a trial
  try {
    fail(Fault::memory, too_large->what(), advice(config, too_large->guess(), trial));
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format("{}; the batch is {}; a signal ended the trial of a smaller one", too_large->what(),
                                  config.data.batch()));
  }
}

void with_kept_batch(const std::function<void()>& work) try { work(); } catch (const BatchTooLarge& error) {
  fail(Fault::memory, error.what(),
       "; a resumed run keeps its batch: end other programs, or raise the limit (ulimit -v)");
}

}  // namespace nixie
