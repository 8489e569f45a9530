// Augment: each change is a short function on planes of floats.
#include "nixie/data/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nixie {
namespace {

/// Planes of one sample.
struct Planes {
  std::int64_t channels, height, width;
  std::span<float> pixels;

  std::int64_t size() const { return height * width; }
  float& at(std::int64_t c, std::int64_t i) { return pixels[static_cast<std::size_t>(c * size() + i)]; }
  float at(std::int64_t c, std::int64_t i) const { return pixels[static_cast<std::size_t>(c * size() + i)]; }
  float grey(std::int64_t i) const {
    return channels == 3 ? 0.299f * at(0, i) + 0.587f * at(1, i) + 0.114f * at(2, i) : at(0, i);
  }
};

void rotate(Planes& planes, double degrees) {
  const std::vector<float> before(planes.pixels.begin(), planes.pixels.end());
  const double angle = degrees * std::numbers::pi / 180, cosine = std::cos(angle), sine = std::sin(angle);
  const double middle_x = static_cast<double>(planes.width - 1) / 2,
               middle_y = static_cast<double>(planes.height - 1) / 2;
  for (std::int64_t y = 0; y < planes.height; ++y)
    for (std::int64_t x = 0; x < planes.width; ++x) {
      const double dx = static_cast<double>(x) - middle_x, dy = static_cast<double>(y) - middle_y;
      const double from_x = middle_x + cosine * dx - sine * dy, from_y = middle_y + sine * dx + cosine * dy;
      const auto left = static_cast<std::int64_t>(std::floor(from_x)),
                 top = static_cast<std::int64_t>(std::floor(from_y));
      const auto a = static_cast<float>(from_x - static_cast<double>(left)),
                 b = static_cast<float>(from_y - static_cast<double>(top));
      for (std::int64_t c = 0; c < planes.channels; ++c) {
        const auto source = [&](std::int64_t v, std::int64_t u) {
          const bool is_inside = v >= 0 && v < planes.height && u >= 0 && u < planes.width;
          return is_inside ? before[static_cast<std::size_t>((c * planes.height + v) * planes.width + u)] : 0.0f;
        };
        planes.at(c, y * planes.width + x) = (1 - b) * ((1 - a) * source(top, left) + a * source(top, left + 1)) +
                                             b * ((1 - a) * source(top + 1, left) + a * source(top + 1, left + 1));
      }
    }
}

/// Each pixel at `factor` times its distance from what `centre` gives for its position, within [0, 255].
template <class Centre>
void stretch(Planes& planes, float factor, const Centre& centre) {
  for (std::int64_t i = 0; i < planes.size(); ++i) {
    const float from = centre(i);
    for (std::int64_t c = 0; c < planes.channels; ++c)
      planes.at(c, i) = std::clamp(from + factor * (planes.at(c, i) - from), 0.0f, 255.0f);
  }
}

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
  if (augment.rotation > 0) rotate(planes, draws.uniform(-augment.rotation, augment.rotation));
  if (augment.brightness > 0) stretch(planes, factor_of(augment.brightness, draws), [](std::int64_t) { return 0.0f; });
  if (augment.contrast > 0) {
    double sum = 0;
    for (std::int64_t i = 0; i < planes.size(); ++i) sum += planes.grey(i);
    const auto middle = static_cast<float>(sum / static_cast<double>(planes.size()));
    stretch(planes, factor_of(augment.contrast, draws), [=](std::int64_t) { return middle; });
  }
  if (augment.saturation > 0)
    stretch(planes, factor_of(augment.saturation, draws), [&](std::int64_t i) { return planes.grey(i); });
  if (augment.erase > 0 && draws.uniform() < augment.erase) erase(planes, mean, draws);
}

}  // namespace nixie
