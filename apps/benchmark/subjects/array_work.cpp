// nervanagpu's workloads: products, exp, a layer of a Boltzmann machine, fills and chains, variance and batch norm.
#include "nixie/apps/benchmark/subjects/array_work.h"

#include <algorithm>
#include <cmath>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/checks/terms.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/ops.h"

namespace nixie::benchmark {
namespace {

constexpr double kFloatBound = 5e-5, kHalfBound = 7e-3;
constexpr std::int64_t kSamples = 64;

using Values = ArrayWork::Values;
using Element = ArrayWork::Element;

Tensor noise(const Shape& shape, const char* purpose) { return uniform(shape, random_stream(1, purpose)) - 0.5; }

double element(const Array& floats, std::int64_t position) {
  return static_cast<double>(floats.data<float>()[static_cast<std::size_t>(position)]);
}

double dot(const Array& a, std::int64_t row, const Array& b, std::int64_t column) {
  const std::int64_t n = b.shape()[1];
  double sum = 0;
  for_each_term(Matmul{}, a.shape(), b.shape(), {a.shape()[0], n}, row * n + column,
                [&](std::int64_t i, std::int64_t j) { sum += element(a, i) * element(b, j); });
  return sum;
}

ArrayWork product(std::int64_t size) {
  const double side = static_cast<double>(size);
  return {.name = fmt::format("matmul {0} x {0}", size),
          .elements = size * size,
          .bytes = 3 * 4 * side * side,
          .flop = 2 * side * side * side,
          .inputs = {{"a", noise({size, size}, "a")}, {"b", noise({size, size}, "b")}},
          .body =
              [](const Inputs& in) {
                return Outputs{{"y", matmul(in["a"], in["b"])}};
              },
          .expected = [=](const Values& in) -> Element {
            return [=, a = in.at("a"), b = in.at("b")](std::int64_t p) { return dot(a, p / size, b, p % size); };
          },
          .bound = kFloatBound,
          .also_on_cpu = size <= 1000};
}

ArrayWork exponential(std::int64_t size) {
  return {.name = "exp(x)",
          .elements = size,
          .bytes = 8 * static_cast<double>(size),
          .inputs = {{"x", noise({size}, "x") * 10}},
          .body =
              [](const Inputs& in) {
                return Outputs{{"y", exp(in["x"])}};
              },
          .expected = [](const Values& in) -> Element {
            return [x = in.at("x")](std::int64_t p) { return std::exp(element(x, p)); };
          },
          .bound = kFloatBound,
          .also_on_cpu = true};
}

/// Whether as many of the sample are one as h says: within six deviations of a sum of coins.
bool is_sample(const Array& sample, const Array& h) {
  double ones = 0, mean = 0;
  for (std::int64_t i = 0; i < h.size(); ++i) ones += element(sample, i), mean += element(h, i);
  return std::abs(ones - mean) <= 3 * std::sqrt(static_cast<double>(h.size()));
}

/// sigmoid(W X + b) and a sample of it: the heart of a restricted Boltzmann machine.
ArrayWork boltzmann(std::int64_t outputs, std::int64_t inputs, std::int64_t batch) {
  const double m = static_cast<double>(outputs), k = static_cast<double>(inputs), n = static_cast<double>(batch);
  return {.name = fmt::format("sigmoid(W X + b) and sample, {}x{}x{}", outputs, inputs, batch),
          .elements = outputs * batch,
          .bytes = 4 * (m * k + k * n + 2 * m * n),
          .flop = 2 * m * k * n,
          .inputs = {{"w", noise({outputs, inputs}, "w") * 0.1},
                     {"x", noise({inputs, batch}, "x")},
                     {"b", noise({outputs, 1}, "b")}},
          .body =
              [](const Inputs& in) {
                const Tensor h = sigmoid(matmul(in["w"], in["x"]) + in["b"]);
                const Tensor draw = uniform(h.shape(), random_stream(1, "sample"));
                return Outputs{{"y", h}, {"sample", cast(draw < h, Dtype::f32)}};
              },
          .expected = [=](const Values& in) -> Element {
            return [=, w = in.at("w"), x = in.at("x"), b = in.at("b")](std::int64_t p) {
              return 1 / (1 + std::exp(-(dot(w, p / batch, x, p % batch) + element(b, p / batch))));
            };
          },
          .holds = [](const Outputs& out) { return is_sample(out.at("sample").array(), out.at("y").array()); },
          .bound = kFloatBound,
          .also_on_cpu = true};
}

ArrayWork::Element constant(double value) {
  return [=](std::int64_t) { return value; };
}

ArrayWork fill(std::int64_t size) {
  return {.name = "ones",
          .elements = size,
          .bytes = 4 * static_cast<double>(size),
          .body =
              [size](const Inputs&) {
                return Outputs{{"y", ones({size})}};
              },
          .expected = [](const Values&) { return constant(1); }};
}

/// In place: the runs make the numbers overflow, which costs no time; the checked run begins with ones.
ArrayWork in_place(const std::string& name, std::int64_t size, const std::function<Tensor(Tensor)>& formula,
                   double expected) {
  const auto state = std::make_shared<VariableState>();
  state->shape = {size};
  state->init = [size] { return Array(Dtype::f32, {size}); };
  const Variable x(state);
  return {.name = name,
          .elements = size,
          .bytes = 8 * static_cast<double>(size),
          .state = {x},
          .body =
              [x, formula](const Inputs&) {
                x.set(formula(x));
                return Outputs{};
              },
          .expected = [=](const Values&) { return constant(expected); },
          .also_on_cpu = size <= 10'000'000};
}

/// The mean and the biased variance of each column.
struct Moments {
  std::vector<double> mean, variance;
};
Moments moments_of(const Array& x) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(i % columns); };
  const double share = 1 / static_cast<double>(rows);
  Moments moments{std::vector<double>(static_cast<std::size_t>(columns)),
                  std::vector<double>(static_cast<std::size_t>(columns))};
  for (std::int64_t i = 0; i < rows * columns; ++i) moments.mean[at(i)] += element(x, i) * share;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    moments.variance[at(i)] += std::pow(element(x, i) - moments.mean[at(i)], 2) * share;
  return moments;
}

/// nervanagpu's showpieces, one kernel each, over axis 0 of half-precision rows.
ArrayWork statistics(std::int64_t rows, std::int64_t columns, bool normalizes) {
  const double size = static_cast<double>(rows * columns), narrow = static_cast<double>(columns);
  constexpr double kEpsilon = 1e-3;
  return {.name = fmt::format("{} fp16 {}x{}", normalizes ? "batch norm" : "variance", rows, columns),
          .precision = "fp16",
          .elements = rows * columns,
          .bytes = normalizes ? 4 * size : 2 * size + 2 * narrow,
          .inputs = {{"x", cast(noise({rows, columns}, "x") + 0.25, Dtype::f16)}},
          .body =
              [=](const Inputs& in) {
                const Tensor x = in["x"];
                if (!normalizes) return Outputs{{"y", mean(square(x - mean(x, {0})), {0})}};
                return Outputs{{"y", (x - mean(x, {0})) * rsqrt(variance(x, {0}) + kEpsilon)}};
              },
          .expected = [=](const Values& in) -> Element {
            return [=, x = in.at("x"), moments = moments_of(in.at("x"))](std::int64_t p) {
              const auto column = static_cast<std::size_t>(p % columns);
              const double variance = moments.variance[column];
              return normalizes ? (element(x, p) - moments.mean[column]) / std::sqrt(variance + kEpsilon) : variance;
            };
          },
          .bound = kHalfBound,
          .also_on_cpu = true};
}

}  // namespace

// Only sampled elements leave the backend.
double ArrayWork::error(const Outputs& outputs, const std::map<std::string, Tensor>& given, Backend& backend) const {
  if (!holds(outputs)) return HUGE_VAL;
  Values values;
  for (const auto& [name, value] : given) values[name] = value.array().to(Dtype::f32);
  const Element reference = expected(values);
  const Tensor result = state.empty() ? outputs.at("y") : Tensor(state[0]);
  const std::vector<std::int64_t> positions = sampled_positions(result.shape().size(), kSamples);
  const std::vector<std::int32_t> indices(positions.begin(), positions.end());
  const Tensor at = Array::from<std::int32_t>(indices, {static_cast<std::int64_t>(indices.size())});
  const Array found = evaluate(take(reshape(result, {-1}), at), backend).array().to(Dtype::f32);
  Deviation deviation;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const double value = element(found, static_cast<std::int64_t>(i));
    deviation.is_finite = deviation.is_finite && std::isfinite(value);
    deviation.add(value, reference(positions[i]));
  }
  return deviation.error();
}

std::vector<ArrayWork> array_work(std::int64_t largest) {
  std::vector<ArrayWork> all;
  for (const std::int64_t size : {50, 100, 200, 1000, 10000})
    if (size * size <= largest) all.push_back(product(size));
  all.push_back(exponential(std::min<std::int64_t>(largest, 10'000'000)));
  all.push_back(boltzmann(512, 784, 256));
  all.push_back(boltzmann(4096, 2048, 256));
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{128, 32}, {387200, 64}, {802816, 128}})
    if (rows * columns <= largest * 4)
      for (const bool normalizes : {false, true}) all.push_back(statistics(rows, columns, normalizes));
  for (std::int64_t size = 1000; size <= largest; size *= 10) {
    if (size * 10 > largest) all.push_back(fill(size));
    all.push_back(in_place(
        "x *= 5", size, [](const Tensor& x) { return x * 5; }, 5));
    all.push_back(in_place(
        "x *= 5; x *= x; x += x", size, [](const Tensor& x) { return x * 5 * (x * 5) * 2; }, 50));
  }
  return all;
}

}  // namespace nixie::benchmark
