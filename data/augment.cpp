// Augment: each change is a short function on planes of floats.
#include "nixie/data/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nixie/core/base/dtype.h"
#include "nixie/data/pixels/rand_augment.h"

namespace nixie {
namespace {

float factor_of(float strength, Draws& draws) { return draws.uniform(1 - strength, 1 + strength); }

/// A rectangle of 2 to 33 % of the area whose sides are as 0.3 to 3.3 (Zhong et al. 2020).
void erase(Planes& planes, const std::vector<double>& mean, Draws& draws) {
  const Augment shape{.scale = {0.02f, 0.33f}, .ratio = {0.3f, 3.3f}};
  const Box box = draw_crop(shape, planes.width, planes.height, draws);
  for (std::int64_t c = 0; c < planes.channels; ++c)
    for (std::int64_t y = box.top; y < box.top + box.height; ++y)
      for (std::int64_t x = box.left; x < box.left + box.width; ++x)
        planes.at(c, y * planes.width + x) = static_cast<float>(255 * mean[static_cast<std::size_t>(c)]);
}

}  // namespace

std::string field_text(const Augment& augment) { return fields_text(augment); }

void check_augment(const Augment& augment) {
  const auto check_pair = [](const char* key, const std::vector<float>& values) {
    check(values.size() == 2 && values[0] <= values[1], "augment: ", key, " is ", field_text(values),
          ", expected [low, high]");
  };
  if (augment.crops()) check_pair("scale", augment.scale);
  check_pair("ratio", augment.ratio);
}

Box draw_crop(const Augment& augment, std::int64_t width, std::int64_t height, Draws& draws) {
  const auto area = static_cast<double>(width * height);
  const double low = std::log(augment.ratio[0]), high = std::log(augment.ratio[1]);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * draws.uniform(augment.scale[0], augment.scale[1]);
    const double ratio = std::exp(draws.uniform(static_cast<float>(low), static_cast<float>(high)));
    const std::int64_t w = std::lround(std::sqrt(target * ratio)), h = std::lround(std::sqrt(target / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const std::int64_t top = draws.below(height - h + 1);
    return {draws.below(width - w + 1), top, w, h};
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t w = width, h = height;
  if (ratio < augment.ratio[0])
    h = std::max<std::int64_t>(1, std::lround(static_cast<double>(width) / augment.ratio[0]));
  if (ratio > augment.ratio[1])
    w = std::max<std::int64_t>(1, std::lround(static_cast<double>(height) * augment.ratio[1]));
  return {(width - w) / 2, (height - h) / 2, w, h};
}

void change_pixels(const Augment& augment, std::int64_t height, std::int64_t width, const std::vector<double>& mean,
                   Draws& draws, std::span<float> pixels) {
  Planes planes{static_cast<std::int64_t>(pixels.size()) / (height * width), height, width, pixels};
  if (augment.rotation > 0) {
    const double angle = draws.uniform(-augment.rotation, augment.rotation) * std::numbers::pi / 180;
    warp(planes, {std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0});
  }
  if (augment.brightness > 0) change_brightness(planes, factor_of(augment.brightness, draws));
  if (augment.contrast > 0) change_contrast(planes, factor_of(augment.contrast, draws));
  if (augment.saturation > 0) change_saturation(planes, factor_of(augment.saturation, draws));
  if (augment.hue > 0) change_hue(planes, draws.uniform(-augment.hue, augment.hue));
  if (augment.rand_ops > 0) rand_augment(planes, augment.rand_ops, augment.rand_magnitude, draws);
  if (augment.erase > 0 && draws.uniform() < augment.erase) erase(planes, mean, draws);
}

void change_pixels(const Augment& augment, std::int64_t height, std::int64_t width, const std::vector<double>& mean,
                   Draws& draws, std::span<std::uint8_t> bytes) {
  std::vector<float> pixels(bytes.begin(), bytes.end());
  change_pixels(augment, height, width, mean, draws, std::span<float>(pixels));
  std::transform(pixels.begin(), pixels.end(), bytes.begin(),
                 [](float x) { return convert<std::uint8_t>(std::nearbyint(x)); });
}

}  // namespace nixie
