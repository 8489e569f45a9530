// Two pipes and a child.
#include "apps/benchmark/peer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "core/error.h"

namespace nixie::benchmark {

PeerProcess::PeerProcess(const std::string& python, const std::filesystem::path& script, bool on_cpu)
    : name_(script.stem().string().substr(0, script.stem().string().find('_'))),
      complaints_(std::filesystem::temp_directory_path() / fmt::format("nixie-peer-{}-{}", ::getpid(), name_)) {
  int down[2], up[2];
  if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0) fail(Fault::memory, "no pipe to ", script.string());
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has ended is noticed where it is read
  std::fflush(nullptr);
  child_ = ::fork();
  if (child_ < 0) fail(Fault::memory, "no process for ", script.string());
  if (child_ == 0) {
    std::FILE* complaints = std::fopen(complaints_.c_str(), "w");
    if (!complaints || ::dup2(down[0], 0) < 0 || ::dup2(up[1], 1) < 0 || ::dup2(::fileno(complaints), 2) < 0)
      ::_exit(1);
    if (on_cpu) {
      ::setenv("PEER_DEVICE", "cpu", 1);
      ::setenv("JAX_PLATFORMS", "cpu", 1);
    }
    ::execlp(python.c_str(), python.c_str(), script.c_str(), "--serve", nullptr);
    std::fprintf(stderr, "%s cannot be started\n", python.c_str());
    ::_exit(127);
  }
  ::close(down[0]);
  ::close(up[1]);
  to_ = down[1];
  from_ = up[0];
  const auto hello = read_line();
  if (!hello) {
    error_ = last_complaint();
    return;
  }
  const auto content = nlohmann::json::parse(*hello);
  program_ = content.at("program");
  engines_ = content.at("engines");
}

PeerProcess::~PeerProcess() {
  ::close(to_);
  ::close(from_);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::error_code ignored;
  std::filesystem::remove(complaints_, ignored);
}

std::vector<std::string> PeerProcess::engines(const std::string& precision) const {
  return engines_.is_object() ? engines_.value(precision, std::vector<std::string>{}) : std::vector<std::string>{};
}

nlohmann::json PeerProcess::ask(const nlohmann::json& request) {
  const std::string text = request.dump() + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(to_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return {{"error", last_complaint()}};
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
  const auto answer = read_line();
  if (!answer) return {{"error", last_complaint()}};
  return nlohmann::json::parse(*answer);
}

std::optional<std::string> PeerProcess::read_line() {
  for (std::size_t end; (end = unread_.find('\n')) == std::string::npos;) {
    char buffer[4096];
    const ssize_t got = ::read(from_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t end = unread_.find('\n');
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

std::string PeerProcess::last_complaint() const {
  std::ifstream file(complaints_);
  std::string last = "it ended without a word";
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  return last;
}

}  // namespace nixie::benchmark
