// start_threads: starts named threads, or throws an error that names the thread the system refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nixie/core/base/error.h"

namespace nixie {

/// The system starts no more threads. Fault::memory, but a smaller batch is no remedy.
class NoThread final : public Error {
 public:
  explicit NoThread(std::string line) : Error(Fault::memory, std::move(line)) {}
};

/// Appends `count` threads to `threads`, each named `OWNER N` (15 bytes at most) and running `work`. Throws
/// NoThread if the system starts no more; the caller must end those that were started.
void start_threads(std::vector<std::jthread>& threads, const std::string& owner, int count,
                   const std::function<void(const std::stop_token&)>& work);

/// Calls `work` for every index in [0, count) on as many threads as there are cores, and waits. Throws the exception of
/// the lowest index that threw; indices after an error may be skipped.
void share_out(const std::string& owner, std::int64_t count, const std::function<void(std::int64_t)>& work);

}  // namespace nixie
