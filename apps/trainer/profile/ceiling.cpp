// Times square products of random numbers, and -x of a large array.
#include "nixie/apps/trainer/profile/ceiling.h"

#include <algorithm>

#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

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

}  // namespace nixie
