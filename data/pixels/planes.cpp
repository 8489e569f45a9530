// Changes of colour and contrast on planes of pixels; formulas of torchvision's and PIL's operations of the same names.
#include "nixie/data/pixels/planes.h"

#include <cmath>
#include <numeric>
#include <vector>

namespace nixie {
namespace {

/// Calls `change` with each channel's pixels.
template <class Change>
void for_each_channel(Planes& planes, const Change& change) {
  for (std::int64_t c = 0; c < planes.channels; ++c)
    change(planes.pixels.subspan(static_cast<std::size_t>(c * planes.size()), static_cast<std::size_t>(planes.size())));
}

std::size_t level_of(float value) { return static_cast<std::size_t>(std::lround(std::clamp(value, 0.0f, 255.0f))); }

}  // namespace

void warp(Planes& planes, const Motion& motion) {
  const std::vector<float> before(planes.pixels.begin(), planes.pixels.end());
  const double middle_x = static_cast<double>(planes.width - 1) / 2,
               middle_y = static_cast<double>(planes.height - 1) / 2;
  for (std::int64_t y = 0; y < planes.height; ++y)
    for (std::int64_t x = 0; x < planes.width; ++x) {
      const double dx = static_cast<double>(x) - middle_x, dy = static_cast<double>(y) - middle_y;
      const double from_x = middle_x + motion[0] * dx + motion[1] * dy + motion[2],
                   from_y = middle_y + motion[3] * dx + motion[4] * dy + motion[5];
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

void change_brightness(Planes& planes, float factor) {
  stretch(planes, factor, [](std::int64_t) { return 0.0f; });
}

void change_contrast(Planes& planes, float factor) {
  double sum = 0;
  for (std::int64_t i = 0; i < planes.size(); ++i) sum += planes.grey(i);
  const auto middle = static_cast<float>(sum / static_cast<double>(planes.size()));
  stretch(planes, factor, [=](std::int64_t) { return middle; });
}

void change_saturation(Planes& planes, float factor) {
  stretch(planes, factor, [&](std::int64_t i) { return planes.grey(i); });
}

void change_sharpness(Planes& planes, float factor) {
  const std::vector<float> before(planes.pixels.begin(), planes.pixels.end());
  for (std::int64_t c = 0; c < planes.channels; ++c)
    for (std::int64_t y = 1; y + 1 < planes.height; ++y)
      for (std::int64_t x = 1; x + 1 < planes.width; ++x) {
        const auto source = [&](std::int64_t v, std::int64_t u) {
          return before[static_cast<std::size_t>((c * planes.height + v) * planes.width + u)];
        };
        float sum = 4 * source(y, x);  // the loop adds the fifth
        for (std::int64_t v = y - 1; v <= y + 1; ++v)
          for (std::int64_t u = x - 1; u <= x + 1; ++u) sum += source(v, u);
        const float smooth = sum / 13;
        planes.at(c, y * planes.width + x) = std::clamp(smooth + factor * (source(y, x) - smooth), 0.0f, 255.0f);
      }
}

void change_hue(Planes& planes, float turn) {
  if (planes.channels != 3) return;
  for (std::int64_t i = 0; i < planes.size(); ++i) {
    const float r = planes.at(0, i), g = planes.at(1, i), b = planes.at(2, i);
    const float most = std::max({r, g, b}), least = std::min({r, g, b}), range = most - least;
    if (range <= 0) continue;
    float hue = most == r ? (g - b) / range : most == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    hue += 6 * turn;
    hue -= 6 * std::floor(hue / 6);
    // As a function of the distance along the circle, each channel is a trapezium.
    const auto channel = [&](float centre) {
      const float distance = std::abs(hue - centre), around = std::min(distance, 6 - distance);
      return least + range * std::clamp(2 - around, 0.0f, 1.0f);
    };
    planes.at(0, i) = channel(0), planes.at(1, i) = channel(2), planes.at(2, i) = channel(4);
  }
}

void posterize(Planes& planes, int bits) {
  const auto step = static_cast<std::size_t>(1) << (8 - std::clamp(bits, 0, 8));
  for (float& pixel : planes.pixels) pixel = static_cast<float>(level_of(pixel) / step * step);
}

void solarize(Planes& planes, float threshold) {
  for (float& pixel : planes.pixels)
    if (pixel >= threshold) pixel = 255 - pixel;
}

void auto_contrast(Planes& planes) {
  for_each_channel(planes, [](std::span<float> pixels) {
    const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
    const float from = *low, range = *high - *low;
    if (range > 0)
      for (float& pixel : pixels) pixel = (pixel - from) * (255 / range);
  });
}

void equalize(Planes& planes) {
  for_each_channel(planes, [](std::span<float> pixels) {
    std::array<std::int64_t, 256> counts{};
    for (const float pixel : pixels) ++counts[level_of(pixel)];
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t count) { return count > 0; });
    const std::int64_t step = (static_cast<std::int64_t>(pixels.size()) - *last) / 255;
    if (step == 0) return;
    std::array<float, 256> level{};
    std::int64_t below = step / 2;
    for (std::size_t i = 0; i < counts.size(); below += counts[i++])
      level[i] = static_cast<float>(std::min<std::int64_t>(below / step, 255));
    for (float& pixel : pixels) pixel = level[level_of(pixel)];
  });
}

}  // namespace nixie
