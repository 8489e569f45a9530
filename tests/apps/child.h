// The trainer in a process of its own, to be sent signals.
#pragma once

#include "nixie/tests/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nixie::test {

class Child {
 public:
  /// Runs the trainer with more variables in its environment; it prints to `log`, or nowhere.
  explicit Child(const std::vector<std::string>& arguments, const std::string& log = "/dev/null",
                 const std::map<std::string, std::string>& environment = {}) {
    std::vector<std::string> words = {std::string(NIXIE_BINARY_DIR) + "/trainer"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::fflush(stdout);  // or the child prints it, too
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (!std::freopen(log.c_str(), "w", stdout) || ::dup2(1, 2) < 0) ::_exit(1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ > 0) send(SIGKILL), wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }
  /// The wait status.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
};

/// The exit code; 128 + the signal that killed it.
inline int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Waits until the condition holds, for a minute at most.
inline bool wait_for(const std::function<bool()>& condition) {
  for (int wait = 0; wait < 6000; ++wait) {
    if (condition()) return true;
    sleep_ms(10);
  }
  return false;
}

}  // namespace nixie::test
