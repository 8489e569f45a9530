// Forks; the child answers through a pipe: its fault's number (0: none), then its text.
#include "nixie/apps/trainer/program/subprocess.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>

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

std::string read_all(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(file, buffer, sizeof(buffer))) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

std::string run_apart(const std::string& what, const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) fail(Fault::memory, what, ": cannot make a pipe to a child process: ", std::strerror(errno));
  std::fflush(nullptr);  // else the child would print it again
  const pid_t child = ::fork();
  if (child < 0) fail(Fault::memory, what, ": cannot start a child process: ", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    const Answer answer = answer_of(work);
    write_all(ends[1], static_cast<char>('0' + answer.fault) + answer.text);
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string answer = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    fail(Fault::memory, what, ": the process was killed by signal ", WTERMSIG(status), "; take a smaller batch");
  check(!answer.empty(), what, ": the process ended without an answer");
  if (answer[0] != '0') fail(static_cast<Fault>(answer[0] - '0'), what, ": ", answer.substr(1));
  return answer.substr(1);
}

std::int64_t peak_memory_bytes() {
  std::ifstream file("/proc/self/status");  // not getrusage, whose maximum a program inherits from its starter
  for (std::string line; std::getline(file, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  fail(Fault::usage, "/proc/self/status does not report the peak memory; the benchmark needs Linux");
}

}  // namespace nixie
