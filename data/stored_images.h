// StoredImages: a dataset of equal-sized byte images held in memory, with the padding crop and flip of small images.
#pragma once

#include <filesystem>
#include <vector>

#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

class StoredImages : public ByteDataset {
 public:
  struct Content {
    Shape sample_shape;                ///< [C, H, W]
    std::vector<std::uint8_t> pixels;  ///< sample after sample, in C, H, W order
    std::vector<std::uint8_t> labels;  ///< one per sample
  };
  struct Transform {
    std::vector<float> mean = {}, deviation = {};  ///< per channel, of pixels in [0, 1]; empty: pixels stay in [0, 1]
    int pad = 0;           ///< training: random crop out of the image padded with black by this much
    bool flip = false;     ///< training: mirror every other sample
    Augment augment = {};  ///< training: changes of pixels; its crops are not for small images
  };

  /// Keeps the first `limit` samples (0 = all).
  StoredImages(Content content, std::vector<std::string> class_names, const Transform& transform, std::int64_t limit);

  std::int64_t size() const override { return size_; }
  Shape sample_shape() const override { return content_.sample_shape; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const override;

 private:
  Content content_;
  std::vector<std::string> class_names_;
  int pad_;
  bool flip_;
  Augment augment_;
  std::int64_t size_;
};

/// Refuses labels outside [0, classes); the offset of the first label and the bytes between two place the message.
void check_labels(const std::vector<std::uint8_t>& labels, int classes, const std::filesystem::path& file,
                  std::uint64_t first_offset, std::uint64_t stride);

}  // namespace nixie
