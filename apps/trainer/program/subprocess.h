// Processes that end with this one: work in a child whose memory is its own, and programs that answer through pipes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nixie {

/// A child process, and the ends of a pipe to it and of one from it.
struct Child {
  pid_t id = -1;
  int to = -1, from = -1;

  /// Sends all of the text, unless the child has ended, which is noticed where its answer is read.
  void send(const std::string& text) const;
  /// Closes the pipes, waits for its end and gives waitpid's status.
  int wait() const;
};

/// Calls `work`, with the child's ends of the pipes, in a process that whatever ends this one ends, too. Throws
/// Fault::memory, naming `what`, where there can be none.
Child start_child(const std::string& what, const std::function<void(int in, int out)>& work);

/// The exit code of a child that could not become its program.
inline constexpr int kNotStarted = 127;
/// For a child: the program `words[0]` takes its place, with the other words as arguments.
[[noreturn]] void become_program(std::vector<std::string> words, int in, int out, int complaints);

/// Calls `work` in a child process and returns its result, or throws its exception. Throws Fault::memory,
/// naming `what`, if the child was killed; a signal that asks to end (listen_to_signals) has Interrupted thrown. The
/// caller must not have opened a backend: threads and devices do not survive a fork.
std::string run_apart(const std::string& what, const std::function<std::string()>& work);

/// The peak resident memory of this process, in bytes.
std::int64_t peak_memory_bytes();

}  // namespace nixie
