// Helpers for core's tests: a backend, random arrays, and gradients checked against central differences in f64.
#pragma once

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/base/random.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie::testing {

/// The backend under test: the CPU, or what NIXIE_TEST_BACKEND names.
inline Backend& cpu() { return test_backend(); }

/// The CPU, which counts what is asked of it and shares no memory with other backends.
class CountingBackend final : public ForwardingBackend {
 public:
  explicit CountingBackend(Target target = {}) : ForwardingBackend(make_cpu_backend(1)), target_(std::move(target)) {}
  int uploads = 0, downloads = 0, compiled = 0;
  Target target() const override { return target_; }
  MemoryPlace memory_place() const override { return {}; }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override {
    ++uploads;
    ForwardingBackend::upload(from, to, size_bytes);
  }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override {
    ++downloads;
    ForwardingBackend::download(from, to, size_bytes);
  }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    ++compiled;
    return ForwardingBackend::compile(plan);
  }

 private:
  Target target_;
};

/// Numbers in [low, high), f64.
inline Array random_array(const Shape& shape, double low, double high, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& value : values) value = draw(generator);
  return Array::from(values, shape);
}

inline std::vector<double> values_of(const Tensor& x) {
  return evaluate(cast(x, Dtype::f64), cpu()).to_vector<double>();
}

inline void expect_values(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = values_of(actual);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << "at " << i;
    } else if (values[i] != expected[i]) {
      EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "at " << i;
    }
  }
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The gradient of a weighted sum of f's result, against central differences, relative to the largest gradient: 1e-7.
inline void expect_gradients(const Function& f, const std::vector<Array>& inputs) {
  auto loss_of = [&](const std::vector<Array>& at) {
    std::vector<Tensor> x(at.begin(), at.end());
    const Tensor y = f(x);
    const Tensor weights = cast(uniform(y.shape(), random_stream(7, "weights")), Dtype::f64) + 0.5;
    return std::pair{sum(y * weights), x};
  };
  const auto [loss, x] = loss_of(inputs);
  const std::vector<Tensor> analytic = evaluate(gradients(loss, x), cpu());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    ASSERT_EQ(analytic[k].shape(), inputs[k].shape());
    const std::vector<double> gradient = analytic[k].to_vector<double>();
    double scale = 1;
    for (double g : gradient) scale = std::max(scale, std::abs(g));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      auto loss_at = [&](double shift) {
        std::vector<Array> moved = inputs;
        moved[k] = inputs[k].clone();
        moved[k].data<double>()[i] += shift;
        return evaluate(loss_of(moved).first, cpu()).item();
      };
      // Fourth order: the error of the differences themselves stays far below the bound.
      const double h = 1e-3;
      const double numeric = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      EXPECT_NEAR(gradient[i], numeric, 1e-7 * scale) << "input " << k << ", element " << i;
    }
  }
}

}  // namespace nixie::testing

namespace nixie {
using namespace testing;
}
