// Arrays: byte images and labels that numpy has saved.
#pragma once

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// `path` is a .npz file or a folder of .npy files. Images are uint8, [N, H, W], [N, H, W, C] or [N, C, H, W] with any
/// number of channels; labels [N] of whole numbers from 0 on, at most 256 classes. Training images are x_train,
/// train_images, images or x, labels y_train, train_labels, labels or y; test images x_test or test_images, labels
/// y_test or test_labels: without them a share is held out. Mean and deviation are those of the training half.
struct Arrays {
  Path path = "data.npz";
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  std::string layout = "auto";
  int pad = 0;
  bool flip = false;
  Augment augment = {};
  bool normalize = true;
  float holdout = 0.1f;

  static constexpr const char* name = "arrays";
  static constexpr auto fields() {
    return std::tuple{field("path", &Arrays::path,
                            ".npz file, or folder of .npy files: x_train, y_train, x_test, y_test, or images, labels"),
                      field("batch", &Arrays::batch, "samples per step", {1, 1e6}),
                      field("limit", &Arrays::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
                      field("layout", &Arrays::layout,
                            "where the channels of four axes are: first, last, or auto: the axis of 1 or 3, else the "
                            "shorter one of the two"),
                      field("pad", &Arrays::pad, "training: random crop after padding by so many pixels", {0, 256}),
                      field("flip", &Arrays::flip, "training: mirror every other image"),
                      field("augment", &Arrays::augment, "training: further random changes"),
                      field("normalize", &Arrays::normalize, "to mean 0, deviation 1 per channel; else [0, 1]"),
                      field("holdout", &Arrays::holdout, "share for the test half where there is none", {0, 0.9})};
  }
  /// Throws Fault::data naming the file and the array.
  Splits open() const;
};

}  // namespace nixie
