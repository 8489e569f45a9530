// Times each workload, on a GPU the quick ones on the CPU too, and says from which size on the GPU is faster.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/array_work.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/cpu/backend.h"

namespace nixie::benchmark {
namespace {

struct Arrays : Common {
  std::int64_t largest = 0;  ///< elements of the largest array; 0 = 1e9 on a GPU, 1e7 on a CPU
};

std::map<std::string, Tensor> stored_inputs(const ArrayWork& work, Backend& backend) {
  std::vector<Tensor> values;
  for (const auto& [name, value] : work.inputs) values.push_back(value);
  if (values.empty()) return {};
  const std::vector<Tensor> stored = evaluate(values, backend);
  std::map<std::string, Tensor> inputs;
  std::size_t i = 0;
  for (const auto& [name, value] : work.inputs) inputs[name] = stored[i++];
  return inputs;
}

/// Ones, which the checked run begins with.
void reset(const ArrayWork& work, Backend& backend) {
  for (const Variable& variable : work.state) variable.set(evaluate(ones(variable.shape()), backend));
}

/// Checks one run, then times `runs` measurements of as many runs as make the clock exact.
nlohmann::json time_array(const ArrayWork& work, Backend& backend, int runs) {
  Scope scope(work.name, backend.name());
  const std::map<std::string, Tensor> inputs = stored_inputs(work, backend);
  Step step(backend, work.body);
  reset(work, backend);
  const double error = work.error(step(inputs), inputs, backend);
  if (!(error <= work.bound))
    fail(Fault::non_finite, "the result is wrong: max|diff| / mean|ref| is ", error, ", at most ", work.bound,
         " is right");
  const Timing time = time_for(
      backend, [&] { step(inputs); }, runs);
  return {{"workload", work.name},
          {"precision", work.precision},
          {"elements", work.elements},
          {"ms", time},
          {"gigabytes_per_second", work.bytes / time.median / 1e6},
          {"tflops", work.flop / time.median / 1e9},
          {"error", error},
          {"bound", work.bound}};
}

/// From which size on every larger array of the workload is faster than on the CPU.
void print_crossover(const nlohmann::json& rows, const std::string& workload) {
  std::int64_t from = 0;
  for (const auto& row : rows) {
    if (row["workload"] != workload || !row.contains("cpu_over_gpu")) continue;
    if (row["cpu_over_gpu"] < 1)
      from = 0;
    else if (from == 0)
      from = row["elements"];
  }
  if (from > 0)
    tell("{}: the GPU is faster than the CPU from {} elements on\n", workload, from);
  else
    tell("{}: the GPU is not faster than the CPU at the sizes measured\n", workload);
}

void run(const Arrays& command) {
  Report report("arrays", command.files);
  const std::shared_ptr<Backend> backend = begin_report(report, command);
  const std::shared_ptr<Backend> cpu = is_cpu(*backend) ? nullptr : make_cpu_backend(command.machine.threads);
  Columns columns{{"workload", -44, "workload"},
                  {"elements", 11, "elements"},
                  {"median ms", 10, "ms", "{:.4f}"},
                  {"(min - max)", -21, "ms", "({1:.4f} - {2:.4f})"},
                  {"GB/s", 8, "gigabytes_per_second", "{:.1f}"},
                  {"TFLOP/s", 8, "tflops", "{:.2f}"},
                  {"error", 9, "error", "{:.1e}"}};
  if (cpu)
    columns.insert(columns.end(), {{"CPU ms", 11, "cpu_ms", "{:.4f}"}, {"speedup", 8, "cpu_over_gpu", "{:.2f}x"}});
  report.print_header(columns);
  const std::int64_t largest = command.largest > 0 ? command.largest : cpu ? 1'000'000'000 : 10'000'000;
  for (const ArrayWork& work : array_work(largest)) {
    nlohmann::json row = time_array(work, *backend, command.runs);
    if (cpu && work.also_on_cpu) {
      const Timing on_cpu = time_array(work, *cpu, std::min(command.runs, 5))["ms"], own = row["ms"];
      row["cpu_ms"] = on_cpu.median;
      row["cpu_over_gpu"] = on_cpu.median / own.median;
    }
    report.add_row(row);
  }
  if (cpu)
    for (const char* workload : {"x *= 5", "x *= 5; x *= x; x += x"}) print_crossover(report.rows(), workload);
  report.complete();
}

}  // namespace

Subcommand add_arrays(CLI::App& app) {
  const auto command = std::make_shared<Arrays>();
  CLI::App* arrays = app.add_subcommand("arrays", "nervanagpu's array workloads, on a GPU beside the CPU");
  add_machine(*arrays, command->machine);
  add_runs(*arrays, command->runs);
  arrays
      ->add_option("--largest", command->largest,
                   "elements of the largest array; 1e9 on a GPU, 1e7 on a CPU by default")
      ->check(CLI::Range(1000.0, 1e11));
  add_files(*arrays, command->files);
  return {arrays, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
