// PeerProcess: a program in another framework that times a net when asked (apps/peers/peer.py says how they talk).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nixie::benchmark {

class PeerProcess {
 public:
  /// Starts `python SCRIPT --serve`, on the CPU where `on_cpu`. Waits until it is ready or has ended; `works` says
  /// which.
  PeerProcess(const std::string& python, const std::filesystem::path& script, bool on_cpu);
  /// Closes its input, which ends it, and waits.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  bool works() const { return !program_.empty(); }
  /// `PyTorch 2.11.0, cuDNN ..., NVIDIA H200`; of one that does not work the last line it printed.
  const std::string& program() const { return works() ? program_ : error_; }
  /// `torch`: the script's name up to the first underscore.
  const std::string& name() const { return name_; }
  /// How it can run a net in this precision.
  std::vector<std::string> engines(const std::string& precision) const;
  /// Sends one object and waits for the answer; {"error": ...} where it ended instead.
  nlohmann::json ask(const nlohmann::json& request);

 private:
  std::optional<std::string> read_line();
  std::string last_complaint() const;

  std::string name_, program_, error_;
  nlohmann::json engines_;
  std::filesystem::path complaints_;  // its stderr
  int to_ = -1, from_ = -1, child_ = -1;
  std::string unread_;
};

}  // namespace nixie::benchmark
