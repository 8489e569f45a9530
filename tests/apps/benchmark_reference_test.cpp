// The benchmark's reference in double, and what rounding may do to a sum.
#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/subjects/contractions.h"
#include "nixie/apps/benchmark/subjects/distributions.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/test.h"

namespace nixie::benchmark {
namespace {

Tensor noise(const Shape& shape, const char* purpose) { return uniform(shape, random_stream(7, purpose)) - 0.5; }

/// All gradients of a product or convolution, whose backward pass has the other roles.
std::vector<Contraction> contractions_with_gradients(const Tensor& y, const std::vector<Tensor>& operands) {
  std::vector<Gradient> none;
  std::vector<Contraction> all = contractions_of(y, none);
  for (const Tensor& gradient : gradients(sum(y * noise(y.shape(), "dy")), operands))
    for (const Contraction& contraction : contractions_of(gradient, none)) all.push_back(contraction);
  return all;
}

TEST(BenchmarkReference, AgreesWithTheBackendInEveryRole) {
  const auto backend = make_backend("cpu");
  const Tensor x = noise({2, 6, 9, 8}, "x"), line = noise({3, 4, 11}, "line"), box = noise({2, 2, 5, 4, 6}, "box");
  const Tensor w = noise({4, 3, 3, 2}, "w"), taps = noise({5, 4, 3}, "taps"), cube = noise({3, 2, 2, 3, 2}, "cube");
  const Tensor a = noise({2, 5, 7}, "a"), b = noise({2, 7, 3}, "b");
  const struct {
    Tensor y;
    std::vector<Tensor> operands;
  } kCases[] = {
      {conv(x, w, {.stride = {2, 1}, .pad = {1, 2}, .dilation = {1, 2}, .groups = 2}), {x, w}},
      {conv(line, taps, {.stride = {3}, .pad = {2}}), {line, taps}},
      {conv(box, cube, {.pad = {1}}), {box, cube}},
      {matmul(a, b), {a, b}},
  };
  for (const auto& [y, operands] : kCases) {
    const std::vector<Contraction> all = contractions_with_gradients(y, operands);
    ASSERT_EQ(all.size(), 3u);
    for (const Contraction& contraction : all) {
      const Tensor& node = contraction.node;
      const auto stored = evaluate({node.inputs()[0], node.inputs()[1], node}, *backend);
      const auto deviation = [&](const Array& result) {
        return compare_with_reference(node, stored[0].array(), stored[1].array(), result, precision_named("fp32"),
                                      node.shape().size());
      };
      EXPECT_LT(deviation(stored[2].array()).error(), 2e-6) << to_string(node.shape());
      EXPECT_LE(deviation(stored[2].array()).share(), 1) << to_string(node.shape());
      Array wrong = stored[2].array().clone();
      wrong.data<float>().back() += 0.05f;
      EXPECT_GT(deviation(wrong).error(), 1e-3) << to_string(node.shape());
      EXPECT_GT(deviation(wrong).share(), 1) << to_string(node.shape());
      wrong.data<float>()[1] = std::nanf("");
      EXPECT_TRUE(std::isinf(deviation(wrong).error()));
      EXPECT_TRUE(std::isinf(deviation(wrong).share()));
    }
  }
}

TEST(BenchmarkReference, SamplesTheEndsAndNothingTwiceOfASmallArray) {
  EXPECT_EQ(sampled_positions(3, 32), (std::vector<std::int64_t>{0, 1, 2}));
  const auto many = sampled_positions(std::int64_t{1} << 33, 32);
  ASSERT_EQ(many.size(), 32u);
  EXPECT_EQ(many[0], 0);
  EXPECT_EQ(many[1], (std::int64_t{1} << 33) - 1);
  EXPECT_GT(*std::max_element(many.begin() + 2, many.end()), std::int64_t{1} << 32) << "far positions are drawn too";
}

TEST(BenchmarkReference, DistanceIsThatOfWholeArrays) {
  const Array a = Array::from<float>({3, 4, 0}, {3}), b = Array::from<float>({3, 4, 0.5f}, {3});
  EXPECT_EQ(relative_distance(a, a), 0);
  EXPECT_NEAR(relative_distance(b, a), 0.1, 1e-12);
  EXPECT_TRUE(std::isinf(relative_distance(Array::from<float>({3, 4, HUGE_VALF}, {3}), a)));
}

// 1.6 million products, as a filter gradient of the first layer of ResNet-50 adds up, in floats.
TEST(BenchmarkRounding, IsWhatLongSumsOfFloatsMayHave) {
  constexpr std::int64_t kTerms = 128 * 112 * 112, kPart = 16384, kSums = 8;
  const Rounding rounding = precision_named("fp32").rounding;
  const Array x = host_noise({kTerms + kSums}, Dtype::f32, "x"), y = host_noise({kTerms}, Dtype::f32, "y");
  const float *a = x.data<float>().data(), *b = y.data<float>().data();
  Deviation deviation, wrong;
  for (std::int64_t s = 0; s < kSums; ++s) {
    ExactSum exact;
    float sum = 0, part = 0;
    for (std::int64_t i = 0; i < kTerms; ++i) {
      const float pixel = a[i + s] + 0.5f;
      exact.add(static_cast<double>(pixel) * static_cast<double>(b[i]));
      part += pixel * b[i];
      if ((i + 1) % kPart == 0) sum += std::exchange(part, 0.0f);
    }
    deviation.add(sum + part, exact, rounding);
    wrong.add(static_cast<double>(sum + part) + 1e-2 * std::sqrt(exact.squares), exact, rounding);
  }
  EXPECT_LE(deviation.share(), 1);
  EXPECT_GT(deviation.share(), 1e-3) << "a bound that explains anything";
  EXPECT_GT(wrong.share(), 1);
}

// Tensor cores align 16 products and the sum so far, and cut each off 24 bits below the largest. Where most products
// have one sign and few large ones the other, as behind a max pooling and batch norm, every step loses to one side.
TEST(BenchmarkRounding, IsWhatTensorCoresCutOff) {
  constexpr std::int64_t kTerms = 512 * 1024, kPart = 32768;
  const Rounding rounding = precision_named("fp16").rounding;
  const Array x = host_noise({kTerms}, Dtype::f32, "x"), y = host_noise({kTerms}, Dtype::f32, "y");
  const float *a = x.data<float>().data(), *b = y.data<float>().data();
  ExactSum exact;
  double sum = 0, part = 0, step[16] = {};
  for (std::int64_t i = 0; i < kTerms; ++i) {
    const double product = (static_cast<double>(a[i]) + 0.5) * (b[i] < -0.3f ? 4e-3 : -1e-3);
    step[i % 16] = product;
    exact.add(product);
    if (i % 16 < 15) continue;
    double largest = std::abs(part), added = 0;
    for (const double term : step) largest = std::max(largest, std::abs(term));
    const double unit = std::ldexp(1.0, std::ilogb(largest) - 24);
    const auto cut = [&](double value) { return std::trunc(value / unit) * unit; };
    for (const double term : step) added += cut(term);
    part = cut(part) + added;
    if ((i + 1) % kPart == 0) sum += std::exchange(part, 0.0);
  }
  Deviation deviation, wrong;
  deviation.add(sum, exact, rounding);
  wrong.add(sum + 0.1 * std::sqrt(exact.squares), exact, rounding);
  EXPECT_LE(deviation.share(), 1);
  EXPECT_GT(std::abs(sum - exact.value), 0.1 * rounding.product * exact.cut()) << "a bound that explains anything";
  EXPECT_GT(wrong.share(), 1);
}

// One product of 4608 is left out: the smallest mistake that an index makes.
TEST(BenchmarkRounding, DoesNotExplainAMissingTerm) {
  for (const char* name : {"fp32", "fp16"}) {
    const PrecisionTraits precision = precision_named(name);
    const Array x = host_noise({4608}, precision.data, "x"), y = host_noise({4608}, precision.data, "y");
    const Elements a(x), b(y);
    ExactSum exact;
    for (std::int64_t i = 0; i < 4608; ++i) exact.add(a[i] * b[i]);
    Deviation deviation;
    deviation.add(exact.value - std::sqrt(exact.squares / 4608), exact, precision.rounding);
    EXPECT_GT(deviation.share(), 1) << name;
  }
}

}  // namespace
}  // namespace nixie::benchmark
