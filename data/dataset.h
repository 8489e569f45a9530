// Dataset: a fixed list of labelled images that any thread may read, and what the loader asks of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nixie/core/base/dtype.h"
#include "nixie/core/base/shape.h"
#include "nixie/data/normalization.h"
#include "nixie/data/preparation.h"

namespace nixie {

/// What augmentation may depend on besides the sample's index: nothing else, so pixels are the same for any number of
/// threads and after any restart.
struct AugmentKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool training = false;  ///< false: no random choice at all
};

/// What a sample is mapped to.
struct SampleTarget {
  Dtype dtype = Dtype::i32;  ///< i32: classes; f32: numbers
  Shape shape = {};          ///< of one sample's: [] a class, [K] numbers, [H, W] the class of each pixel

  bool is_class() const { return dtype == Dtype::i32 && shape.rank() == 0; }
  bool is_dense() const { return dtype == Dtype::i32 && shape.rank() == 2; }
  std::int64_t bytes() const { return shape.size() * size_of(dtype); }
  bool operator==(const SampleTarget&) const = default;
};
/// `class`, `[3] numbers`, `a class for each of [32, 32] pixels`
std::string to_string(const SampleTarget& target);

class ByteDataset;

class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples, at least 1.
  virtual std::int64_t size() const = 0;
  /// [C, H, W] of every sample, after cropping.
  virtual Shape sample_shape() const = 0;
  /// Of every sample.
  virtual SampleTarget target() const { return {}; }
  /// One name per class, in the order of the labels; none where targets are numbers.
  virtual const std::vector<std::string>& class_names() const = 0;
  std::int64_t classes() const { return static_cast<std::int64_t>(class_names().size()); }
  /// Writes one sample in C, H, W order and returns its label in [0, classes), 0 where its target is no class. `pixels`
  /// has sample_shape().size() elements. Thread safe. Throws Fault::data naming the file when it is damaged.
  virtual std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const = 0;
  /// For targets that are not a class: writes the target that matches the pixels `load` writes for the same key.
  virtual void load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const;
  /// Itself, where samples are bytes; batches are then bytes too.
  virtual const ByteDataset* bytes() const { return nullptr; }
  /// A number that changes with the samples, their order, their targets and the names of the classes, as far as it is
  /// known without decoding (image_folder: the pictures' names, not their bytes); 0: none is told.
  virtual std::uint64_t fingerprint() const { return 0; }
  /// How a picture becomes a sample as evaluation has it: what predictions repeat. By default scaled to the sample's
  /// size and normalised as the bytes are.
  virtual Preparation preparation() const;
  /// What a model reads of a loader's images.
  Tensor pixels(const Tensor& images) const;
};

/// A dataset whose samples are bytes, which stay bytes until a graph normalises them.
class ByteDataset : public Dataset {
 public:
  explicit ByteDataset(Normalization normalization) : normalization_(std::move(normalization)) {}
  const Normalization& normalization() const { return normalization_; }
  /// As `load`, but writes the raw bytes, not normalised.
  virtual std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const = 0;
  std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const final;
  const ByteDataset* bytes() const final { return this; }

 private:
  Normalization normalization_;
};

/// The training and the test half of a dataset, of equal sample shape and classes.
struct Splits {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> notes = {};  ///< lines that say what of the files was left out
};

/// The size that the field `limit` of every dataset leaves: its first n samples, 0 = all.
inline std::int64_t limited(std::int64_t size, std::int64_t limit) { return limit > 0 ? std::min(limit, size) : size; }

}  // namespace nixie
