// RandAugment's changes against formulas, by name; and that a draw repeats.
#include "nixie/data/pixels/rand_augment.h"

#include "nixie/data/augment.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

constexpr std::int64_t kHeight = 8, kWidth = 10;
constexpr std::size_t kPlane = kHeight * kWidth;

std::vector<float> picture() {
  std::vector<float> pixels;
  for (std::size_t i = 0; i < 3 * kPlane; ++i) pixels.push_back(20 + static_cast<float>((i * 37) % 200));
  return pixels;
}

std::vector<float> changed(const std::string& name, double strength, bool negative) {
  std::vector<float> pixels = picture();
  Planes planes{3, kHeight, kWidth, pixels};
  const auto names = rand_augment_names();
  const auto found = std::find(names.begin(), names.end(), name);
  EXPECT_NE(found, names.end()) << name;
  rand_augment_change(planes, static_cast<std::size_t>(found - names.begin()), strength, negative);
  return pixels;
}

float grey(const std::vector<float>& p, std::size_t i) {
  return 0.299f * p[i] + 0.587f * p[kPlane + i] + 0.114f * p[2 * kPlane + i];
}

TEST(RandAugment, ChangesAreTheirFormulas) {
  const std::vector<float> before = picture();
  struct Case {
    const char* name;
    double strength;
    bool negative;
    std::function<double(std::size_t)> expected;  // of the element
  };
  double mean_grey = 0, low[3] = {999, 999, 999}, high[3] = {};
  for (std::size_t i = 0; i < kPlane; ++i) mean_grey += grey(before, i) / kPlane;
  for (std::size_t i = 0; i < before.size(); ++i) {
    low[i / kPlane] = std::min<double>(low[i / kPlane], before[i]);
    high[i / kPlane] = std::max<double>(high[i / kPlane], before[i]);
  }
  const auto clip = [](double x) { return std::clamp(x, 0.0, 255.0); };
  const auto shifted = [&](std::size_t i, std::int64_t down, std::int64_t right) -> double {
    const auto at = static_cast<std::int64_t>(i % kPlane), y = at / kWidth + down, x = at % kWidth + right;
    const bool is_inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
    return is_inside ? before[i / kPlane * kPlane + static_cast<std::size_t>(y * kWidth + x)] : 0;
  };
  const Case cases[] = {
      {"identity", 30, false, [&](std::size_t i) { return before[i]; }},
      {"brightness", 10, false, [&](std::size_t i) { return clip(1.3 * before[i]); }},
      {"brightness", 10, true, [&](std::size_t i) { return 0.7 * before[i]; }},
      {"color", 30, true,
       [&](std::size_t i) { return clip(grey(before, i % kPlane) + 0.1 * (before[i] - grey(before, i % kPlane))); }},
      {"contrast", 20, false, [&](std::size_t i) { return clip(mean_grey + 1.6 * (before[i] - mean_grey)); }},
      // Trunc(150 / 331 * 10 / 30 * 10 columns) = 1, of 8 rows 1 as well.
      {"translate_x", 10, false, [&](std::size_t i) { return shifted(i, 0, 1); }},
      {"translate_y", 10, true, [&](std::size_t i) { return shifted(i, -1, 0); }},
      {"posterize", 30, false, [&](std::size_t i) { return std::floor(before[i] / 16) * 16; }},
      {"solarize", 15, false, [&](std::size_t i) { return before[i] >= 127.5 ? 255 - before[i] : before[i]; }},
      {"auto_contrast", 3, false,
       [&](std::size_t i) { return (before[i] - low[i / kPlane]) * 255 / (high[i / kPlane] - low[i / kPlane]); }},
      {"shear_x", 0, false, [&](std::size_t i) { return before[i]; }},
      {"rotate", 0, true, [&](std::size_t i) { return before[i]; }},
      {"sharpness", 0, false, [&](std::size_t i) { return before[i]; }},
  };
  for (const Case& c : cases) {
    const std::vector<float> after = changed(c.name, c.strength, c.negative);
    for (std::size_t i = 0; i < after.size(); ++i)
      ASSERT_NEAR(after[i], c.expected(i), 0.02) << c.name << " " << c.strength << " element " << i;
  }
}

TEST(RandAugment, EqualizeMakesLevelsEquallyFrequent) {
  std::vector<float> pixels;
  for (int i = 0; i < 64 * 64; ++i) pixels.push_back(static_cast<float>(100 + i % 8));  // 8 levels of 512 pixels
  Planes planes{1, 64, 64, pixels};
  equalize(planes);
  std::vector<float> levels(pixels.begin(), pixels.begin() + 8);
  for (std::size_t i = 1; i < levels.size(); ++i) EXPECT_NEAR(levels[i] - levels[i - 1], 255.0 / 7, 1.5);
  EXPECT_NEAR(levels[0], 0, 1);
  EXPECT_NEAR(levels[7], 255, 1);
}

TEST(RandAugment, SharpnessMovesAwayFromTheNeighbours) {
  const std::vector<float> before = picture(), smooth = changed("sharpness", 30, true);
  const auto roughness = [](const std::vector<float>& p) {
    double sum = 0;
    for (std::size_t i = 1; i < kPlane; ++i) sum += std::abs(p[i] - p[i - 1]);
    return sum;
  };
  EXPECT_LT(roughness(smooth), roughness(before));
  // An inner pixel by hand: the smooth image is (4 x + sum of 9) / 13.
  const std::size_t at = 3 * kWidth + 4;
  float sum = 4 * before[at];
  for (std::size_t y = 2; y <= 4; ++y)
    for (std::size_t x = 3; x <= 5; ++x) sum += before[y * kWidth + x];
  EXPECT_NEAR(smooth[at], sum / 13 + 0.1f * (before[at] - sum / 13), 0.01);
  EXPECT_EQ(smooth[0], before[0]);
}

TEST(Hue, TurnsColoursAndLeavesGreys) {
  const struct {
    float turn, from[3], to[3];
  } kCases[] = {{1.0f / 3, {200, 50, 50}, {50, 200, 50}},  {-1.0f / 3, {200, 50, 50}, {50, 50, 200}},
                {1.0f / 6, {200, 50, 50}, {200, 200, 50}}, {0.5f, {10, 90, 40}, {90, 10, 60}},
                {0.3f, {77, 77, 77}, {77, 77, 77}},        {0, {12, 34, 56}, {12, 34, 56}}};
  for (const auto& c : kCases) {
    std::vector<float> pixels(c.from, c.from + 3);
    Planes planes{3, 1, 1, pixels};
    change_hue(planes, c.turn);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(pixels[k], c.to[k], 0.01) << c.turn << " channel " << k;
  }
}

TEST(RandAugment, IsAFunctionOfTheDraw) {
  std::set<std::vector<float>> seen;
  for (std::int64_t i = 0; i < 40; ++i) {
    std::vector<float> first = picture(), second = first;
    Draws a(random_stream(1, "test"), i), b(random_stream(1, "test"), i);
    const Augment augment{.rand_ops = 2, .rand_magnitude = 9};
    change_pixels(augment, kHeight, kWidth, {0, 0, 0}, a, first);
    change_pixels(augment, kHeight, kWidth, {0, 0, 0}, b, second);
    EXPECT_EQ(first, second);
    for (const float pixel : first) ASSERT_TRUE(pixel >= -0.01f && pixel <= 255.01f) << pixel;
    seen.insert(first);
  }
  EXPECT_GT(seen.size(), 25u);
}

}  // namespace
}  // namespace nixie
