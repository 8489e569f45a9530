// Augment: random changes of training images; a function of the seed, the epoch and the sample alone.
#pragma once

#include <span>
#include <vector>

#include "nixie/core/base/fields.h"
#include "nixie/data/draws.h"
#include "nixie/data/files/window.h"

namespace nixie {

/// Changes of a dataset's training images besides its own crop and flip; none by default.
struct Augment {
  std::vector<float> scale = {};  ///< random resized crop (Szegedy et al. 2014), as torchvision's
  std::vector<float> ratio = {0.75f, 4.0f / 3};
  float rotation = 0;
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;
  int rand_ops = 0;
  float rand_magnitude = 9;
  float erase = 0;

  static constexpr const char* name = "augment";
  static constexpr auto fields() {
    return field_list(
        field("scale", &Augment::scale,
              "[low, high] fraction of the picture's area that is cropped and scaled to the sample; [] = off",
              {1e-6, 1}),
        field("ratio", &Augment::ratio, "[low, high] width over height of the crop", {1e-3, 1e3}),
        field("rotation", &Augment::rotation, "rotates by up to so many degrees either way", {0, 180}),
        field("brightness", &Augment::brightness, "factor of the pixels from 1 - b to 1 + b", {0, 1}),
        field("contrast", &Augment::contrast, "the same for the distance from the mean grey", {0, 1}),
        field("saturation", &Augment::saturation, "the same for the distance from each pixel's grey", {0, 1}),
        field("hue", &Augment::hue, "shifts the hue by up to this fraction of a full circle either way", {0, 0.5}),
        field("rand_ops", &Augment::rand_ops,
              "RandAugment (Cubuk et al. 2020): how many of its fourteen operations to apply; 0 = off", {0, 14}),
        field("rand_magnitude", &Augment::rand_magnitude, "strength of RandAugment's operations", {0, 30}),
        field("erase", &Augment::erase, "probability that a random rectangle is set to the mean", {0, 1}));
  }

  bool crops() const { return !scale.empty(); }
  bool moves_pixels() const { return rotation > 0 || rand_ops > 0; }
  bool changes_colours() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0 || rand_ops > 0; }
  bool changes_pixels() const { return moves_pixels() || changes_colours() || erase > 0; }
};
std::string field_text(const Augment& augment);

/// Throws a usage Error unless scale and ratio are pairs of ascending numbers.
void check_augment(const Augment& augment);

/// The part of an image that a random resized crop takes: ten tries of an area and a ratio, else the largest centred
/// part of a permitted ratio.
Box draw_crop(const Augment& augment, std::int64_t width, std::int64_t height, Draws& draws);

/// Rotation about the centre (bilinear, black outside), brightness, contrast, saturation, hue, RandAugment and erasing,
/// in this order, on
/// planar pixels [channels, height, width] of 1 or 3 channels in [0, 255]. `mean` has one number per channel.
void change_pixels(const Augment& augment, std::int64_t height, std::int64_t width, const std::vector<double>& mean,
                   Draws& draws, std::span<float> pixels);
/// The same on bytes; each pixel becomes the nearest one.
void change_pixels(const Augment& augment, std::int64_t height, std::int64_t width, const std::vector<double>& mean,
                   Draws& draws, std::span<std::uint8_t> bytes);

}  // namespace nixie
