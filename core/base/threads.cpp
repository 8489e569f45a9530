// start_threads, by std::jthread.
#include "nixie/core/base/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>

namespace nixie {

void start_threads(std::vector<std::jthread>& threads, const std::string& owner, int count,
                   const std::function<void(const std::stop_token&)>& work) {
  for (int i = 0; i < count; ++i) try {
      threads.emplace_back([work](const std::stop_token& stop) { work(stop); });
      constexpr std::size_t kLongest = 15;
      ::pthread_setname_np(threads.back().native_handle(),
                           (owner + " " + std::to_string(i)).substr(0, kLongest).c_str());
    } catch (const std::system_error& error) {
      throw NoThread(line_of(
          Scope::prefix(), owner, ": thread ", i + 1, " of ", count, " cannot be started: ", error.code().message(),
          "; ask for fewer threads (threads, loader.threads), or raise the limits (ulimit -u, ulimit -v)"));
    }
}

void share_out(const std::string& owner, std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::int64_t failed = count;
  std::exception_ptr error;
  {
    std::vector<std::jthread> threads;
    const auto cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
    start_threads(threads, owner, static_cast<int>(std::min(count, cores)), [&](const std::stop_token&) {
      for (std::int64_t i = next++; i < count; i = next++) try {
          work(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (i < failed) failed = i, error = std::current_exception();
          next = count;
        }
    });
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace nixie
