// ArrayImages: the images of an array, channels first; and the storage forms of labels.
#pragma once

#include "nixie/core/base/shape.h"
#include "nixie/data/files/array_source.h"

namespace nixie {

struct ArrayImages {
  Shape sample_shape = {};  ///< [C, H, W]
  std::int64_t samples = 0;
  std::vector<std::uint8_t> bytes = {};  ///< sample after sample, if the array holds bytes
  std::vector<float> numbers = {};       ///< the same for any other numbers

  bool is_bytes() const { return numbers.empty(); }
};

/// From an array [N, H, W], one with four axes whose channel axis is given by `layout` (first, last, auto), or [N, F]:
/// F channels of a pixel, or the shape in the array's attribute `lshape`. Throws Fault::data prefixed with `file`.
ArrayImages images_of(const ArraySource& source, const std::string& name, const std::string& layout,
                      const std::filesystem::path& file);

/// Mean and deviation of each channel; bytes count as numbers from 0 to 1.
void measure_images(const ArrayImages& images, std::vector<float>& mean, std::vector<float>& deviation);

/// Whether each row [N, K] with K > 1 is 0 but for a single 1.
bool is_one_hot_rows(const NumberArray& rows);
/// The position of the 1 in each such row.
std::vector<std::int32_t> places_of_ones(const NumberArray& rows);

}  // namespace nixie
