// Generated: synthetic learnable images of any size and class count, generated faster than a net can train on them.
#pragma once

#include "nixie/core/base/fields.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [channels, height, width] of mean about 0 and deviation about 1: a smooth pattern per class, at a random
/// contrast, under noise. A sample depends on its index alone. With `masks` two classes share an image, each in the
/// columns on one side of a border, and the target is the class of each pixel.
struct Generated {
  std::int64_t channels = 3, height = 32, width = 32;
  std::int64_t classes = 10;
  std::int64_t train = 10000, test = 1000;
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  float noise = 0.5f;
  bool masks = false;

  static constexpr const char* name = "generated";
  static constexpr auto fields() {
    return field_list(
        field("channels", &Generated::channels, "channels of an image", {1, 4096}),
        field("height", &Generated::height, "height in pixels", {1, 65536}),
        field("width", &Generated::width, "width in pixels", {1, 65536}),
        field("classes", &Generated::classes, "number of classes", {1, 1e6}),
        field("train", &Generated::train, "training samples", {1, 1e9}),
        field("test", &Generated::test, "test samples", {1, 1e9}),
        field("batch", &Generated::batch, "samples per step", {1, 1e6}),
        field("limit", &Generated::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
        field("noise", &Generated::noise, "deviation of the noise; the pattern's is 0.9", {0, 1e3}),
        field("masks", &Generated::masks, "two classes share an image; targets are a class for each pixel"));
  }
  Splits open() const;
};

}  // namespace nixie
