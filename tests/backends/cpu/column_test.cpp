// Statistics over leading axes and what depends on them, on every backend there is, against sums in double: odd sizes,
// one-sized axes, many blocks to a column, values far from zero, mixed types. Results are the same run after run.
// Without a GPU its plans are lowered, their kernels compiled, and the plans run on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/tests/cuda_plans_backend.h"
#endif

namespace nixie {
namespace {

std::shared_ptr<Backend> backend_named(const std::string& name) {
  static std::map<std::string, std::shared_ptr<Backend>> made;
#ifdef NIXIE_WITH_CUDA
  if (name == "cuda_plans") made.emplace(name, std::make_shared<CudaPlansBackend>());
#endif
  if (!made.count(name)) try {
      made[name] = make_backend(name);
    } catch (const Error&) {
      made[name] = nullptr;
    }
  return made[name];
}

// [rows, channels] of a type, as the backend sees them and in double.
struct Values {
  std::int64_t rows, channels;
  Array array;
  std::vector<double> value;

  Values(const Shape& shape, Dtype dtype, double center, unsigned seed) : rows(shape[0]), channels(shape[1]) {
    std::vector<float> drawn(static_cast<std::size_t>(shape.size()));
    std::uint32_t state = seed * 2654435761u + 1;
    for (float& x : drawn) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<float>(center + static_cast<double>(state >> 8) * 0x1p-23 - 1);
    }
    array = Array::from(drawn, shape).to(dtype);
    value = array.to_vector<double>();
  }
  double at(std::int64_t row, std::int64_t channel) const {
    return value[static_cast<std::size_t>(row * channels + channel)];
  }
};

double rounding(Dtype dtype) {
  return dtype == Dtype::f16 ? 0x1p-10 : dtype == Dtype::bf16 ? 0x1p-7 : dtype == Dtype::f64 ? 1e-12 : 1e-5;
}

void expect_near(const Outputs& outputs, const std::string& name, std::int64_t i, double expected, double tolerance) {
  // The tensor that was read last; holding it keeps another one from getting its address.
  static Tensor held;
  static std::vector<double> read;
  const Tensor& x = outputs.at(name);
  if (held.id() != x.id()) held = x, read = x.array().to_vector<double>();
  EXPECT_NEAR(read[static_cast<std::size_t>(i)], expected, tolerance) << name << " " << i;
}

// Runs twice and holds the bits of both against each other.
Outputs run_twice(Step& step, const std::map<std::string, Tensor>& inputs) {
  const Outputs first = step(inputs), second = step(inputs);
  for (const auto& [name, value] : first) {
    const Array a = value.array(), b = second.at(name).array();
    EXPECT_EQ(0, std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size_bytes()))) << name;
  }
  return second;
}

struct Case {
  std::int64_t rows, channels;
  Dtype dtype;
  double center = 0;
};

const Case kCases[] = {
    {1, 1, Dtype::f32},          {1, 64, Dtype::f16},         {2, 3, Dtype::f32},
    {5003, 64, Dtype::f16},      {70001, 8, Dtype::bf16},     {70001, 3, Dtype::f32},
    {4097, 24, Dtype::f32},      {9, 4096, Dtype::f16},       {33333, 130, Dtype::bf16, 2},
    {20000, 64, Dtype::f32, 99}, {262144, 1, Dtype::f32, 10}, {3000, 48, Dtype::f64, 1000},
    {65536, 64, Dtype::f16, 8},  {12345, 512, Dtype::f16},
};

class Columns : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = backend_named(GetParam());
    if (!backend_) GTEST_SKIP() << "no " << GetParam();
  }
  std::shared_ptr<Backend> backend_;
};

TEST_P(Columns, StatisticsThenWhatIsNormalised) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} x {} {} around {}", c.rows, c.channels, c.dtype, c.center));
    const Values x({c.rows, c.channels}, c.dtype, c.center, 3);
    Step step(*backend_, [](const Inputs& in) {
      const Tensor& a = in["x"];
      const Tensor wide = a.dtype() == Dtype::f64 ? a : cast(a, Dtype::f32);
      const Tensor center = mean(wide, {0}), spread = variance(wide, {0});
      return Outputs{
          {"mean", center}, {"variance", spread}, {"y", cast((wide - center) * rsqrt(spread + 1e-3), a.dtype())}};
    });
    const Outputs found = run_twice(step, {{"x", x.array}});
    const double n = static_cast<double>(c.rows), fine = c.dtype == Dtype::f64 ? 1e-12 : 1e-5;
    for (std::int64_t k = 0; k < c.channels; ++k) {
      double sum = 0, squares = 0;
      for (std::int64_t r = 0; r < c.rows; ++r) sum += x.at(r, k);
      for (std::int64_t r = 0; r < c.rows; ++r) squares += (x.at(r, k) - sum / n) * (x.at(r, k) - sum / n);
      expect_near(found, "mean", k, sum / n, fine * (1 + c.center));
      // Far from zero, what float keeps of the values decides.
      expect_near(found, "variance", k, squares / n, fine * (1 + c.center) * (squares / n + 1e-3));
    }
    for (std::int64_t k = 0; k < c.channels; k += 1 + c.channels / 5) {
      double sum = 0, squares = 0;
      for (std::int64_t r = 0; r < c.rows; ++r) sum += x.at(r, k);
      for (std::int64_t r = 0; r < c.rows; ++r) squares += (x.at(r, k) - sum / n) * (x.at(r, k) - sum / n);
      const Array y = found.at("y").array();
      const std::vector<double> values = y.to_vector<double>();
      for (std::int64_t r = 0; r < c.rows; ++r) {
        const double expected = (x.at(r, k) - sum / n) / std::sqrt(squares / n + 1e-3);
        ASSERT_NEAR(values[static_cast<std::size_t>(r * c.channels + k)], expected,
                    (rounding(c.dtype) + fine * (1 + c.center)) * (1 + std::abs(expected)))
            << r << ", " << k;
      }
    }
  }
}

// The gradient of batch normalisation with a ReLU before it: two sums over three arrays, then an array.
TEST_P(Columns, GradientOfNormalisation) {
  for (const Case& c : kCases) {
    if (c.dtype == Dtype::f64) continue;
    SCOPED_TRACE(fmt::format("{} x {} {}", c.rows, c.channels, c.dtype));
    const Values x({c.rows, c.channels}, c.dtype, 0, 1), y({c.rows, c.channels}, c.dtype, 0, 2),
        g({c.rows, c.channels}, c.dtype == Dtype::f16 ? Dtype::f32 : c.dtype, 0, 3),
        mu({1, c.channels}, Dtype::f32, 0, 4), scale({1, c.channels}, Dtype::f32, 2, 5);
    const double n = static_cast<double>(c.rows);
    Step step(*backend_, [n](const Inputs& in) {
      const Tensor g = where(in["y"] > 0, cast(in["g"], Dtype::f32), 0.0);
      const Tensor hat = (cast(in["x"], Dtype::f32) - in["mean"]) * in["scale"];
      const Tensor db = sum(g, {0}), dw = sum(g * hat, {0});
      return Outputs{
          {"db", db}, {"dw", dw}, {"dx", cast((g - db / n - hat * (dw / n)) * in["scale"], in["x"].dtype())}};
    });
    const Outputs found =
        run_twice(step, {{"x", x.array}, {"y", y.array}, {"g", g.array}, {"mean", mu.array}, {"scale", scale.array}});
    const std::vector<double> dx = found.at("dx").array().to_vector<double>();
    for (std::int64_t k = 0; k < c.channels; k += 1 + c.channels / 9) {
      const auto masked = [&](std::int64_t r) { return y.at(r, k) > 0 ? g.at(r, k) : 0; };
      const auto hat = [&](std::int64_t r) { return (x.at(r, k) - mu.at(0, k)) * scale.at(0, k); };
      double db = 0, dw = 0;
      for (std::int64_t r = 0; r < c.rows; ++r) db += masked(r), dw += masked(r) * hat(r);
      expect_near(found, "db", k, db, 1e-6 * n + 1e-6);
      expect_near(found, "dw", k, dw, 1e-5 * n + 1e-5);
      for (std::int64_t r = 0; r < c.rows; ++r) {
        const double expected = (masked(r) - db / n - hat(r) * dw / n) * scale.at(0, k);
        ASSERT_NEAR(dx[static_cast<std::size_t>(r * c.channels + k)], expected,
                    (rounding(c.dtype) + 1e-5) * (4 + std::abs(expected)))
            << r << ", " << k;
      }
    }
  }
}

// Reductions that wait for reductions, and positions: softmax down the columns, the first of the largest.
TEST_P(Columns, StagesThatWaitForEachOther) {
  for (const Case& c : kCases) {
    if (c.dtype == Dtype::f64) continue;
    SCOPED_TRACE(fmt::format("{} x {} {}", c.rows, c.channels, c.dtype));
    const Values x({c.rows, c.channels}, c.dtype, 0, 7);
    Step step(*backend_, [](const Inputs& in) {
      const Tensor a = cast(in["x"], Dtype::f32), e = exp(a - max(a, {0}));
      return Outputs{{"p", e / sum(e, {0})}, {"at", argmax(a, {0})}, {"least", min(a, {0})}};
    });
    const Outputs found = run_twice(step, {{"x", x.array}});
    const std::vector<double> p = found.at("p").array().to_vector<double>();
    for (std::int64_t k = 0; k < c.channels; k += 1 + c.channels / 9) {
      double largest = -1e9, least = 1e9, total = 0;
      std::int64_t at = 0;
      for (std::int64_t r = 0; r < c.rows; ++r) {
        if (x.at(r, k) > largest) largest = x.at(r, k), at = r;
        least = std::min(least, x.at(r, k));
      }
      for (std::int64_t r = 0; r < c.rows; ++r) total += std::exp(x.at(r, k) - largest);
      expect_near(found, "at", k, static_cast<double>(at), 0);
      expect_near(found, "least", k, least, 0);
      for (std::int64_t r = 0; r < c.rows; ++r)
        ASSERT_NEAR(p[static_cast<std::size_t>(r * c.channels + k)], std::exp(x.at(r, k) - largest) / total,
                    2e-5 * std::exp(x.at(r, k) - largest) / total)
            << r << ", " << k;
    }
  }
}

TEST_P(Columns, NothingToReduce) {
  Step step(*backend_, [](const Inputs& in) {
    return Outputs{{"sum", sum(in["x"], {0})}, {"product", prod(in["x"], {0})}, {"y", in["x"] - sum(in["x"], {0})}};
  });
  const Outputs empty = step({{"x", Array(Dtype::f32, {0, 40})}});
  EXPECT_EQ(empty.at("sum").to_vector<float>(), std::vector<float>(40, 0.0f));
  EXPECT_EQ(empty.at("product").to_vector<float>(), std::vector<float>(40, 1.0f));
  EXPECT_EQ(empty.at("y").to_vector<float>().size(), 0u);
  EXPECT_EQ(step({{"x", Array(Dtype::f32, {5, 0})}}).at("sum").to_vector<float>().size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, Columns, testing::Values("cpu", "cuda", "cuda_plans"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace nixie
