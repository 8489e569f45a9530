// PeerProcess: a program in another framework that times nets on request (protocol: apps/peers/peer.py).
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nixie/apps/trainer/program/subprocess.h"

namespace nixie::benchmark {

/// The peers' programs, and how long each may take for all its rows.
struct PeerOptions {
  std::filesystem::path peers = "apps/peers";  ///< their folder
  std::string python = "python3";
  double seconds = 600;
};

class PeerProcess {
 public:
  /// Starts `python SCRIPT --serve`, on the CPU if `on_cpu`. All waits for it add up to `seconds` at
  /// most; then it is ended.
  PeerProcess(const std::string& python, const std::filesystem::path& script, bool on_cpu, double seconds);
  /// Starts one of the options' programs. Throws a usage Error where there is none.
  static std::unique_ptr<PeerProcess> start(const PeerOptions& options, const char* script, bool on_cpu);
  /// Closes its input, which ends it, and waits.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Waits until it is ready or has ended; `works` says which.
  void wait_until_ready();
  bool works() const { return !program_.empty(); }
  /// `PyTorch 2.11.0, cuDNN ..., NVIDIA H200`; for a peer that does not work the last line it printed.
  const std::string& program() const { return works() ? program_ : error_; }
  /// Prints name and program.
  void tell_program() const;
  /// `torch`: the script's name up to the first underscore.
  const std::string& name() const { return name_; }
  /// The engines with which it can run a net in this precision.
  std::vector<std::string> engines(const std::string& precision) const;
  /// Sends one object and waits for the answer, whose `seconds` is the time it took; {"error": ...} if the
  /// peer ended or its time is over.
  nlohmann::json ask(const nlohmann::json& request);
  /// The two halves of `ask`, for several peers that work at the same time; every `send` is followed by a `receive`.
  void send(const nlohmann::json& request);
  nlohmann::json receive();

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<std::string> read_line();
  bool wait_for_input();
  void end_at_once();
  std::string last_complaint() const;

  std::string name_, program_, error_;
  nlohmann::json engines_;
  std::filesystem::path complaints_;  // its stderr
  double seconds_left_, seconds_given_;
  bool is_late_ = false;
  std::string unread_;
  Child child_;
};

}  // namespace nixie::benchmark
