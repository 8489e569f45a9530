// A line of JSON each way. The peer makes a group of its own, so that its own children end with it.
#include "nixie/apps/benchmark/measure/peer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/core/base/error.h"

namespace nixie::benchmark {

PeerProcess::PeerProcess(const std::string& python, const std::filesystem::path& script, bool on_cpu, double seconds)
    : name_(script.stem().string().substr(0, script.stem().string().find('_'))),
      complaints_(std::filesystem::temp_directory_path() / fmt::format("nixie-peer-{}-{}", ::getpid(), name_)),
      seconds_left_(seconds),
      seconds_given_(seconds),
      child_(start_child(script.string(), [&](int in, int out) {
        const int complaints = ::open(complaints_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        ::setpgid(0, 0);
        if (on_cpu) {
          ::setenv("PEER_DEVICE", "cpu", 1);
          ::setenv("JAX_PLATFORMS", "cpu", 1);
        }
        become_program({python, script.string(), "--serve"}, in, out, complaints);
      })) {}

std::unique_ptr<PeerProcess> PeerProcess::start(const PeerOptions& options, const char* script, bool on_cpu) {
  const std::filesystem::path file = options.peers / script;
  if (!std::filesystem::exists(file)) fail(Fault::usage, file.string(), " is not there; name its folder with --peers");
  return std::make_unique<PeerProcess>(options.python, file, on_cpu, options.seconds);
}

void PeerProcess::tell_program() const { tell("{}: {}{}\n", name_, works() ? "" : "left out: ", program()); }

void PeerProcess::wait_until_ready() {
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
  constexpr auto kLongestEnd = std::chrono::seconds(5);
  ::close(child_.to);
  ::close(child_.from);
  const auto start = Clock::now();
  for (int status; ::waitpid(child_.id, &status, WNOHANG) == 0;) {
    if (Clock::now() - start > kLongestEnd) end_at_once();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::error_code ignored;
  std::filesystem::remove(complaints_, ignored);
}

std::vector<std::string> PeerProcess::engines(const std::string& precision) const {
  return engines_.is_object() ? engines_.value(precision, std::vector<std::string>{}) : std::vector<std::string>{};
}

nlohmann::json PeerProcess::ask(const nlohmann::json& request) {
  const auto start = Clock::now();
  send(request);
  nlohmann::json answer = receive();
  answer["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  return answer;
}

void PeerProcess::send(const nlohmann::json& request) { child_.send(request.dump() + "\n"); }

nlohmann::json PeerProcess::receive() {
  const auto answer = is_late_ ? std::nullopt : read_line();
  if (!answer) return {{"error", last_complaint()}};
  return nlohmann::json::parse(*answer);
}

std::optional<std::string> PeerProcess::read_line() {
  for (std::size_t end; (end = unread_.find('\n')) == std::string::npos;) {
    if (!wait_for_input()) return std::nullopt;
    char buffer[4096];
    const ssize_t got = ::read(child_.from, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t end = unread_.find('\n');
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

/// Takes what it waits from the peer's time; false, and the peer is ended, when nothing is left of it.
bool PeerProcess::wait_for_input() {
  const auto start = Clock::now();
  pollfd wanted{.fd = child_.from, .events = POLLIN, .revents = 0};
  const int found = ::poll(&wanted, 1, static_cast<int>(std::max(0.0, 1e3 * seconds_left_)));
  seconds_left_ -= std::chrono::duration<double>(Clock::now() - start).count();
  if (found > 0 || (found < 0 && errno == EINTR)) return true;
  is_late_ = true;
  end_at_once();
  return false;
}

void PeerProcess::end_at_once() {
  ::kill(-child_.id, SIGKILL);  // the group it made,
  ::kill(child_.id, SIGKILL);   // or the child before it made one
}

std::string PeerProcess::last_complaint() const {
  if (is_late_) return fmt::format("its {:.0f} s are spent", seconds_given_);
  std::ifstream file(complaints_);
  std::string last = "it ended without a word";
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  return last;
}

}  // namespace nixie::benchmark
