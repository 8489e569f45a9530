// What Statistics measures, against counts by hand; what declared formats change; that it changes no step.
#include "nixie/models/statistics.h"

#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/linear.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

const TensorStatistics& row_of(const std::vector<TensorStatistics>& rows, const std::string& layer,
                               const std::string& role) {
  const auto found =
      std::ranges::find_if(rows, [&](const auto& row) { return row.layer == layer && row.role == role; });
  EXPECT_NE(found, rows.end()) << layer << " " << role;
  return found == rows.end() ? rows.front() : *found;
}

/// Measures values of one shape as the activations of `x`.
class Observed {
 public:
  explicit Observed(StatisticsOptions options, PrecisionPolicy precision = PrecisionPolicy::fp32)
      : statistics(std::move(options), precision),
        step_(
            test_backend(),
            [this](const Inputs& in) {
              statistics.observe(in["x"], "x", "activations");
              statistics.record(0);
              return Outputs{};
            },
            precision) {}
  void operator()(const Array& x) { step_({{"x", x}}); }
  Statistics statistics;

 private:
  Step step_;
};

TEST(Statistics, CountsEachKindOfNumber) {
  const struct {
    PrecisionPolicy precision;
    std::vector<float> values;
    std::int64_t zeros, saturated, infinite, nan;
    double largest, mean;
  } rows[] = {
      {PrecisionPolicy::fp32, {0, -0.0F, 1, -3}, 2, 0, 0, 0, 3, 1},
      {PrecisionPolicy::fp32, {kInf, -kInf, kNan, 2}, 0, 2, 2, 1, 2, 0.5},
      {PrecisionPolicy::fp32, {3.4028235e38F, 1, 1e-45F, 0}, 1, 1, 0, 0, 3.4028235e38F, 3.4028235e38 / 4},
      // Beyond 65520 an f16 is infinite, below 2^-25 it is 0.
      {PrecisionPolicy::fp16, {65519, -70000, 1e-8F, 1}, 1, 2, 1, 0, 65504, 65520 / 4.0},
      {PrecisionPolicy::bf16, {3.4e38F, 257, 0, 0}, 2, 1, 1, 0, 256, 257 / 4.0},
      {PrecisionPolicy::fp16_pure, {kNan, kNan, kInf, 0}, 1, 1, 1, 2, 0, 0},
  };
  for (const auto& each : rows) {
    SCOPED_TRACE(fmt::format("{} {}", to_string(each.precision), fmt::join(each.values, ",")));
    Observed observed({}, each.precision);
    for (int i = 0; i < 2; ++i) observed(Array::from(each.values, {2, 2}));
    const std::vector<TensorStatistics> found = observed.statistics.results();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].elements, 8);
    EXPECT_EQ(found[0].zeros, 2 * each.zeros);
    EXPECT_EQ(found[0].saturated, 2 * each.saturated);
    EXPECT_EQ(found[0].infinite, 2 * each.infinite);
    EXPECT_EQ(found[0].nan, 2 * each.nan);
    EXPECT_EQ(found[0].largest, each.largest);
    EXPECT_NEAR(found[0].mean, each.mean, 1e-6 * each.mean);
    EXPECT_EQ(found[0].first_overflow, each.infinite + each.nan > 0 ? 1 : 0);
    observed.statistics.clear();
    EXPECT_TRUE(observed.statistics.results().empty());
  }
}

TEST(Statistics, HistogramsCountPowersOfTwoOfASample) {
  std::vector<float> values(40000, 0.75F);  // 2^-1
  for (std::size_t i = 0; i < 100; ++i) values[i] = i % 2 ? -1024 : 1e-20F;
  values[100] = kInf;
  Observed few({}), many({});
  few(Array::from(std::vector<float>{0, 1, 1.999F, 2, -4, 1e30F, kNan, kInf, 1e-30F}, {9}));
  many(Array::from(values, {40, 1000}));
  const TensorStatistics rows[] = {few.statistics.results()[0], many.statistics.results()[0]};
  const auto at = [&](std::size_t row, int exponent) {
    return rows[row].exponents.at(static_cast<std::size_t>(exponent - TensorStatistics::kLowestExponent));
  };
  EXPECT_EQ(at(0, 0), 2);
  EXPECT_EQ(at(0, 1), 1);
  EXPECT_EQ(at(0, 2), 1);
  EXPECT_EQ(at(0, TensorStatistics::kLowestExponent), 1);
  EXPECT_EQ(at(0, TensorStatistics::kLowestExponent + TensorStatistics::kExponents - 1), 1);
  EXPECT_EQ(at(1, -1), 20000 - 51);  // every other column: infinity is not counted
  EXPECT_EQ(at(1, TensorStatistics::kLowestExponent), 50);
  EXPECT_EQ(at(1, 10), 0);
}

// Of 40,000 numbers every other column; the scale is that of the largest, which is between them.
TEST(Statistics, ShadowFormatsSeeASampleWithTheScaleOfAll) {
  std::vector<float> values(40000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 100 : 30;
  values[1] = -10000;
  const struct {
    const char* scale;
    double error, lost;
  } rows[] = {{"tensor", 28.0 * 28 / 10000, 0},  // in units of 128: 100 becomes 128
              {"none", 0, 0}};
  for (const auto& row : rows) {
    Observed observed({.shadow = {"int8"}, .scale = row.scale});
    observed(Array::from(values, {40, 1000}));
    const TensorStatistics found = observed.statistics.results()[0];
    EXPECT_EQ(found.elements, 40000);
    EXPECT_EQ(found.largest, 10000);
    EXPECT_NEAR(found.formats[0].error, row.error, 1e-6) << row.scale;
    EXPECT_EQ(found.formats[0].lost, row.lost) << row.scale;
  }
}

const std::vector<float> kX = {0, 100, -3, 0.01F, 448, -1000};

TEST(Statistics, ShadowFormatsOfEachOperandOverTheSteps) {
  Statistics statistics({.shadow = {"e4m3", "int8"}, .scale = "none"});
  const Variable w("w", Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {6, 1}));
  Step step(test_backend(), [&](const Inputs& in) {
    const OperandScope scope(statistics.operands());
    Tensor slope;
    {
      const Scope layer("fc");
      slope = gradients(sum(matmul(in["x"], w)), {Tensor(w)})[0];
    }
    statistics.record(0);
    return Outputs{{"slope", slope}};
  });
  for (const float factor : {1.0F, 0.5F}) {
    std::vector<float> x = kX;
    for (float& each : x) each *= factor;
    EXPECT_EQ(step({{"x", Array::from(x, {1, 6})}})["slope"].to_vector<float>(), x);  // as it is without
  }
  const std::vector<TensorStatistics> rows = statistics.results();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].layer, "fc");
  EXPECT_EQ(rows[0].role, "activations");
  EXPECT_EQ(rows[0].largest, 1000);
  EXPECT_NEAR(rows[0].mean, (1551.01 + 1551.01 / 2) / 12, 1e-3);
  EXPECT_EQ(rows[0].zeros, 2);
  // e4m3: 100 is 96 or 104 (a tie: 96), 0.01 is 0.009765625, 1000 saturates at 448; half of them: 500 saturates.
  const double energy = 100.0 * 100 + 9 + 1e-4 + 448.0 * 448 + 1e6, first = 16 + 552.0 * 552, second = 4 + 52.0 * 52;
  EXPECT_NEAR(rows[0].formats[0].error, (first / energy + second / (energy / 4)) / 2, 1e-6);
  EXPECT_NEAR(rows[0].formats[0].saturated, 1 / 6.0, 1e-6);
  EXPECT_EQ(rows[0].formats[0].lost, 0);
  EXPECT_NEAR(rows[0].formats[1].lost, 1 / 5.0, 1e-6);  // int8 has no 0.01
  EXPECT_NEAR(rows[0].formats[1].saturated, 2 / 6.0, 1e-6);
  EXPECT_EQ(rows[1].role, "weights");
  EXPECT_EQ(rows[1].formats[0].error, 0);
  EXPECT_EQ(rows[2].role, "gradients");
  EXPECT_EQ(rows[2].mean, 1);
}

TEST(Statistics, LostIsWhatRoundsToZero) {
  const std::vector<std::string> formats = {"e4m3", "e5m2", "int8", "e2m1", "bf16", "e4m3fnuz", "binary8p3sf", "f16"};
  std::vector<float> values;
  for (int e = -40; e < 12; ++e)
    for (const float mantissa : {1.0F, 1.25F, -1.5F}) values.push_back(std::ldexp(mantissa, e));
  values.insert(values.end(), 4, 0.0F);
  const Tensor x = Array::from(values, {4, 40});
  for (const char* scale : {"none", "tensor", "channel", "block"}) {
    Statistics statistics({.shadow = formats, .scale = scale, .block = 8});
    Step step(test_backend(), [&](const Inputs& in) {
      statistics.operands(Measured::figures);
      statistics.observe(in["x"], "x", "activations");
      statistics.record(0);
      return Outputs{};
    });
    step({{"x", x}});
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const Scaling scaling = {.group = scale_group_named(scale), .axis = 1, .block = 8};
      const Tensor lost = scaled_quantized(x, format_named(formats[f]), scaling) == 0 && x != 0;
      const double expected = evaluate(sum(lost), test_backend()).item() / 156;
      EXPECT_NEAR(statistics.results()[0].formats[f].lost, expected, 1e-6) << formats[f] << " " << scale;
    }
  }
}

// Products see rounded operands; the numbers before show what the format could not hold.
TEST(Statistics, SaturationIsThatOfADeclaredFormat) {
  const struct {
    const char* scale;
    std::int64_t saturated;  // of {1, 1000, 3, 500}, in the first step and in the second
    std::int64_t later;
  } rows[] = {{"none", 2, 2}, {"tensor", 0, 0}, {"history", 2, 0}};
  for (const auto& each : rows) {
    const Model net = Model(AnyModel(Sequential{}.add(Linear{.out = 3})), {1, 4}, 1, Dtype::f32)
                          .with_formats({{.activations = "e4m3", .scale = each.scale}});
    Statistics statistics({}, PrecisionPolicy::fp32, net.formats());
    Step step(test_backend(), [&](const Inputs& in) {
      const OperandScope scope(statistics.operands());
      const Tensor loss = sum(net(in["x"], Pass{}));
      statistics.record(0);
      return Outputs{{"loss", loss}};
    });
    const std::map<std::string, Tensor> inputs = {{"x", Array::from(std::vector<float>{1, 1000, 3, 500}, {1, 4})}};
    step(inputs);
    EXPECT_EQ(row_of(statistics.results(), "0", "activations").saturated, each.saturated) << each.scale;
    EXPECT_EQ(row_of(statistics.results(), "0", "activations").largest, 1000) << each.scale;
    statistics.clear();
    step(inputs);
    EXPECT_EQ(row_of(statistics.results(), "0", "activations").saturated, each.later) << each.scale;
  }
}

// A step that is rolled back is measured all the same, and names what overflowed first.
TEST(Statistics, NamesTheFirstOverflowOfAStepThatChangedNothing) {
  const Model net(AnyModel(Sequential{}.add(Linear{.out = 4}).add(Linear{.out = 2})), {3, 5}, 1, Dtype::f32);
  const Optimizer optimizer(net.parameters(), {.rule = Sgd{.momentum = 0}});
  Statistics statistics({}, PrecisionPolicy::fp32);
  const Variable count("count", Array(Dtype::i32, Shape{}), false);
  Step step(test_backend(), [&](const Inputs& in) {
    const OperandScope scope(statistics.operands());
    const Tensor now = count;
    std::vector<Tensor> before;
    for (const Variable& w : net.parameters().trainable()) before.push_back(w);
    const std::vector<Gradient> slopes = gradients(sum(net(in["x"], Pass{})) * in["factor"], optimizer.parameters());
    optimizer.update(slopes);
    Trace::rollback_unless(all_finite(slopes));
    for (std::size_t i = 0; i < before.size(); ++i)
      statistics.observe_update(net.parameters().trainable()[i], before[i]);
    statistics.record(now);
    count.set(now + 1);
    return Outputs{};
  });
  const Tensor x = ones({3, 5});
  step({{"x", Array::from(std::vector<float>(15, 1), {3, 5})}, {"factor", 1.0F}});
  EXPECT_EQ(first_overflow(statistics.results()), nullptr);
  EXPECT_EQ(row_of(statistics.results(), "0", "updates").elements, 5 * 4 + 4);
  EXPECT_EQ(row_of(statistics.results(), "1", "updates").zeros, 0);
  step({{"x", Array::from(std::vector<float>(15, 1), {3, 5})}, {"factor", kInf}});
  const std::vector<TensorStatistics> rows = statistics.results();
  const TensorStatistics* first = first_overflow(rows);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->layer, "1");
  EXPECT_EQ(first->role, "gradients");
  EXPECT_EQ(first->first_overflow, 2);
  EXPECT_EQ(row_of(rows, "1", "updates").zeros, row_of(rows, "1", "updates").elements / 2);  // rolled back
}

// The kernel that makes a tensor measures it: no other one reads as many elements.
TEST(Statistics, TakeNoSecondPassOverWhatAKernelMakes) {
  Statistics statistics({});
  Step step(test_backend(), [&](const Inputs& in) {
    statistics.operands(Measured::figures);
    const Tensor y = exp(in["x"]) * 2;
    statistics.observe(y, "y", "activations");
    statistics.observe(in["x"], "x", "activations");
    statistics.record(0);
    return Outputs{{"y", y}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {64, 8, 14, 14})}});
  EXPECT_EQ(std::ranges::count_if(plan.kernels, [](const Kernel& kernel) { return kernel.domain.size() > 1000; }), 1);
  EXPECT_LE(plan.kernels.size(), 8U);  // the others add up the totals
}

TEST(Statistics, RefusesWhatDoesNotFit) {
  EXPECT_FAULT(usage, "shadow names 9 formats, expected at most 8",
               Statistics({.shadow = std::vector<std::string>(9, "e4m3")}));
  EXPECT_FAULT(usage, "format is \"e4\"", Statistics({.shadow = {"e4"}}));
  EXPECT_FAULT(usage, "histograms is 25 and every 10; expected a multiple of it",
               Statistics({.every = 10, .histograms = 25}));
  EXPECT_FAULT(usage, "statistics: a (activations) is i32, expected a floating type",
               Statistics({}).observe(Array(Dtype::i32, {2}), "a", "activations"));
}

}  // namespace
}  // namespace nixie
