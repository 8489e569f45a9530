// `benchmark nets`: nervanagpu's table of convnet-benchmarks' nets, every row checked; `trainer benchmark` prints the
// same table for a configuration.
#pragma once

#include <filesystem>

#include "nixie/apps/benchmark/checks/check_net.h"
#include "nixie/apps/trainer/profile/timing.h"

namespace nixie::benchmark {

struct NetsCommand {
  std::vector<std::string> nets = {};         ///< of conv_nets(); empty: alexnet, overfeat and vgg_a
  std::vector<std::string> precisions = {};   ///< empty: the configuration's, or fp16 and fp32 on a GPU, fp32 on a CPU
  std::filesystem::path config = {};          ///< this configuration's net in place of the list
  std::vector<std::string> assignments = {};  ///< of --set
  bool nervana = false;
  bool bytes = false;  ///< images are stored as bytes
  std::string backend = "auto";
  int threads = 0;  ///< of the CPU, 0 = all
  int batch = 0;    ///< 0 = each net's own
  int runs = 10;
  std::filesystem::path json = {}, csv = {}, plot = {};  ///< empty: not written
};

/// A row of the table. bprop is total - fprop, run by run.
struct NetRow {
  std::string net = {}, precision = {}, dtype = {}, backend = {};
  int batch = 0;
  std::int64_t parameters = 0, train_bytes = 0;
  Timing fprop = {}, bprop = {}, total = {}, train = {};
  Timing train_dynamic = {};  ///< with a dynamic loss scale; no runs if there is none
  FlopCount flop = {};
  double ceiling_tflops = 0;
  NetCheck check = {};
  double first_loss = 0, lowest_loss = 0;        ///< of the first step, and of the few after it
  double last_loss = 0;                          ///< of the step after the timed ones
  double timing_seconds = 0, check_seconds = 0;  ///< time spent on the row
  double counted_tflops() const { return flop.counted() / total.median / 1e9; }
  double executed_tflops() const { return flop.executed / total.median / 1e9; }
};

/// The command's backend, or the configuration's if there is one.
std::shared_ptr<Backend> open_backend_of(const NetsCommand& command);

/// The command's nets. Throws a usage Error for nets that this build cannot run.
std::vector<Net> wanted_nets(const NetsCommand& command);
std::vector<PrecisionTraits> wanted_precisions(const NetsCommand& command, const Backend& backend);
int batch_of(const NetsCommand& command, const Net& net, const Backend& backend);

/// Times and checks one net. `between`, if given, is called when the row is complete; then everything is
/// timed once more, and the row's figures are over the runs of both times. Throws Error: Fault::non_finite if a
/// result is wrong, or training does not lower the loss.
NetRow time_net(Backend& backend, const Net& net, int batch, const PrecisionTraits& precision, int runs,
                double ceiling_tflops, const std::function<void(const NetRow&)>& between = {});

/// The row in nervanagpu's format, with the figures that this lacks.
std::string nervana_text(const NetRow& row);
std::string nets_header();
std::string nets_line(const NetRow& row);

/// Prints the table and writes the files. Throws Error.
std::vector<NetRow> run_nets(const NetsCommand& command);

}  // namespace nixie::benchmark
