// start_threads: starts named threads, or throws an error that names the thread the system refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace nixie {

/// Appends `count` threads to `threads`, each named `OWNER N` (15 bytes at most) and running `work`. Throws
/// Fault::memory if the system starts no more; the caller must end those that were started.
void start_threads(std::vector<std::jthread>& threads, const std::string& owner, int count,
                   const std::function<void(const std::stop_token&)>& work);

/// Calls `work` for every index in [0, count) on as many threads as there are cores, and waits. Throws the exception of
/// the lowest index that threw; indices after an error may be skipped.
void share_out(const std::string& owner, std::int64_t count, const std::function<void(std::int64_t)>& work);

}  // namespace nixie
