// Augmentation: what is drawn, against its distribution; what is done to pixels, against formulas; and repeatability.
#include "nixie/data/augment.h"

#include "nixie/data/cifar.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

Draws draws_of(std::int64_t index) { return Draws(random_stream(1, "test"), index); }

TEST(Augment, CropsHaveTheAreaAndRatioAskedFor) {
  const Augment augment{.scale = {0.2f, 0.5f}, .ratio = {0.5f, 2}};
  double area = 0, log_ratio = 0;
  constexpr int kCount = 4000;
  for (int i = 0; i < kCount; ++i) {
    Draws draws = draws_of(i);
    const Box box = draw_crop(augment, 400, 300, draws);
    ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.left + box.width <= 400 && box.top + box.height <= 300);
    const double share = static_cast<double>(box.width * box.height) / (400.0 * 300),
                 ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    ASSERT_TRUE(share > 0.19 && share < 0.51 && ratio > 0.49 && ratio < 2.02) << share << " " << ratio;
    area += share / kCount;
    log_ratio += std::log(ratio) / kCount;
  }
  EXPECT_NEAR(area, 0.35, 4 * 0.3 / std::sqrt(12.0 * kCount) + 0.003);  // tall boxes fit less often
  EXPECT_NEAR(log_ratio, 0, 0.06);
}

TEST(Augment, WhatCannotFitIsTheLargestCentredPart) {
  const Augment augment{.scale = {0.9f, 1}, .ratio = {0.75f, 4.0f / 3}};
  Draws draws = draws_of(0);
  const Box box = draw_crop(augment, 1000, 20, draws);
  EXPECT_EQ(box.width, 27);
  EXPECT_EQ(box.height, 20);
  EXPECT_EQ(box.left, 486);
}

/// Ten tries of a change at full strength; calls `expect(before, after)` for each.
template <class Expect>
void each_change(const Augment& augment, std::int64_t channels, const Expect& expect) {
  for (int i = 0; i < 10; ++i) {
    std::vector<float> before;
    for (std::int64_t k = 0; k < channels * 12 * 10; ++k)
      before.push_back(100 + 60 * std::sin(static_cast<float>(k + i)));
    std::vector<float> after = before;
    Draws draws = draws_of(i), same = draws_of(i);
    change_pixels(augment, 12, 10, std::vector<double>(static_cast<std::size_t>(channels), 0.5), draws, after);
    std::vector<float> again = before;
    change_pixels(augment, 12, 10, std::vector<double>(static_cast<std::size_t>(channels), 0.5), same, again);
    EXPECT_EQ(after, again);
    expect(before, after);
  }
}

TEST(Augment, BrightnessContrastAndSaturationStretchFromTheirCentres) {
  const auto grey = [](const std::vector<float>& p, std::size_t i) {
    return 0.299f * p[i] + 0.587f * p[120 + i] + 0.114f * p[240 + i];
  };
  const auto expect_stretched = [&](const Augment& augment, auto centre) {
    each_change(augment, 3, [&](const std::vector<float>& before, const std::vector<float>& after) {
      float factor = NAN;
      for (std::size_t i = 0; i < before.size(); ++i) {
        const float from = centre(before, i % 120), distance = before[i] - from;
        if (std::abs(distance) < 5 || after[i] <= 0 || after[i] >= 255) continue;
        const float found = (after[i] - from) / distance;
        if (std::isnan(factor)) factor = found;
        ASSERT_NEAR(found, factor, 1e-3);
      }
      EXPECT_TRUE(factor >= 0.5f && factor <= 1.5f) << factor;
      EXPECT_GT(std::abs(factor - 1), 1e-4);
    });
  };
  expect_stretched({.brightness = 0.5f}, [](const auto&, std::size_t) { return 0.0f; });
  expect_stretched({.saturation = 0.5f}, [&](const auto& p, std::size_t i) { return grey(p, i); });
  expect_stretched({.contrast = 0.5f}, [&](const auto& p, std::size_t) {
    float sum = 0;
    for (std::size_t i = 0; i < 120; ++i) sum += grey(p, i) / 120;
    return sum;
  });
}

TEST(Augment, ErasingSetsOneRectangleToTheMean) {
  each_change({.erase = 1}, 1, [](const std::vector<float>& before, const std::vector<float>& after) {
    std::size_t top = 12, bottom = 0, left = 10, right = 0, changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == after[i]) continue;
      EXPECT_EQ(after[i], 127.5f);
      ++changed;
      top = std::min(top, i / 10), bottom = std::max(bottom, i / 10 + 1);
      left = std::min(left, i % 10), right = std::max(right, i % 10 + 1);
    }
    EXPECT_EQ(changed, (bottom - top) * (right - left));
    EXPECT_TRUE(changed >= 1 && changed <= 42) << changed;
  });
}

// A byte of 0.7 more is one more, not none.
TEST(Augment, BytesBecomeTheNearestOfTheChangedPixels) {
  std::vector<std::uint8_t> bytes(31 * 31);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(7 * i);
  std::vector<float> pixels(bytes.begin(), bytes.end());
  Draws draws = draws_of(3), same = draws_of(3);
  const Augment augment{.rotation = 30, .brightness = 0.4f};
  change_pixels(augment, 31, 31, {0}, draws, std::span<std::uint8_t>(bytes));
  change_pixels(augment, 31, 31, {0}, same, std::span<float>(pixels));
  for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], std::nearbyint(pixels[i])) << i;
}

// A line turned about the centre stays a line through the centre.
TEST(Augment, RotationTurnsAboutTheCentre) {
  double most = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<float> pixels(31 * 31, 0.0f);
    for (std::size_t x = 4; x < 27; ++x) pixels[15 * 31 + x] = 200;
    Draws draws = draws_of(i);
    change_pixels({.rotation = 30}, 31, 31, {0}, draws, pixels);
    double xx = 0, xy = 0, yy = 0, mass = 0, x_sum = 0, y_sum = 0;
    for (int y = 0; y < 31; ++y)
      for (int x = 0; x < 31; ++x) {
        const double m = pixels[static_cast<std::size_t>(y * 31 + x)], u = x - 15, v = y - 15;
        mass += m, x_sum += m * u, y_sum += m * v, xx += m * u * u, xy += m * u * v, yy += m * v * v;
      }
    EXPECT_NEAR(x_sum / mass, 0, 0.05);
    EXPECT_NEAR(y_sum / mass, 0, 0.05);
    EXPECT_NEAR(mass, 23 * 200, 23 * 200 * 0.08);
    const double degrees = 0.5 * std::atan2(2 * xy, xx - yy) * 180 / std::numbers::pi;
    EXPECT_LE(std::abs(degrees), 30.5);
    most = std::max(most, std::abs(degrees));
  }
  EXPECT_GT(most, 20);
}

TEST(Augment, DatasetsDrawByIndexAndEpochAndNotInEvaluation) {
  TempFolder folder;
  for (int i = 0; i < 3; ++i) write_file(folder / fmt::format("a/{}.png", i), png(picture(40, 30, i)));
  ImageFolder options{.path = folder.path().string(), .crop = 16, .resize = 20};
  options.holdout = 0.34f;
  options.augment = {
      .scale = {0.1f, 1}, .rotation = 20, .brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f, .erase = 0.5f};
  const auto dataset = options.open().train;
  const auto load = [&](std::int64_t index, std::int64_t epoch, bool training) {
    return sample_bytes(*dataset, index, {.seed = 2, .epoch = epoch, .training = training});
  };
  EXPECT_EQ(load(1, 5, true), load(1, 5, true));
  EXPECT_NE(load(1, 5, true), load(1, 6, true));
  EXPECT_EQ(load(1, 5, false), load(1, 6, false));

  const auto error = [&](const Augment& augment) {
    options.augment = augment;
    return error_of([&] { options.open(); });
  };
  EXPECT_THAT(error({.scale = {0.5f}}), HasSubstr("augment: scale is [0.5], expected [low, high]"));
  EXPECT_THAT(error({.scale = {1, 0.5f}}), HasSubstr("expected [low, high]"));
  EXPECT_THAT(error({.ratio = {}}), HasSubstr("augment: ratio is []"));
}

}  // namespace
}  // namespace nixie
