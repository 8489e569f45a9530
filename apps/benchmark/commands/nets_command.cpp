// Times fprop and fprop with bprop in turn, checks both, then times training steps.
#include "nixie/apps/benchmark/commands/nets_command.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/report/row_by_row.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/profile/ceiling.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/registry.h"

namespace nixie::benchmark {
namespace {

std::string capitalized(std::string name) {
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

/// Milliseconds of each piece of work, run by run.
struct Times {
  std::vector<double> fprop = {}, bprop = {}, total = {}, train = {}, train_dynamic = {};
};

void add(std::vector<double>& times, const std::vector<double>& more) {
  times.insert(times.end(), more.begin(), more.end());
}

void time_passes(Backend& backend, NetWork& work, int runs, Times& times) {
  warm_up(backend, [&] { work.fprop(); });
  warm_up(backend, [&] { work.total(); });
  const auto pair = time_in_turn(backend, {[&] { work.fprop(); }, [&] { work.total(); }}, runs);
  add(times.fprop, pair[0]);
  add(times.total, pair[1]);
  for (std::size_t i = 0; i < pair[0].size(); ++i) times.bprop.push_back(pair[1][i] - pair[0][i]);
}

void time_training(Backend& backend, NetWork& work, int runs, Times& times) {
  warm_up(backend, [&] { work.train(); });
  add(times.train, time_in_turn(backend, {[&] { work.train(); }}, runs)[0]);
  if (!work.has_dynamic()) return;
  warm_up(backend, [&] { work.train_dynamic(); });
  add(times.train_dynamic, time_in_turn(backend, {[&] { work.train_dynamic(); }}, runs)[0]);
}

void summarize_into(NetRow& row, const Times& times) {
  row.fprop = summarize(times.fprop);
  row.bprop = summarize(times.bprop);
  row.total = summarize(times.total);
  row.train = summarize(times.train);
  if (!times.train_dynamic.empty()) row.train_dynamic = summarize(times.train_dynamic);
}

constexpr int kFirstSteps = 8;  // in which the loss falls

void check_training(const NetRow& row) {
  if (!std::isfinite(row.last_loss)) fail(Fault::non_finite, "the loss of a timed training step is ", row.last_loss);
  // Not the last: momentum takes some nets past a minimum and back.
  if (!(row.lowest_loss < row.first_loss))
    fail(Fault::non_finite, "the loss never fell below its first value, ", row.first_loss, ", in ", kFirstSteps,
         " steps on one batch, so the steps that were timed do not train");
}

}  // namespace

std::shared_ptr<Backend> open_backend_of(const NetsCommand& command) {
  if (command.config.empty() || command.backend != "auto") return make_backend(command.backend, command.threads);
  const TrainConfig config = load_config(command.config, command.assignments);
  return make_backend(config.backend, command.threads > 0 ? command.threads : config.threads);
}

std::vector<Net> wanted_nets(const NetsCommand& command) {
  const auto stored = [&](Net net) {
    if (command.bytes) net.bytes = true, net.name += " of bytes";
    return net;
  };
  if (!command.config.empty())
    return {stored(config_net(load_config(command.config, command.assignments), command.config.stem()))};
  const std::vector<std::string> names =
      command.nets.empty() ? std::vector<std::string>{"alexnet", "overfeat", "vgg_a"} : command.nets;
  std::vector<Net> nets;
  for (const Net& net : conv_nets(command.nervana))
    if (std::count(names.begin(), names.end(), net.name)) nets.push_back(stored(net));
  if (nets.size() < names.size() && command.nervana)
    fail(Fault::usage, "--nervana has variants of alexnet, overfeat, vgg_a, vgg_e and googlenet only; leave out the ",
         "other nets");
  return nets;
}

std::vector<PrecisionTraits> wanted_precisions(const NetsCommand& command, const Backend& backend) {
  std::vector<std::string> names = command.precisions;
  if (names.empty() && !command.config.empty()) names = {load_config(command.config, command.assignments).precision};
  if (names.empty())
    names = backend.name() == "cpu" ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp16", "fp32"};
  std::vector<PrecisionTraits> precisions;
  for (const std::string& name : names) precisions.push_back(precision_named(name));
  return precisions;
}

int batch_of(const NetsCommand& command, const Net& net, const Backend& backend) {
  return command.batch > 0 ? command.batch : backend.name() == "cpu" ? net.cpu_batch : net.batch;
}

NetRow time_net(Backend& backend, const Net& net, int batch, const PrecisionTraits& precision, int runs,
                double ceiling_tflops, const std::function<void(const NetRow&)>& between) {
  Scope scope(net.name, precision.name);
  NetWork work(backend, net, batch, precision);
  NetRow row{.net = net.name,
             .precision = precision.name,
             .dtype = precision.nervana_dtype,
             .backend = backend.name(),
             .batch = batch,
             .parameters = work.parameters(),
             .flop = count_flop(contractions_of_net(net, batch)),
             .ceiling_tflops = ceiling_tflops};
  Times times;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  time_passes(backend, work, runs, times);
  row.timing_seconds = seconds();
  row.check = check_net(work, precision);
  row.check_seconds = seconds() - row.timing_seconds;
  row.first_loss = row.lowest_loss = work.train().at("loss").item();
  for (int i = 0; i < kFirstSteps; ++i)
    row.lowest_loss = std::min(row.lowest_loss, static_cast<double>(work.train().at("loss").item()));
  time_training(backend, work, runs, times);
  row.last_loss = work.train().at("loss").item();
  row.train_bytes = work.train_bytes();
  row.timing_seconds = seconds() - row.check_seconds;
  check_training(row);
  summarize_into(row, times);
  if (!between) return row;
  between(row);
  time_passes(backend, work, runs, times);
  time_training(backend, work, runs, times);
  summarize_into(row, times);
  return row;
}

std::string nervana_text(const NetRow& row) {
  std::string text = fmt::format("{} (dtype={}, N={}) Results:\n", capitalized(row.net), row.dtype, row.batch);
  const auto line = [&](const char* name, const Timing& timing, double flop) {
    text += fmt::format("Avg({}) {:<6} {:8.3f} msecs {:.3f} gflops\n", timing.runs, std::string(name) + ":",
                        timing.mean, flop / timing.mean / 1e6);
  };
  line("fprop", row.fprop, row.flop.fprop);
  line("bprop", row.bprop, 2 * row.flop.fprop);
  line("total", row.total, row.flop.counted());
  return text +
         fmt::format("(compiled and timed in {:.1f} s, checked in {:.1f} s)\n", row.timing_seconds, row.check_seconds);
}

std::string nets_header() {
  return fmt::format(
      "{:<10} {:<9} {:>5} | {:^27} | {:^27} | {:^27} | {:>7} {:>8} {:>6} | {:^27} {:>9} | {:>9} {:>9} {:>9} {:>9}\n",
      "net", "precision", "batch", "fprop ms (min - max)", "bprop ms (min - max)", "total ms (min - max)", "TFLOP/s",
      "executed", "% peak", "training step ms", "dynamic", "err fprop", "err bprop", "err updat", "vs check");
}

std::string nets_line(const NetRow& row) {
  const auto cell = [](const Timing& t) { return fmt::format("{:9.3f} ({:.3f} - {:.3f})", t.median, t.min, t.max); };
  return fmt::format(
      "{:<10} {:<9} {:>5} | {:>27} | {:>27} | {:>27} | {:>7.2f} {:>8.2f} {:>6.1f} | {:>27} {:>9} | {:>9.1e} {:>9.1e} "
      "{:>9.1e} "
      "{:>9.1e}\n",
      row.net, row.precision, row.batch, cell(row.fprop), cell(row.bprop), cell(row.total), row.counted_tflops(),
      row.executed_tflops(), 100 * row.executed_tflops() / row.ceiling_tflops, cell(row.train),
      row.train_dynamic.runs > 0 ? fmt::format("{:.3f}", row.train_dynamic.median) : "", row.check.fprop.error,
      row.check.input_grad.error, row.check.filter_grad.error, row.check.distance);
}

std::vector<NetRow> run_nets(const NetsCommand& command) {
  Report report(command.config.empty() ? "nets" : command.config.string(), command.json, command.csv);
  check_writable(command.plot);
  const std::vector<Net> nets = wanted_nets(command);
  const std::shared_ptr<Backend> backend = open_backend_of(command);
  const std::vector<PrecisionTraits> precisions = wanted_precisions(command, *backend);
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  tell("{}", facts_text(report.content()));
  std::vector<NetRow> rows;
  RowByRow each;
  for (const PrecisionTraits& precision : precisions) {
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    tell("\n{}: the fastest matrix product of this device runs at {:.2f} TFLOP/s\n", precision.name, ceiling);
    for (const Net& net : nets)
      each.make([&] {
        rows.push_back(time_net(*backend, net, batch_of(command, net, *backend), precision, command.runs, ceiling));
        report.add_row(rows.back());
        tell("{}", nervana_text(rows.back()));
        std::fflush(stdout);
      });
  }
  tell("\n{}", nets_header());
  for (const NetRow& row : rows) tell("{}", nets_line(row));
  report.set("clocks_after", device_facts(*backend, ""));
  report.write();
  write_file(command.plot, nets_chart(report.content()));
  each.raise();
  return rows;
}

}  // namespace nixie::benchmark
