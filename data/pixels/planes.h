// Planes: pixel augmentations of one sample: affine warps and colour changes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace nixie {

/// Planar pixels [channels, height, width] in [0, 255].
struct Planes {
  std::int64_t channels, height, width;
  std::span<float> pixels;

  std::int64_t size() const { return height * width; }
  float& at(std::int64_t c, std::int64_t i) { return pixels[static_cast<std::size_t>(c * size() + i)]; }
  float at(std::int64_t c, std::int64_t i) const { return pixels[static_cast<std::size_t>(c * size() + i)]; }
  /// Rec. 601 of three channels, else the first.
  float grey(std::int64_t i) const {
    return channels == 3 ? 0.299f * at(0, i) + 0.587f * at(1, i) + 0.114f * at(2, i) : at(0, i);
  }
};

/// The source of a result pixel, in coordinates from the image's centre: x' = a x + b y + c, y' = d x + e y + f.
using Motion = std::array<double, 6>;
/// Bilinear, black outside.
void warp(Planes& planes, const Motion& motion);

/// Scales each pixel's distance from `centre` at its position by `factor`, clamped to [0, 255].
template <class Centre>
void stretch(Planes& planes, float factor, const Centre& centre) {
  for (std::int64_t i = 0; i < planes.size(); ++i) {
    const float from = centre(i);
    for (std::int64_t c = 0; c < planes.channels; ++c)
      planes.at(c, i) = std::clamp(from + factor * (planes.at(c, i) - from), 0.0f, 255.0f);
  }
}
void change_brightness(Planes& planes, float factor);  ///< away from black
void change_contrast(Planes& planes, float factor);    ///< away from the mean grey
void change_saturation(Planes& planes, float factor);  ///< away from each pixel's grey
/// Away from the mean of each pixel's 3 x 3 neighbours (the centre counts 5 of 13); the edge stays.
void change_sharpness(Planes& planes, float factor);
/// Rotates the hue of HSV by `turn` of a full circle; grey has none.
void change_hue(Planes& planes, float turn);
/// Keeps the upper `bits` of 8.
void posterize(Planes& planes, int bits);
/// 255 - x for all x from `threshold` on.
void solarize(Planes& planes, float threshold);
/// Each channel stretched to 0 to 255.
void auto_contrast(Planes& planes);
/// Each channel's grey levels made equally frequent.
void equalize(Planes& planes);

}  // namespace nixie
