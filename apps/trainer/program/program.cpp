// Every exception ends as one line and a number. Handlers of signals set atomic flags and nothing else; a run asks for
// them after every step and batch.
#include "nixie/apps/trainer/program/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <system_error>
#include <tuple>

#if defined(__linux__)
#include <malloc.h>
#include <sys/resource.h>
#endif

#include "nixie/core/base/working_folder.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie {
namespace {

int end_with(int code, const std::string& text) {
  std::fflush(stdout);  // what was printed before it comes first
  std::fprintf(stderr, "%s\n", printable(text).c_str());
  return code;
}

int end_with(Fault fault, std::string text) {
  // Who misses a file there learns why.
  const bool may_be_why =
      fault == Fault::usage || fault == Fault::data || fault == Fault::checkpoint || fault == Fault::storage;
  if (may_be_why && working_folder().empty() && text.find(kNoWorkingFolder) == std::string::npos)
    text += std::string("; ") + kNoWorkingFolder;
  return end_with(static_cast<int>(fault), text);
}

/// Flushes what the work printed.
int with_output(const std::function<int()>& work) {
  int code = 0, cause = 0;
  try {
    code = work();
  } catch (const std::system_error& error) {  // fmt's
    if (!std::ferror(stdout)) throw;
    cause = error.code().value();
  }
  if (std::fflush(stdout) != 0 && cause == 0) cause = errno;
  if ((cause == 0 && !std::ferror(stdout)) || cause == EPIPE) return code;
  fail(Fault::storage, "what was printed is not complete", cause ? ": " : "", cause ? std::strerror(cause) : "",
       "; look at where standard output leads");
}

// glibc reserves 64 MiB of addresses for each thread that allocates, which a limit of addresses (ulimit -v) counts; and
// where a large array was freed, it keeps the addresses of later ones, in pieces that the next may not fit.
void save_addresses() {
#if defined(M_ARENA_MAX)
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
  }
#endif
}

constexpr std::string_view kOutOfMemory = "out of memory; end other programs, or take a machine with more memory\n";

constexpr std::int64_t kGraceMs = 1000;

std::atomic<std::int64_t> stopped_at_ms{0};
std::atomic<bool> save_requested{false};
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_stop(int signal) {
  const int kept = errno;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 + 1;
  std::int64_t first_ms = 0;
  const bool is_first = stopped_at_ms.compare_exchange_strong(first_ms, now_ms);
  if (!is_first && signal != SIGXCPU && now_ms - first_ms > kGraceMs) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = kept;
}

void on_save(int) { save_requested = true; }

void listen(int signal, void (*handler)(int)) {
  if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    result += one_line(text.substr(at, end - at));
    if (end < text.size()) result += text[end];
    at = end + 1;
  }
  return result;
}

MovingLine::MovingLine() : is_shown_(::isatty(2) == 1) {}
MovingLine::~MovingLine() { (*this)(""); }
void MovingLine::operator()(const std::string& text) const {
  if (is_shown_) fmt::print(stderr, "\r\x1b[K{}", text);
}

void tell_text(std::string_view text) { fmt::print("{}", printable(text)); }

void name_want_of_memory() {
  static const std::terminate_handler ordinary = std::set_terminate([] {
    if (std::current_exception()) ordinary();
    std::ignore = ::write(2, kOutOfMemory.data(), kOutOfMemory.size());
    ::_exit(static_cast<int>(Fault::memory));
  });
}

void begin_program() {
  reserve_standard_descriptors();
  listen_to_save_requests();  // one that comes too early, or to another command, must end nothing
  std::signal(SIGXFSZ, SIG_IGN);
  save_addresses();
}

int exit_code_of(Output output, const std::function<int()>& work, const std::string& before) {
  try {
    return output == Output::result ? with_output(work) : work();
  } catch (const Error& error) {
    return end_with(error.fault(), before + error.what());  // a line for each problem of a configuration
  } catch (const Interrupted& interrupted) {
    return end_with(kInterrupted, before + interrupted.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return end_with(Fault::storage, before + one_line(error.path1().string()) + ": " + error.code().message() + "; " +
                                        std::string(system_remedy(error.code().value())));
  } catch (const std::bad_alloc&) {
    return end_with(Fault::memory, before + std::string(kOutOfMemory.substr(0, kOutOfMemory.size() - 1)));
  } catch (const std::exception& error) {
    return end_with(Fault::usage, before + one_line(error.what()));
  }
}

void listen_to_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) listen(signal, on_stop);
}

void listen_to_save_requests() { listen(SIGUSR1, on_save); }

bool stop_is_requested() { return stopped_at_ms != 0; }
bool take_save_request() { return save_requested.exchange(false); }

void reserve_standard_descriptors() {
  int opened = 0;
  do opened = ::open("/dev/null", O_RDONLY);
  while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened > STDERR_FILENO) ::close(opened);
}

}  // namespace nixie
