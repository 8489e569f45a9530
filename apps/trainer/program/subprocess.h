// Runs work in a child process, so that its memory is its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace nixie {

/// Calls `work` in a child process and returns its result, or throws its exception. Throws Fault::memory,
/// naming `what`, if the child was killed. Whatever ends this process ends the child; a signal that asks to end
/// (listen_to_signals) has Interrupted thrown. The caller must not have opened a backend: threads and devices do not
/// survive a fork.
std::string run_apart(const std::string& what, const std::function<std::string()>& work);

/// The peak resident memory of this process, in bytes.
std::int64_t peak_memory_bytes();

}  // namespace nixie
