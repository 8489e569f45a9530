// Normalization: on the host, in graphs of every precision, and what it refuses.
#include "nixie/data/normalization.h"

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

struct Row {
  std::int64_t channels;
  std::vector<float> mean, deviation;
};
const Row kRows[] = {{1, {}, {}},
                     {1, {0.1307f}, {0.3081f}},
                     {3, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
                     {2, {0.5f, 0}, {}}};

TEST(Normalization, IsItsFormulaOnTheHostAndInGraphs) {
  const auto cpu = make_cpu_backend(1);
  for (const Row& row : kRows) {
    const Normalization normalize(row.channels, row.mean, row.deviation);
    Array bytes(Dtype::u8, {2, row.channels, 8, 16});
    const auto pixels = bytes.data<std::uint8_t>();
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 256 ^ i / 256);
    const std::vector<double> values = evaluate(normalize(Tensor(bytes)), *cpu).to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i / 128 % static_cast<std::size_t>(row.channels);
      const double expected =
          (pixels[i] / 255.0 - (row.mean.empty() ? 0 : row.mean[c])) / (row.deviation.empty() ? 1 : row.deviation[c]);
      ASSERT_NEAR(values[i], expected, 2e-6);
      ASSERT_EQ(values[i], normalize(pixels[i], static_cast<std::int64_t>(c)));
    }
  }
}

// A convolution pads what it reads: zero after the normalisation, which no byte may become.
TEST(Normalization, PaddingIsZeroAfterwards) {
  const auto cpu = make_cpu_backend(1);
  const Normalization normalize(3, {0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f});  // black is -2
  for (const PrecisionPolicy policy : {PrecisionPolicy::ieee, PrecisionPolicy::fp16, PrecisionPolicy::bf16}) {
    Step step(
        *cpu,
        [&](const Inputs& in) {
          return Outputs{{"y", conv(normalize(in["images"]), ones({1, 3, 3, 3}), {.pad = {1}})}};
        },
        policy);
    Array black(Dtype::u8, {1, 3, 4, 5});
    std::fill(black.data<std::uint8_t>().begin(), black.data<std::uint8_t>().end(), std::uint8_t{0});
    const std::vector<double> y = step({{"images", black}}).at("y").to_vector<double>();
    for (int row = 0; row < 4; ++row)
      for (int column = 0; column < 5; ++column) {
        const int taps = (row % 3 == 0 ? 2 : 3) * (column % 4 == 0 ? 2 : 3);
        EXPECT_EQ(y[static_cast<std::size_t>(row * 5 + column)], -6 * taps) << row << ", " << column;
      }
  }
}

TEST(Normalization, BadInput) {
  const auto made = [](const Row& row) {
    return error_of([&] { Normalization(row.channels, row.mean, row.deviation); });
  };
  EXPECT_THAT(made({3, {0.5f}, {1, 1, 1}}), HasSubstr("mean has 1 numbers, expected one for each of 3 channels"));
  EXPECT_THAT(made({2, {}, {1, 1, 1}}), HasSubstr("deviation has 3 numbers, expected one for each of 2 channels"));
  for (const auto& [deviation, text] :
       {std::pair{0.0f, "0"}, {-1.0f, "-1"}, {NAN, "nan"}, {INFINITY, "inf"}, {-INFINITY, "-inf"}})
    EXPECT_THAT(made({2, {}, {1, deviation}}),
                HasSubstr(fmt::format("the deviation of channel 1 is {}, expected a positive number", text)));
  for (const auto& [mean, text] : {std::pair{NAN, "nan"}, {INFINITY, "inf"}, {-INFINITY, "-inf"}})
    EXPECT_THAT(made({2, {0, mean}, {}}),
                HasSubstr(fmt::format("the mean of channel 1 is {}, expected a number", text)));
  EXPECT_THAT(made({1, {}, {1e-44f}}), HasSubstr("too small for f32 with the mean 0; give the deviation"));
  EXPECT_THAT(made({1, {1e30f}, {1e-10f}}), HasSubstr("too small for f32 with the mean 1"));
  const auto used = [](const Shape& images) { return error_of([&] { Normalization(3)(zeros(images)); }); };
  EXPECT_THAT(used({2, 1, 4, 4}), HasSubstr("images are [2, 1, 4, 4], expected [N, 3, ...]"));
  EXPECT_THAT(used({3}), HasSubstr("images are [3], expected [N, 3, ...]"));
}

}  // namespace
}  // namespace nixie
