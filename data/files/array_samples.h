// ArrayImages: the images of an array, channels first; and the storage forms of labels.
#pragma once

#include <limits>
#include <optional>
#include <span>

#include "nixie/core/base/shape.h"
#include "nixie/data/files/array_source.h"

namespace nixie {

/// Images that stay in their file.
struct FiledImages {
  std::shared_ptr<const ArrayRows> rows;
  Shape sample_shape;
  bool is_last;                           ///< the channels come last in the file
  std::string where;                      ///< `data.h5: images`
  std::vector<std::int64_t> chosen = {};  ///< the row of each sample, ascending

  /// The pixels of samples that follow each other: bytes as they are, or any numbers as floats. Throws Fault::data.
  template <class T>
  std::vector<T> read(std::size_t first, std::size_t count) const;
};
extern template std::vector<std::uint8_t> FiledImages::read(std::size_t, std::size_t) const;
extern template std::vector<float> FiledImages::read(std::size_t, std::size_t) const;

struct ArrayImages {
  Shape sample_shape = {};  ///< [C, H, W]
  std::int64_t samples = 0;
  std::vector<std::uint8_t> bytes = {};           ///< sample after sample, if the array holds bytes
  std::vector<float> numbers = {};                ///< the same for any other numbers
  std::shared_ptr<const FiledImages> filed = {};  ///< in place of both: too large for memory

  bool is_bytes() const { return filed ? filed->rows->form().type == "u1" : numbers.empty(); }
};

/// From an array [N, H, W], one with four axes whose channel axis is given by `layout` (first, last, auto), or [N, F]:
/// F channels of a pixel, or the shape in the array's attribute `lshape`. Arrays that would take more than `most_bytes`
/// of memory stay in their file, if it can be read in parts. Throws Fault::data prefixed with `file`.
ArrayImages images_of(const ArraySource& source, const std::string& name, const std::string& layout,
                      const std::filesystem::path& file, double most_bytes = std::numeric_limits<double>::infinity());
/// The images of these indices, which ascend.
ArrayImages part_of(const ArrayImages& images, std::span<const std::size_t> indices);

/// Mean and deviation of each channel; bytes count as numbers from 0 to 1.
void measure_images(const ArrayImages& images, std::vector<float>& mean, std::vector<float>& deviation);

/// The first row [N, K] that is not 0 but for a single 1; nothing where all are one-hot rows.
std::optional<std::int64_t> first_row_not_one_hot(const NumberArray& rows);
/// The position of the 1 in each one-hot row.
std::vector<std::int32_t> places_of_ones(const NumberArray& rows);

}  // namespace nixie
