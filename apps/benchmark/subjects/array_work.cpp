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

Tensor noise(const Shape& shape, const char* purpose) { return uniform(shape, random_stream(1, purpose)) - 0.5; }

double element(const Array& floats, std::int64_t position) {
  return static_cast<double>(floats.data<float>()[static_cast<std::size_t>(position)]);
}

Array host(const std::map<std::string, Tensor>& inputs, const char* name) {
  return inputs.at(name).array().to(Dtype::f32);
}

/// The error of sampled elements against a function of their position. Only those leave the backend.
double sampled_error(const Tensor& result, Backend& backend, const std::function<double(std::int64_t)>& expected) {
  const std::vector<std::int64_t> positions = sampled_positions(result.shape().size(), kSamples);
  const std::vector<std::int32_t> indices(positions.begin(), positions.end());
  const Tensor at = Array::from<std::int32_t>(indices, {static_cast<std::int64_t>(indices.size())});
  const Array found = evaluate(take(reshape(result, {-1}), at), backend).array().to(Dtype::f32);
  Deviation deviation;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const double value = element(found, static_cast<std::int64_t>(i));
    deviation.is_finite = deviation.is_finite && std::isfinite(value);
    deviation.add(value, expected(positions[i]));
  }
  return deviation.error();
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
                return Outputs{{"c", matmul(in["a"], in["b"])}};
              },
          .error =
              [size](const Outputs& out, const auto& in, Backend& backend) {
                const Array a = host(in, "a"), b = host(in, "b");
                return sampled_error(out.at("c"), backend,
                                     [&](std::int64_t p) { return dot(a, p / size, b, p % size); });
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
          .error =
              [](const Outputs& out, const auto& in, Backend& backend) {
                const Array x = host(in, "x");
                return sampled_error(out.at("y"), backend, [&](std::int64_t p) { return std::exp(element(x, p)); });
              },
          .bound = kFloatBound,
          .also_on_cpu = true};
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
              [=](const Inputs& in) {
                const Tensor h = sigmoid(matmul(in["w"], in["x"]) + in["b"]);
                const Tensor draw = uniform(h.shape(), random_stream(1, "sample"));
                return Outputs{{"h", h}, {"sample", cast(draw < h, Dtype::f32)}};
              },
          .error =
              [=](const Outputs& out, const auto& in, Backend& backend) {
                const Array w = host(in, "w"), x = host(in, "x"), b = host(in, "b");
                const auto expected = [&](std::int64_t p) {
                  return 1 / (1 + std::exp(-(dot(w, p / batch, x, p % batch) + element(b, p / batch))));
                };
                const Array h = out.at("h").array(), sample = out.at("sample").array();
                double ones = 0, mean = 0;
                for (std::int64_t i = 0; i < h.size(); ++i) {
                  ones += element(sample, i);
                  mean += element(h, i);
                }
                // A sample that is not one of h: six deviations of a sum of coins.
                const double allowed = 3 * std::sqrt(static_cast<double>(h.size()));
                if (std::abs(ones - mean) > allowed) return HUGE_VAL;
                return sampled_error(out.at("h"), backend, expected);
              },
          .bound = kFloatBound,
          .also_on_cpu = true};
}

ArrayWork fill(std::int64_t size) {
  return {
      .name = "ones",
      .elements = size,
      .bytes = 4 * static_cast<double>(size),
      .body =
          [size](const Inputs&) {
            return Outputs{{"x", ones({size})}};
          },
      .error = [](const Outputs& out, const auto&,
                  Backend& backend) { return sampled_error(out.at("x"), backend, [](std::int64_t) { return 1.0; }); }};
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
          .error = [x, expected](
                       const Outputs&, const auto&,
                       Backend& backend) { return sampled_error(x, backend, [&](std::int64_t) { return expected; }); },
          .also_on_cpu = size <= 10'000'000};
}

Array column_mean_and_variance(const Array& x) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  Array result(Dtype::f64, {2, columns});
  const auto sums = result.data<double>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto values = x.data<float>();
  const auto value = [&](std::int64_t row, std::int64_t column) {
    return static_cast<double>(values[at(row * columns + column)]);
  };
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      sums[at(column)] += value(row, column) / static_cast<double>(rows);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const double off = value(row, column) - sums[at(column)];
      sums[at(columns + column)] += off * off / static_cast<double>(rows);
    }
  return result;
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
          .error =
              [=](const Outputs& out, const auto& in, Backend& backend) {
                const Array x = host(in, "x"), sums = column_mean_and_variance(x);
                return sampled_error(out.at("y"), backend, [&](std::int64_t p) {
                  const auto column = static_cast<std::size_t>(p % columns);
                  const double mean = sums.data<double>()[column];
                  const double variance = sums.data<double>()[column + static_cast<std::size_t>(columns)];
                  return normalizes ? (element(x, p) - mean) / std::sqrt(variance + kEpsilon) : variance;
                });
              },
          .bound = kHalfBound,
          .also_on_cpu = true};
}

}  // namespace

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
