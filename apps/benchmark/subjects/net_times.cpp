// Times fprop and fprop with bprop in turn, checks both, then times training steps.
#include "nixie/apps/benchmark/subjects/net_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>

namespace nixie::benchmark {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RoleError, error, share, layer, contractions)

namespace {

constexpr int kFirstSteps = 8;  // in which the loss falls

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

/// The times and the rates that follow from them.
void set_times(nlohmann::json& row, const Times& times, const FlopCount& flop, double ceiling_tflops) {
  const Timing total = summarize(times.total), train = summarize(times.train);
  const double executed = flop.executed / total.median / 1e9;
  row.update({{"fprop_ms", summarize(times.fprop)},
              {"bprop_ms", summarize(times.bprop)},
              {"total_ms", total},
              {"train_ms", train},
              {"images_per_second", row["batch"].get<double>() / train.median * 1e3},
              {"counted_tflops", flop.counted() / total.median / 1e9},
              {"executed_tflops", executed},
              {"percent_of_ceiling", 100 * executed / ceiling_tflops}});
  if (!times.train_dynamic.empty()) row["train_dynamic_ms"] = summarize(times.train_dynamic);
}

nlohmann::json json_of(const NetCheck& check) {
  return {{"fprop", check.fprop},       {"bprop", check.input_grad},   {"update", check.filter_grad},
          {"distance", check.distance}, {"distance_of", check.result}, {"distance_bound", check.distance_bound}};
}

void check_training(double first, double lowest, double last) {
  if (!std::isfinite(last)) fail(Fault::non_finite, "the loss of a timed training step is ", last);
  // Not the last: momentum takes some nets past a minimum and back.
  if (!(lowest < first))
    fail(Fault::non_finite, "the loss never fell below its first value, ", first, ", in ", kFirstSteps,
         " steps on one batch, so the steps that were timed do not train");
}

}  // namespace

nlohmann::json time_net(Backend& backend, const Net& net, int batch, const PrecisionTraits& precision, int runs,
                        double ceiling_tflops, const std::function<void(const nlohmann::json&)>& between) {
  Scope scope(net.name, precision.name);
  NetWork work(backend, net, batch, precision);
  const FlopCount flop = count_flop(contractions_of_net(net, batch));
  Times times;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const auto loss = [&] { return static_cast<double>(work.train().at("loss").item()); };
  keep_finite(work);
  time_passes(backend, work, runs, times);
  const double passes_seconds = seconds();
  const NetCheck check = check_net(work, precision);
  const double check_seconds = seconds() - passes_seconds, first_loss = loss();
  double lowest_loss = first_loss;
  for (int i = 0; i < kFirstSteps; ++i) lowest_loss = std::min(lowest_loss, loss());
  time_training(backend, work, runs, times);
  const double last_loss = loss();
  check_training(first_loss, lowest_loss, last_loss);
  nlohmann::json row{{"net", net.name},
                     {"precision", precision.name},
                     {"dtype", precision.nervana_dtype},
                     {"backend", backend.name()},
                     {"batch", batch},
                     {"parameters", work.parameters()},
                     {"train_mb", static_cast<double>(work.train_bytes()) / 1e6},
                     {"fprop_gflop", flop.fprop / 1e9},
                     {"counted_gflop", flop.counted() / 1e9},
                     {"executed_gflop", flop.executed / 1e9},
                     {"ceiling_tflops", ceiling_tflops},
                     {"output_gradient", work.output_gradient()},
                     {"check", json_of(check)},
                     {"first_loss", first_loss},
                     {"lowest_loss", lowest_loss},
                     {"last_loss", last_loss},
                     {"timing_seconds", seconds() - check_seconds},
                     {"check_seconds", check_seconds}};
  set_times(row, times, flop, ceiling_tflops);
  if (!between) return row;
  between(row);
  time_passes(backend, work, runs, times);
  time_training(backend, work, runs, times);
  set_times(row, times, flop, ceiling_tflops);
  return row;
}

std::string nervana_text(const nlohmann::json& row) {
  std::string name = row["net"];
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  std::string text =
      fmt::format("{} (dtype={}, N={}) Results:\n", name, row["dtype"].get<std::string>(), row["batch"].get<int>());
  const auto line = [&](const std::string& pass, double passes) {
    const Timing timing = row[pass + "_ms"];
    text += fmt::format("Avg({}) {:<6} {:8.3f} msecs {:.3f} gflops\n", timing.runs, pass + ":", timing.mean,
                        1e3 * passes * row["fprop_gflop"].get<double>() / timing.mean);
  };
  line("fprop", 1);
  line("bprop", 2);
  line("total", 3);
  if (const double gradient = row["output_gradient"]; gradient < 1)
    text += fmt::format("(output gradients below {:g}: beyond that a sum over all positions is infinite)\n", gradient);
  return text + fmt::format("(compiled and timed in {:.1f} s, checked in {:.1f} s)\n",
                            row["timing_seconds"].get<double>(), row["check_seconds"].get<double>());
}

const Columns kNetColumns{{"net", -12, "net"},
                          {"precision", -9, "precision"},
                          {"batch", 5, "batch"},
                          {"fprop ms (min - max)", 27, "fprop_ms", "{:.3f} ({:.3f} - {:.3f})"},
                          {"bprop ms (min - max)", 27, "bprop_ms", "{:.3f} ({:.3f} - {:.3f})"},
                          {"total ms (min - max)", 27, "total_ms", "{:.3f} ({:.3f} - {:.3f})"},
                          {"TFLOP/s", 8, "counted_tflops", "{:.2f}"},
                          {"executed", 8, "executed_tflops", "{:.2f}"},
                          {"% peak", 6, "percent_of_ceiling", "{:.1f}"},
                          {"training step ms", 27, "train_ms", "{:.3f} ({:.3f} - {:.3f})"},
                          {"dynamic", 9, "train_dynamic_ms", "{:.3f}"},
                          {"err fprop", 9, "check.fprop.error", "{:.1e}"},
                          {"err bprop", 9, "check.bprop.error", "{:.1e}"},
                          {"err updat", 9, "check.update.error", "{:.1e}"},
                          {"vs check", 9, "check.distance", "{:.1e}"}};

}  // namespace nixie::benchmark
