// Arrays: images and targets in files of numpy or h5py.
#pragma once

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// `path` is a .npz or HDF5 file, a table, a folder of .npy files, or a folder of train.h5 and val.h5 or of such
/// tables. Images are bytes or other numbers, [N, H, W], [N, H, W, C] or [N, C, H, W] with any number of channels; [N,
/// F] are F channels of one pixel, or have the shape of the attribute `lshape`. Targets are classes [N], one-hot rows,
/// numbers [N] or [N, ...], or the classes of all pixels [N, H, W]. Training images are x_train, train_images, images,
/// x or input, their targets y_train, train_labels, labels, y, output or masks; test images x_val or val_images, their
/// targets y_val or val_labels, or those of another word for the half (files/half_sources.h): without them a fraction
/// is held out. Other arrays are noted. Mean and deviation are those of the training half. HDF5 images larger than
/// `memory` stay in their file; the samples are the same. Refuses compressed arrays that unpack to more than `unpack`.
struct Arrays {
  Path path = "data.npz";
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  std::string layout = "auto";
  std::string target = "auto";
  int pad = 0;
  bool flip = false;
  Augment augment = {};
  bool normalize = true;
  float holdout = 0.1f;
  double memory = 4;
  double unpack = 0;

  static constexpr const char* name = "arrays";
  static constexpr auto fields() {
    return field_list(
        field("path", &Arrays::path,
              ".npz or .h5 file, folder of .npy files, or folder of train.h5 and test.h5: x_train, y_train, x_test, "
              "y_test, or images, labels, or input, output"),
        field("batch", &Arrays::batch, "samples per step", {1, 1e6}),
        field("limit", &Arrays::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
        field("layout", &Arrays::layout,
              "channel axis of images with four axes: first, last, or auto: the one of size 1 or 3, else the shorter "
              "of the two",
              one_of("auto first last")),
        field("target", &Arrays::target,
              "class, numbers, mask (the class of each pixel), or auto: whole numbers [N] or one-hot rows are classes, "
              "[N, H, W] masks, all else numbers",
              one_of("auto class numbers mask")),
        field("pad", &Arrays::pad, "training: random crop after padding by so many pixels", {0, 256}),
        field("flip", &Arrays::flip, "training: mirror every other image"),
        field("augment", &Arrays::augment, "training: further random changes"),
        field("normalize", &Arrays::normalize, "to mean 0, deviation 1 per channel; else bytes become [0, 1]"),
        field("holdout", &Arrays::holdout, "fraction for the test half if there is none, 0 = train on everything",
              {0, 0.9}),
        field("memory", &Arrays::memory,
              "GiB of memory for a half's images; larger HDF5 images are read from the file, sample by sample",
              {0, 1e6}),
        field("unpack", &Arrays::unpack,
              "GiB that each compressed array of a .npz file, or all of an HDF5 file, may unpack to, 0 = a quarter of "
              "the "
              "free memory",
              {0, 1e6}));
  }
  /// Throws Fault::data naming the file and the array.
  Splits open() const;
};

}  // namespace nixie
