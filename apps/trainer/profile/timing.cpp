// Marks before and after every run, read together at the end.
#include "nixie/apps/trainer/profile/timing.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/core/base/random.h"
#include "nixie/core/base/threads.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

Timing summarize(const std::vector<double>& milliseconds) {
  check(!milliseconds.empty(), "a timing of no runs");
  std::vector<double> sorted = milliseconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return {.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size()),
          .median = sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2,
          .min = sorted.front(),
          .max = sorted.back(),
          .runs = static_cast<int>(sorted.size())};
}

void warm_up(Backend& backend, const std::function<void()>& work, double least_seconds) {
  constexpr int kLeast = 3;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (int i = 0; i < kLeast || seconds() < least_seconds; ++i) {
    work();
    backend.synchronize();
  }
}

std::vector<std::vector<double>> time_in_turn(Backend& backend, const std::vector<std::function<void()>>& work,
                                              int rounds) {
  const auto stopwatch = backend.stopwatch();
  stopwatch->mark();
  for (int round = 0; round < rounds; ++round)
    for (const auto& piece : work) {
      piece();
      stopwatch->mark();
    }
  const std::vector<double> intervals = stopwatch->intervals_ms();
  std::vector<std::vector<double>> times(work.size());
  for (std::size_t i = 0; i < intervals.size(); ++i) times[i % work.size()].push_back(intervals[i]);
  return times;
}

Timing time_work(Backend& backend, const std::function<void()>& work, int runs) {
  warm_up(backend, work);
  return summarize(time_in_turn(backend, {work}, runs)[0]);
}

Timing time_for(Backend& backend, const std::function<void()>& work, int runs, const Filling& filling) {
  warm_up(backend, work, filling.warm_seconds);
  const double once = std::max(time_in_turn(backend, {work}, 1)[0][0], 1e-6);
  const int inner = static_cast<int>(std::clamp(filling.least_ms / once, 1.0, static_cast<double>(filling.most)));
  const auto piece = [&] {
    for (int i = 0; i < inner; ++i) work();
  };
  std::vector<double> times = time_in_turn(backend, {piece}, runs)[0];
  for (double& time : times) time /= inner;
  return summarize(times);
}

double measure_matmul_ceiling(Backend& backend, PrecisionPolicy precision, Dtype operands) {
  double best = 0;
  const bool is_cpu = backend.name() == "cpu";
  for (const std::int64_t size : is_cpu ? std::vector<std::int64_t>{1024} : std::vector<std::int64_t>{4096, 8192}) {
    const auto draw = [&](const char* purpose) {
      return cast(uniform({size, size}, random_stream(1, purpose)) - 0.5, operands);
    };
    const std::vector<Tensor> stored = evaluate({draw("a"), draw("b")}, backend);
    Step step(
        backend,
        [&](const Inputs& in) {
          return Outputs{{"c", cast(matmul(in["a"], in["b"]), operands)}};
        },
        precision);
    const std::map<std::string, Tensor> inputs{{"a", stored[0]}, {"b", stored[1]}};
    const Timing timing = time_work(
        backend, [&] { step(inputs); }, 10);
    const double side = static_cast<double>(size);
    best = std::max(best, 2 * side * side * side / timing.median / 1e9);
  }
  return best;
}

double measure_copy_rate(Backend& backend) {
  const std::int64_t size = backend.name() == "cpu" ? 20'000'000 : 500'000'000;
  const Tensor x = evaluate(uniform({size}, random_stream(1, "x")), backend);
  Step step(backend, [](const Inputs& in) { return Outputs{{"copy", -in["x"]}}; });
  const Timing timing = time_work(
      backend,
      [&] {
        step({{"x", x}});
      },
      10);
  return 8 * static_cast<double>(size) / timing.median / 1e6;
}

void compile_ahead(const Backend& backend, std::int64_t count, const std::function<void(std::int64_t)>& compile) {
  if (backend.name() == "cpu") return;
  share_out("compile", count, [&](std::int64_t i) {
    if (stop_is_requested()) return;
    try {
      compile(i);
    } catch (const std::exception&) {
    }
  });
}

namespace {

constexpr std::int64_t kDrawn = 4099;  // a prime, so that no row of a matrix equals another

Array repeated(const Array& few, const Shape& shape) {
  Array values(few.dtype(), shape);
  const std::int64_t bytes = values.size_bytes();
  for (std::int64_t done = 0; done < bytes; done += few.size_bytes())
    std::memcpy(values.bytes() + done, few.bytes(), static_cast<std::size_t>(std::min(few.size_bytes(), bytes - done)));
  return values;
}

}  // namespace

Variable operand(const std::string& name, Dtype dtype, const Shape& shape, std::function<Array()> values) {
  return Variable(std::make_shared<VariableState>(
      VariableState{.name = name, .shape = shape, .dtype = dtype, .trainable = false, .init = std::move(values)}));
}

Variable noise_operand(const std::string& name, Dtype dtype, const Shape& shape) {
  return operand(name, dtype, shape, [=] {
    return repeated(Init::uniform(-1, 1).make({kDrawn}, random_stream(1, name)).to(dtype), shape);
  });
}

Variable result_operand(const std::string& name, Dtype dtype, const Shape& shape) {
  return operand(name, dtype, shape, [=] { return Array(dtype, shape); });
}

}  // namespace nixie
