// The handlers set atomic flags and nothing else; the loop asks for them after every step and batch.
#include "nixie/apps/trainer/program/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace nixie {
namespace {

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
