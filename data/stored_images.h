// StoredImages and StoredFloats: equal-sized images in memory, or in a file that is read sample by sample, with the
// padded crop and flip of small images.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// The targets of the samples: classes or numbers.
struct StoredTargets {
  std::vector<std::int32_t> labels = {};         ///< one per sample, if targets are classes
  Array values = {};                             ///< else [N, ...]: f32 numbers, or i32 classes of pixels [N, H, W]
  std::vector<std::int32_t> without_class = {};  ///< of those, the labels that are no class
  std::string class_apart = {};                  ///< of the classes of pixels: see Dataset
  std::function<std::string(std::int64_t)> place = {};  ///< where a sample's target is in its file, where that is known

  std::int64_t size() const { return labels.empty() ? values.shape()[0] : static_cast<std::int64_t>(labels.size()); }
  SampleTarget form() const;
};

/// Augmentation of small images in training.
struct SmallTransform {
  std::vector<float> mean = {}, deviation = {};  ///< per channel, of bytes as [0, 1]; empty: bytes stay in [0, 1]
  int pad = 0;                                   ///< random crop from the image padded with this much black
  bool flip = false;                             ///< mirror every other sample
  Augment augment = {};                          ///< changes of pixels; its crops are not for small images
};

/// The common part of StoredImages and StoredFloats: samples of type T, as a dataset of the kind Base.
template <class Base, class T>
class StoredSamples : public Base {
 public:
  struct Content {
    Shape sample_shape;          ///< [C, H, W]
    std::vector<T> pixels = {};  ///< sample after sample, in C, H, W order, as stored
    StoredTargets targets = {};
    std::function<std::vector<T>(std::int64_t)> read = {};  ///< in place of pixels: those of a sample; any thread may
  };

  std::int64_t size() const override { return size_; }
  Shape sample_shape() const override { return content_.sample_shape; }
  SampleTarget target() const override { return content_.targets.form(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  void load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const override;
  std::vector<std::int32_t> labels_without_class() const override { return content_.targets.without_class; }
  std::string class_apart() const override { return content_.targets.class_apart; }
  std::string target_place(std::int64_t index) const override {
    return content_.targets.place ? content_.targets.place(index) : "";
  }
  std::vector<std::int32_t> labels() const override {
    const std::vector<std::int32_t>& all = content_.targets.labels;
    return {all.begin(), all.begin() + (all.empty() ? 0 : size_)};
  }
  /// Computed when it is first asked for, which reads samples of a file.
  std::uint64_t fingerprint() const override {
    std::call_once(is_computed_, [&] { fingerprint_ = computed_fingerprint(); });
    return fingerprint_;
  }

 protected:
  /// `base` are the arguments of Base's constructor.
  template <class... Args>
  StoredSamples(Content&& content, std::vector<std::string> class_names, const SmallTransform& transform,
                std::int64_t limit, Args&&... base)
      : Base(std::forward<Args>(base)...),
        content_(std::move(content)),
        class_names_(std::move(class_names)),
        transform_(transform),
        size_(limited(content_.targets.size(), limit)) {}

  /// The pixels of a sample, in `read` where they are not in memory.
  const T* pixels_of(std::int64_t index, std::vector<T>& read) const;

  Content content_;
  std::vector<std::string> class_names_;
  SmallTransform transform_;
  std::int64_t size_;

 private:
  std::uint64_t computed_fingerprint() const;

  mutable std::once_flag is_computed_;
  mutable std::uint64_t fingerprint_ = 0;
};
extern template class StoredSamples<ByteDataset, std::uint8_t>;
extern template class StoredSamples<Dataset, float>;

class StoredImages : public StoredSamples<ByteDataset, std::uint8_t> {
 public:
  using Transform = SmallTransform;

  /// Keeps the first `limit` samples (0 = all).
  StoredImages(Content content, std::vector<std::string> class_names, const Transform& transform, std::int64_t limit);

  std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const override;
};

/// The same for numbers other than bytes: (x - mean) / deviation per channel.
class StoredFloats : public StoredSamples<Dataset, float> {
 public:
  /// `transform.mean` and `deviation` are of the numbers themselves. Its augment must be empty.
  StoredFloats(Content content, std::vector<std::string> class_names, const SmallTransform& transform,
               std::int64_t limit);

  Preparation preparation() const override;
  std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const override;
};

/// Refuses labels outside [0, classes); the message gives the byte, from the first label's offset and the stride.
void check_labels(const std::vector<std::uint8_t>& labels, int classes, const std::filesystem::path& file,
                  std::uint64_t first_offset, std::uint64_t stride);

}  // namespace nixie
