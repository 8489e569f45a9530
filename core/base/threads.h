// start_threads: threads with a name, or an error that says which one the system refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace nixie {

/// Appends `count` threads to `threads`, each named `OWNER N` (15 bytes at most) and running `work`. Throws
/// Fault::memory where the system starts no more; those already started then run on and are the caller's to end.
void start_threads(std::vector<std::jthread>& threads, const std::string& owner, int count,
                   const std::function<void(const std::stop_token&)>& work);

/// Calls `work` for every index in [0, count), shared out to as many threads as there are cores, and waits. Throws what
/// the lowest index threw; indices after an error may be left out.
void share_out(const std::string& owner, std::int64_t count, const std::function<void(std::int64_t)>& work);

}  // namespace nixie
