// The places where threads wait come from /proc/self/task.
#include "nixie/apps/trainer/program/watchdog.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "nixie/core/base/one_line.h"
#include "nixie/core/base/threads.h"

namespace nixie {
namespace {

constexpr int kFirst = 4;           // times as long for the first step, which compiles kernels and fills caches
constexpr std::size_t kKept = 101;  // times between marks, of which the median is taken

double seconds(Watchdog::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string line_in(const std::filesystem::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return one_line(line);
}

/// `R`, `S`, ...: the word behind the name, which is in brackets and may hold anything.
std::string state_of(const std::string& stat) {
  const std::size_t end = stat.rfind(')');
  const char letter = end == std::string::npos || end + 2 >= stat.size() ? '?' : stat[end + 2];
  return letter == 'R'   ? "runs"
         : letter == 'D' ? "waits for a device"
         : letter == 'S' ? "sleeps"
                         : std::string(1, letter);
}

}  // namespace

std::string thread_text() {
  std::string text;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    const std::string wait = line_in(task.path() / "wchan");
    text += fmt::format("\n  thread {} ({}) {}{}", task.path().filename().string(), line_in(task.path() / "comm"),
                        state_of(line_in(task.path() / "stat")), wait.empty() || wait == "0" ? "" : " in " + wait);
  }
  return text;
}

Watchdog::Watchdog(std::function<void(const std::string&)> tell, Clock::duration least)
    : tell_(std::move(tell)), least_(least) {
  start_threads(thread_, "watchdog", 1, [this](const std::stop_token& stop) { watch(stop); });
}

void Watchdog::enter(const char* activity) {
  const std::lock_guard lock(mutex_);
  activity_ = activity;
}

void Watchdog::mark() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  const Clock::time_point now = Clock::now();
  if (last_.size() < kKept) last_.emplace_back();
  last_[count_++ % kKept] = now - marked_;
  marked_ = now;
  is_told_ = false;
}

Watchdog::Clock::duration Watchdog::limit() const {
  if (last_.empty()) return kFirst * least_;
  std::vector<Clock::duration> sorted = last_;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  return std::max(least_, 10 * sorted[sorted.size() / 2]);
}

void Watchdog::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, least_ / 4, [] { return false; });
    const Clock::duration pause = Clock::now() - marked_, allowed = limit();
    if (is_told_ || pause < allowed || stop.stop_requested()) continue;
    is_told_ = true;
    std::exception_ptr failure;
    try {
      const std::string text =
          fmt::format("no {} for {:.0f} s{}: the run {}{}", last_.empty() ? "first step" : "step", seconds(pause),
                      last_.empty() ? "" : ", 10 times the usual or more", activity_, thread_text());
      lock.unlock();
      tell_(text);
    } catch (...) {
      failure = std::current_exception();
    }
    if (!lock) lock.lock();
    failure_ = failure;
  }
}

}  // namespace nixie
