// ArrayImages: the images that an array holds, channels first; and what labels may be stored as.
#pragma once

#include "nixie/core/base/shape.h"
#include "nixie/data/files/array_source.h"

namespace nixie {

struct ArrayImages {
  Shape sample_shape = {};  ///< [C, H, W]
  std::int64_t samples = 0;
  std::vector<std::uint8_t> bytes = {};  ///< sample after sample, where the array holds bytes
  std::vector<float> numbers = {};       ///< the same of any other numbers

  bool is_bytes() const { return numbers.empty(); }
};

/// Of an array [N, H, W], four axes with the channels where `layout` (first, last, auto) says, or [N, F]: F channels of
/// a pixel, or of the shape that the array's attribute `lshape` says. Throws Fault::data with `file` in front.
ArrayImages images_of(const ArraySource& source, const std::string& name, const std::string& layout,
                      const std::filesystem::path& file);

/// Mean and deviation of each channel; of bytes as numbers from 0 to 1.
void measure_images(const ArrayImages& images, std::vector<float>& mean, std::vector<float>& deviation);

/// Whether each row [N, K] with K > 1 is 0 but for a single 1.
bool is_one_hot_rows(const NumberArray& rows);
/// Where the 1 of each such row is.
std::vector<std::int32_t> places_of_ones(const NumberArray& rows);

}  // namespace nixie
