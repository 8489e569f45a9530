// Preparation: how evaluation turns a picture into a sample; stored in checkpoints, so that predictions do the same.
#pragma once

#include <filesystem>

#include "nixie/core/base/array.h"

namespace nixie {

struct Preparation {
  std::int64_t channels = 3;           ///< 3: RGB, 1: grey
  std::int64_t height = 0, width = 0;  ///< of a sample
  std::int64_t short_side = 0;         ///< the picture is scaled to this before the centre crop
  std::vector<double> mean = {};       ///< per channel, of pixels in [0, 1]; empty: 0
  std::vector<double> deviation = {};  ///< per channel; empty: 1
  bool upright = true;                 ///< a picture is turned as its EXIF orientation says
  double megapixels = 256;             ///< the largest picture that is read, in millions of pixels
  std::string layout = "first";        ///< channel axis of arrays with four axes, where both would fit: Arrays::layout

  Shape sample_shape() const { return {channels, height, width}; }
};

/// Decodes a JPEG, PNG or WebP file and prepares it: f32 [C, H, W], normalised. Throws Fault::data naming the file.
Array prepare_picture(const std::filesystem::path& file, const Preparation& preparation);

/// Whether the name has the suffix of an array file: .npz, or HDF5's.
bool is_array_name(const std::filesystem::path& file);
/// The samples of such a file (its array x_test, test_images, images, x, input or x_train), normalised. Throws
/// Fault::data if they do not have the preparation's shape.
std::vector<Array> prepare_arrays(const std::filesystem::path& file, const Preparation& preparation);

/// Whether the name has a suffix of JPEG, PNG or WebP, in any case.
bool is_picture_name(const std::filesystem::path& file);

/// The pictures of paths, in order: a file itself, or the pictures below a folder, sorted; `notes` gets a line for each
/// folder that holds anything else. Throws Fault::data if a path does not exist or a folder holds none.
std::vector<std::filesystem::path> find_pictures(const std::vector<std::filesystem::path>& paths,
                                                 std::vector<std::string>& notes);

}  // namespace nixie
