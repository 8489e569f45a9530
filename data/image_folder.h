// ImageFolder: JPEG, PNG and WebP files of any size, in a folder per class or in tar shards, decoded on demand.
#pragma once

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [channels, crop, crop]. `path` holds either one folder per class, of which a fixed fraction is held out as
/// the test half, or the folders train and val, or other words for the halves (files/half_sources.h), each with one
/// folder per class. A manifest (.csv) or tar shards in webdataset's layout may replace a folder of class folders.
/// Skipped files are noted. Classes are numbered in the order of their folders' names. Samples alternate between
/// classes: the first of each class, the second of each, ...
struct ImageFolder {
  Path path = "images";
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  int crop = 224;
  int resize = 0;
  int pad = 0;
  int channels = 3;
  bool flip = false;
  Augment augment = {};
  bool normalize = true;
  std::vector<float> mean = {};
  std::vector<float> deviation = {};
  float holdout = 0.1f;
  std::string target = "auto";
  std::string damaged = "error";
  bool upright = true;
  double megapixels = 256;

  static constexpr const char* name = "image_folder";
  static constexpr auto fields() {
    return field_list(
        field("path", &ImageFolder::path,
              "folder of class folders, or of train and val (or test) with class folders; also .csv files of rows "
              "picture,class, and .tar files of pictures with their classes beside them"),
        field("batch", &ImageFolder::batch, "samples per step", {1, 1e6}),
        field("limit", &ImageFolder::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
        field("crop", &ImageFolder::crop, "side of a sample; training crops at random, evaluation from the centre",
              {1, 4096}),
        field("resize", &ImageFolder::resize,
              "short side before the crop, 0 = 8/7 of the crop, or the crop itself with pad", {0, 8192}),
        field("pad", &ImageFolder::pad, "training: black padding of the scaled picture before the crop, in pixels",
              {0, 4096}),
        field("channels", &ImageFolder::channels, "3 for RGB, 1 for grey", {1, 3}),
        field("flip", &ImageFolder::flip, "training: mirror every other image"),
        field("augment", &ImageFolder::augment, "training: further random changes"),
        field("normalize", &ImageFolder::normalize, "(x - mean) / deviation of pixels in [0, 1]; else [0, 1]"),
        field("mean", &ImageFolder::mean, "one number per channel, [] = ImageNet's", {0, 1}),
        field("deviation", &ImageFolder::deviation, "one number per channel, [] = ImageNet's", {1e-6, 1e6}),
        field("holdout", &ImageFolder::holdout,
              "fraction of each class for the test half if path has no val or test, 0 = train on everything", {0, 0.9}),
        field("target", &ImageFolder::target,
              "class; numbers: all columns of a .csv file behind the picture; mask: the PNG file in its second column; "
              "auto: "
              "numbers where the second column has any that is not whole, masks where it names PNG files, else classes",
              one_of("auto class numbers mask")),
        field("damaged", &ImageFolder::damaged,
              "pictures that cannot be decoded: error ends the run when one is read; check and skip decode all "
              "pictures first, and refuse or skip the damaged ones",
              one_of("error check skip")),
        field("upright", &ImageFolder::upright,
              "turn pictures and masks as their own EXIF orientation says; else they are as they are stored"),
        field(
            "megapixels", &ImageFolder::megapixels,
            "the largest picture or mask that is read, in millions of pixels; it must fit half of the free memory, too",
            {0.001, 1e6}));
  }
  /// Throws Fault::data if there is nothing to read; load throws it later for a damaged file, naming the file.
  Splits open() const;
};

}  // namespace nixie
