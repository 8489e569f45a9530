// The script is an argument of python3 -c, the table its standard input.
#include "nixie/apps/benchmark/report/render.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "nixie/apps/trainer/program/subprocess.h"
#include "nixie/core/base/error.h"

#include <benchmark_render.h>

namespace nixie::benchmark {
namespace {

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
  std::vector<std::string> words{"python3", "-c", kRenderScript};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Child child = start_child("python3", [&](int in, int out) { become_program(words, in, out, out); });
  child.send(table);
  ::close(std::exchange(child.to, -1));
  const std::string text = read_all(child.from);
  const int status = child.wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    fail(Fault::usage,
         "python3 cannot be started, which makes charts, pages and the summary of a sweep; install it, or go without: "
         "no --plot, a sweep with --alone");
  if (status != 0) fail(Fault::usage, last_line(text));
  return text;
}

void check_renderer() { rendered({"--help"}, ""); }

std::string chart_of(const std::string& table) { return rendered({"-", "--plot", "-"}, table); }

}  // namespace nixie::benchmark
