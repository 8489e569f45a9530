// Preparation: how evaluation turns a picture into a sample; it travels in checkpoints, so that predictions repeat it.
#pragma once

#include <filesystem>

#include "nixie/core/base/array.h"

namespace nixie {

struct Preparation {
  std::int64_t channels = 3;           ///< 3: RGB, 1: grey
  std::int64_t height = 0, width = 0;  ///< of a sample
  std::int64_t short_side = 0;         ///< the picture is scaled to this before the centre is cut out
  std::vector<double> mean = {};       ///< per channel, of pixels in [0, 1]; empty: 0
  std::vector<double> deviation = {};  ///< per channel; empty: 1

  Shape sample_shape() const { return {channels, height, width}; }
};

/// Decodes a JPEG or PNG file and prepares it: f32 [C, H, W], normalised. Throws Fault::data naming the file.
Array prepare_picture(const std::filesystem::path& file, const Preparation& preparation);

/// Whether the name ends as a file of arrays does: .npz, or an HDF5 file's.
bool is_array_name(const std::filesystem::path& file);
/// The samples of such a file (its array x_test, test_images, images, x, input or x_train), normalised. Throws
/// Fault::data where they are not of the preparation's shape.
std::vector<Array> prepare_arrays(const std::filesystem::path& file, const Preparation& preparation);

/// Whether the name ends as a JPEG or PNG file's does, in any case.
bool is_picture_name(const std::filesystem::path& file);

/// The pictures that paths name, in order: a file is itself, a folder the pictures below it, sorted. Throws Fault::data
/// where a path does not exist or a folder holds none.
std::vector<std::filesystem::path> find_pictures(const std::vector<std::filesystem::path>& paths);

}  // namespace nixie
