// ImageFolder: JPEG and PNG files in a folder per class or in tar shards, of any size, decoded as they are needed.
#pragma once

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [channels, crop, crop]. `path` holds either one folder per class, of which a fixed share is held out as the
/// test half, or the folders train (training) and val (valid, validation, test, testing), in any case, each with one
/// folder per class. A manifest (.csv) or tar shards of webdataset's layout may stand for a folder of class folders.
/// What is left out is noted. Classes are numbered in the order of their folders' names. Samples go round the classes:
/// the first of each class, the second of each, ...
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

  static constexpr const char* name = "image_folder";
  static constexpr auto fields() {
    return std::tuple{
        field("path", &ImageFolder::path,
              "folder of class folders, or of train and val (or test) with class folders; also .csv files of rows "
              "picture,class, and .tar files of pictures with their classes beside them"),
        field("batch", &ImageFolder::batch, "samples per step", {1, 1e6}),
        field("limit", &ImageFolder::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
        field("crop", &ImageFolder::crop, "side of a sample; training cuts anywhere, evaluation in the centre",
              {1, 4096}),
        field("resize", &ImageFolder::resize, "short side before the crop, 0 = 8/7 of the crop, with pad the crop",
              {0, 8192}),
        field("pad", &ImageFolder::pad, "training: black around the scaled picture before the crop, in pixels",
              {0, 4096}),
        field("channels", &ImageFolder::channels, "3 for RGB, 1 for grey", {1, 3}),
        field("flip", &ImageFolder::flip, "training: mirror every other image"),
        field("augment", &ImageFolder::augment, "training: further random changes"),
        field("normalize", &ImageFolder::normalize, "(x - mean) / deviation of pixels in [0, 1]; else [0, 1]"),
        field("mean", &ImageFolder::mean, "one number per channel, [] = ImageNet's", {0, 1}),
        field("deviation", &ImageFolder::deviation, "one number per channel, [] = ImageNet's", {1e-6, 1e6}),
        field("holdout", &ImageFolder::holdout, "share of each class for the test half where path has no val or test",
              {0, 0.9}),
        field(
            "target", &ImageFolder::target,
            "class; numbers: all columns of a .csv file behind the picture; mask: the PNG file in its second column; "
            "auto: "
            "numbers where the second column has any that is not whole, masks where it names PNG files, else classes"),
        field("damaged", &ImageFolder::damaged,
              "pictures that cannot be decoded: error ends the run there; check and skip decode all pictures first, "
              "and refuse or leave out the damaged ones")};
  }
  /// Throws Fault::data when there is nothing to read, and later, from load, naming a damaged file.
  Splits open() const;
};

}  // namespace nixie
