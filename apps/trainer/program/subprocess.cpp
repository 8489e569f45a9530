// Forks; the child answers through a pipe: its fault's number (0: none), then its text.
#include "nixie/apps/trainer/program/subprocess.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>

#include "nixie/apps/trainer/program/signals.h"
#include "nixie/core/base/error.h"

namespace nixie {
namespace {

struct Answer {
  int fault = 0;
  std::string text = {};
};

Answer answer_of(const std::function<std::string()>& work) {
  try {
    return {.text = work()};
  } catch (const Error& error) {
    return {error.exit_code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(Fault::memory), "out of memory; take a smaller batch"};
  } catch (const std::exception& error) {
    return {static_cast<int>(Fault::usage), error.what()};
  }
}

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return;  // the parent is gone, or sees an answer without an end
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
}

/// All up to the end; nothing where a signal asks to end before it.
std::optional<std::string> read_all(int file) {
  constexpr int kPauseMs = 50;
  std::string text;
  char buffer[4096];
  while (!stop_is_requested()) {
    pollfd end{.fd = file, .events = POLLIN, .revents = 0};
    if (::poll(&end, 1, kPauseMs) < 1) continue;
    const ssize_t got = ::read(file, buffer, sizeof(buffer));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

/// For a child: it ends with its parent, also where that has ended by now.
void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
}

}  // namespace

std::string run_apart(const std::string& what, const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) fail(Fault::memory, what, ": cannot make a pipe to a child process: ", std::strerror(errno));
  std::fflush(nullptr);  // else the child would print it again
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail(Fault::memory, what, ": cannot start a child process: ", std::strerror(errno));
  if (child == 0) {
    end_with_parent(parent);
    ::close(ends[0]);
    const Answer answer = answer_of(work);
    write_all(ends[1], static_cast<char>('0' + answer.fault) + answer.text);
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::optional<std::string> read = read_all(ends[0]);
  ::close(ends[0]);
  if (!read) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!read) throw Interrupted(what + ": ended by a signal");
  if (WIFSIGNALED(status))
    fail(Fault::memory, what, ": the process was killed by signal ", WTERMSIG(status), "; take a smaller batch");
  check(!read->empty(), what, ": the process ended without an answer");
  if (read->front() != '0') fail(static_cast<Fault>(read->front() - '0'), what, ": ", read->substr(1));
  return read->substr(1);
}

std::int64_t peak_memory_bytes() {
  std::ifstream file("/proc/self/status");  // not getrusage, whose maximum a program inherits from its starter
  for (std::string line; std::getline(file, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  fail(Fault::usage, "/proc/self/status does not report the peak memory; the benchmark needs Linux");
}

}  // namespace nixie
