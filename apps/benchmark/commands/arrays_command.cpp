// Times each workload, on a GPU the quick ones on the CPU too, and says from which size on the GPU is faster.
#include "nixie/apps/benchmark/commands/arrays_command.h"

#include <algorithm>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/array_work.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/registry.h"

namespace nixie::benchmark {
namespace {

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
ArrayRow time_array(const ArrayWork& work, Backend& backend, int runs) {
  Scope scope(work.name, backend.name());
  const std::map<std::string, Tensor> inputs = stored_inputs(work, backend);
  Step step(backend, work.body);
  reset(work, backend);
  ArrayRow row{.workload = work.name,
               .precision = work.precision,
               .elements = work.elements,
               .bytes = work.bytes,
               .flop = work.flop,
               .bound = work.bound};
  row.error = work.error(step(inputs), inputs, backend);
  if (!(row.error <= work.bound))
    fail(Fault::non_finite, "the result is wrong: max|diff| / mean|ref| is ", row.error, ", at most ", work.bound,
         " is right");
  row.time = time_for(
      backend, [&] { step(inputs); }, runs);
  return row;
}

void print_row(const ArrayRow& row) {
  tell("{:<44} {:>11} {:>10.4f} ({:.4f} - {:.4f}) {:>8.1f} {:>8.2f} {:>9.1e}", row.workload, row.elements,
       row.time.median, row.time.min, row.time.max, row.gigabytes_per_second(), row.tflops(), row.error);
  if (row.cpu_ms > 0) tell(" {:>11.4f} {:>8.2f}x", row.cpu_ms, row.cpu_ms / row.time.median);
  tell("\n");
  std::fflush(stdout);
}

/// From which size on every larger array of the workload is faster than on the CPU.
void print_crossover(const std::vector<ArrayRow>& rows, const std::string& workload) {
  std::int64_t from = 0;
  for (const ArrayRow& row : rows) {
    if (row.workload != workload || row.cpu_ms <= 0) continue;
    if (row.cpu_ms < row.time.median)
      from = 0;
    else if (from == 0)
      from = row.elements;
  }
  if (from > 0)
    tell("{}: the GPU is faster than the CPU from {} elements on\n", workload, from);
  else
    tell("{}: the GPU is not faster than the CPU at the sizes measured\n", workload);
}

}  // namespace

std::vector<ArrayRow> run_arrays(const ArraysCommand& command) {
  Report report("arrays", command.json, command.csv);
  check_writable(command.plot);
  const std::shared_ptr<Backend> backend = make_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  const std::shared_ptr<Backend> cpu = is_cpu ? nullptr : make_cpu_backend(command.threads);
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  tell("{}{:<44} {:>11} {:>10} {:>19} {:>8} {:>8} {:>9}{}\n", facts_text(report.content()), "workload", "elements",
       "median ms", "(min - max)", "GB/s", "TFLOP/s", "error", is_cpu ? "" : "      CPU ms  speedup");
  const std::int64_t largest = command.largest > 0 ? command.largest : is_cpu ? 10'000'000 : 1'000'000'000;
  std::vector<ArrayRow> rows;
  for (const ArrayWork& work : array_work(largest)) {
    rows.push_back(time_array(work, *backend, command.runs));
    if (cpu && work.also_on_cpu) rows.back().cpu_ms = time_array(work, *cpu, std::min(command.runs, 5)).time.median;
    print_row(rows.back());
    report.add_row(rows.back());
  }
  if (cpu)
    for (const char* workload : {"x *= 5", "x *= 5; x *= x; x += x"}) print_crossover(rows, workload);
  write_file(command.plot, arrays_chart(report.content()));
  return rows;
}

}  // namespace nixie::benchmark
