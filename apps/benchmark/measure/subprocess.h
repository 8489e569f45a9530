// Work in a process of its own, so that its memory can be told from everybody else's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace nixie::benchmark {

/// Calls `work` in a child process and gives back what it returned; what it threw is thrown here. Throws Fault::memory,
/// naming `what`, where the child was killed. The caller must not have opened a backend: threads and devices do not
/// survive a fork.
std::string run_apart(const std::string& what, const std::function<std::string()>& work);

/// The most memory this process has had in RAM at once, in bytes.
std::int64_t peak_memory_bytes();

}  // namespace nixie::benchmark
