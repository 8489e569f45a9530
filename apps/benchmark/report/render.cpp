// The script is an argument of python3 -c, the table its standard input.
#include "nixie/apps/benchmark/report/render.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "nixie/core/base/error.h"

#include <benchmark_render.h>

namespace nixie::benchmark {
namespace {

constexpr int kNotStarted = 127;

/// In the child: python3 reads `in`, and writes results and complaints to `out`.
[[noreturn]] void become_python(const std::vector<std::string>& arguments, int in, int out) {
  std::vector<std::string> words{"python3", "-c", kRenderScript};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> given;
  for (std::string& word : words) given.push_back(word.data());
  given.push_back(nullptr);
  if (::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0) ::execvp(given[0], given.data());
  ::_exit(kNotStarted);
}

void write_all(int to, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(to, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return;  // it has ended, and its exit code says why
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
}

std::string read_all(int from) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(from, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR);)
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

std::string last_line(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string rendered(const std::vector<std::string>& arguments, const std::string& table) {
  int down[2], up[2];
  if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0) fail(Fault::memory, "no pipe to python3");
  std::signal(SIGPIPE, SIG_IGN);
  const pid_t child = ::fork();
  if (child < 0) fail(Fault::memory, "no process for python3");
  if (child == 0) become_python(arguments, down[0], up[1]);
  ::close(down[0]);
  ::close(up[1]);
  write_all(down[1], table);
  ::close(down[1]);
  std::string text = read_all(up[0]);
  ::close(up[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    fail(Fault::usage,
         "python3 cannot be started, which makes charts, pages and the summary of a sweep; install it, or go without: "
         "no "
         "--plot, a sweep with --alone");
  if (status != 0) fail(Fault::usage, last_line(text));
  return text;
}

void check_renderer() { rendered({"--help"}, ""); }

std::string chart_of(const std::string& table) { return rendered({"-", "--plot", "-"}, table); }

}  // namespace nixie::benchmark
