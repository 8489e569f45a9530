// Packed: images that `trainer data pack` has decoded and scaled, read at memory speed.
#pragma once

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [C, crop, crop], or of the stored size. `path` holds train.packed and test.packed. Mean and
/// deviation are those of the training half.
struct Packed {
  Path path = "packed";
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  int crop = 0;
  int pad = 0;
  bool flip = false;
  Augment augment = {};
  bool normalize = true;
  std::vector<float> mean = {};
  std::vector<float> deviation = {};

  static constexpr const char* name = "packed";
  static constexpr auto fields() {
    return field_list(
        field("path", &Packed::path, "folder of train.packed and test.packed, as `trainer data pack` writes it"),
        field("batch", &Packed::batch, "samples per step", {1, 1e6}),
        field("limit", &Packed::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
        field("crop", &Packed::crop,
              "side of a sample; training crops at random, evaluation from the centre; 0 = the stored size", {0, 4096}),
        field("pad", &Packed::pad, "training: black padding of the image before the crop, in pixels", {0, 4096}),
        field("flip", &Packed::flip, "training: mirror every other image"),
        field("augment", &Packed::augment, "training: further random changes"),
        field("normalize", &Packed::normalize, "(x - mean) / deviation of pixels in [0, 1]; else [0, 1]"),
        field("mean", &Packed::mean, "one number per channel, [] = that of the training half", {0, 1}),
        field("deviation", &Packed::deviation, "one number per channel, [] = that of the training half", {1e-6, 1e6}));
  }
  /// Throws Fault::data if a file is missing or damaged; damaged samples are found when they are read.
  Splits open() const;
};

}  // namespace nixie
