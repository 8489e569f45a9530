// Forks; the child answers through a pipe: its fault's number (0: none), then its text.
#include "nixie/apps/trainer/program/subprocess.h"

#include <fcntl.h>
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

#include "nixie/apps/trainer/program/program.h"
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

}  // namespace

void Child::send(const std::string& text) const {
  std::signal(SIGPIPE, SIG_IGN);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(to, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
}

int Child::wait() const {
  ::close(to);
  ::close(from);
  int status = 0;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

Child start_child(const std::string& what, const std::function<void(int in, int out)>& work) {
  int down[2], up[2];
  if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0)
    fail(Fault::memory, what, ": cannot make a pipe to a child process: ", std::strerror(errno));
  std::fflush(nullptr);  // else the child would print it again
  const pid_t parent = ::getpid();
  const Child child{::fork(), down[1], up[0]};
  if (child.id < 0) fail(Fault::memory, what, ": cannot start a child process: ", std::strerror(errno));
  if (child.id == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);  // it has ended by now
    ::close(child.to);
    ::close(child.from);
    work(down[0], up[1]);
    ::_exit(0);
  }
  ::close(down[0]);
  ::close(up[1]);
  return child;
}

void become_program(std::vector<std::string> words, int in, int out, int complaints) {
  std::vector<char*> given;
  for (std::string& word : words) given.push_back(word.data());
  given.push_back(nullptr);
  if (::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(complaints, 2) >= 0) ::execvp(given[0], given.data());
  std::fprintf(stderr, "%s cannot be started\n", given[0]);
  ::_exit(kNotStarted);
}

std::string run_apart(const std::string& what, const std::function<std::string()>& work) {
  const Child child = start_child(what, [&](int, int out) {
    const Answer answer = answer_of(work);
    Child{.to = out}.send(static_cast<char>('0' + answer.fault) + answer.text);
  });
  const std::optional<std::string> read = read_all(child.from);
  if (!read) ::kill(child.id, SIGKILL);
  const int status = child.wait();
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
