// start_threads, by std::jthread.
#include "nixie/core/base/threads.h"

#include <pthread.h>

#include <system_error>

#include "nixie/core/base/error.h"

namespace nixie {

void start_threads(std::vector<std::jthread>& threads, const std::string& owner, int count,
                   const std::function<void(const std::stop_token&)>& work) {
  for (int i = 0; i < count; ++i) try {
      threads.emplace_back([work](const std::stop_token& stop) { work(stop); });
      constexpr std::size_t kLongest = 15;
      ::pthread_setname_np(threads.back().native_handle(),
                           (owner + " " + std::to_string(i)).substr(0, kLongest).c_str());
    } catch (const std::system_error& error) {
      fail(Fault::memory, owner, ": thread ", i + 1, " of ", count, " cannot be started: ", error.code().message(),
           "; ask for fewer threads, or raise the limits (ulimit -u, ulimit -v)");
    }
}

}  // namespace nixie
