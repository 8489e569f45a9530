// start_threads: threads with a name, or an error that says which one the system refused.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace nixie {

/// Appends `count` threads to `threads`, each named `OWNER N` (15 bytes at most) and running `work`. Throws
/// Fault::memory where the system starts no more; those already started then run on and are the caller's to end.
void start_threads(std::vector<std::jthread>& threads, const std::string& owner, int count,
                   const std::function<void(const std::stop_token&)>& work);

}  // namespace nixie
