// Dataset: a fixed list of labelled images that any thread may read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nixie/core/base/dtype.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/base/shape.h"
#include "nixie/data/normalization.h"
#include "nixie/data/preparation.h"

namespace nixie {

/// Augmentation depends only on this and the sample's index, so pixels are the same for any number of threads and after
/// any restart.
struct AugmentKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool training = false;  ///< false: no random choices
};

/// The target of a sample.
struct SampleTarget {
  Dtype dtype = Dtype::i32;  ///< i32: classes; f32: numbers
  Shape shape = {};          ///< of one sample: [] a class, [K] numbers, [H, W] the class of each pixel

  bool is_class() const { return dtype == Dtype::i32 && shape.rank() == 0; }
  bool is_dense() const { return dtype == Dtype::i32 && shape.rank() == 2; }
  std::int64_t bytes() const { return shape.size() * size_of(dtype); }
  bool operator==(const SampleTarget&) const = default;
};
/// `class`, `a number`, `3 numbers`, `[3, 2] numbers`, `a class for each of [32, 32] pixels`
std::string to_string(const SampleTarget& target);
/// The index along each axis of an element of an array of these sizes, given by its number in C order.
std::vector<std::int64_t> index_of(const std::vector<std::int64_t>& sizes, std::size_t element);
/// The same as `[5, 2, 3]`.
std::string place_text(const std::vector<std::int64_t>& sizes, std::size_t element);

class ByteDataset;

class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples, at least 1. A Loader asks once, when it is made.
  virtual std::int64_t size() const = 0;
  /// [C, H, W] of every sample, after cropping.
  virtual Shape sample_shape() const = 0;
  /// The target of every sample.
  virtual SampleTarget target() const { return {}; }
  /// One name per class, in the order of the labels; none if targets are numbers.
  virtual const std::vector<std::string>& class_names() const = 0;
  std::int64_t classes() const { return static_cast<std::int64_t>(class_names().size()); }
  /// Writes one sample in C, H, W order and returns its label in [0, classes), 0 if its target is no class. `pixels`
  /// has sample_shape().size() elements. Thread safe. Throws Fault::data naming the file if it is damaged.
  virtual std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const = 0;
  /// For targets other than a class: writes the target that matches the pixels of `load` for the same key.
  virtual void load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const;
  /// The label of each sample, where targets are classes and labels are known without decoding; else none.
  virtual std::vector<std::int32_t> labels() const { return {}; }
  /// Labels of targets that are no class (MaskLabels), where there are any: the loss must ignore them.
  virtual std::vector<std::int32_t> labels_without_class() const { return {}; }
  /// The warning (apart_text) about a class in masks far above the others, as one by mistake is; "" without one.
  virtual std::string class_apart() const { return {}; }
  /// Where a sample's target is or, where it has no place of its own, the sample, for messages: `masks/7.png`,
  /// `data.csv:13`, `data.npz: labels[12]`; "" if it is not known.
  virtual std::string target_place(std::int64_t) const { return {}; }
  /// Where a sample is, for lists of them: a picture's file, else target_place; "" if it is not known.
  virtual std::string sample_place(std::int64_t index) const { return target_place(index); }
  /// Itself, if samples are bytes; batches are then bytes, too.
  virtual const ByteDataset* bytes() const { return nullptr; }
  /// A number that changes with the samples, their order, their targets and the names of the classes, as far as known
  /// without decoding (image_folder: the pictures' names, not their bytes); 0: unknown.
  virtual std::uint64_t fingerprint() const { return 0; }
  /// How evaluation turns a picture into a sample; predictions do the same. By default the picture is scaled to the
  /// sample's size and normalised like the bytes.
  virtual Preparation preparation() const;
  /// A model's input from a loader's images.
  Tensor pixels(const Tensor& images) const;
};

/// Reads the targets of a dataset's samples and checks them: the one door by which they come in.
class TargetReader {
 public:
  /// Throws a usage Error where targets are neither classes with names nor numbers. `numbers`: the loss takes so many.
  explicit TargetReader(const Dataset& dataset, const Range& numbers = {});
  const SampleTarget& target() const { return target_; }
  /// Writes the sample's target: `label`, which `load` returned for this key, if it is a class. Throws Fault::data,
  /// naming the sample and the element, unless integers are classes or labels_without_class, and numbers finite and in
  /// that range.
  void operator()(std::int64_t index, const AugmentKey& key, std::int32_t label, std::span<std::byte> target) const;

 private:
  [[noreturn]] void refuse(std::int64_t index, std::size_t element, const std::string& what) const;

  const Dataset& dataset_;
  SampleTarget target_;
  std::uint32_t classes_;
  std::vector<std::int32_t> without_class_;
  Range numbers_;
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

/// A dataset's sample_shape(). Throws a usage Error unless that is [C, H, W], each at least 1.
Shape image_shape(const Dataset& dataset);

/// The training and the test half of a dataset, of equal sample shape, target and classes.
struct Splits {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> notes = {};  ///< lines about skipped files
  bool holds_out = true;                ///< false: everything is for training, and `test` is null

  /// The half whose names of classes and preparation are those of predictions.
  const std::shared_ptr<const Dataset>& test_or_train() const { return test ? test : train; }
};
/// Throws Fault::data where a half is missing that is to be there or the two differ; names what does.
void check_halves(const Splits& splits);

/// The samples of `first`, then those of `second`, normalised. Throws Fault::data unless both have the same sample
/// shape, target and classes.
std::shared_ptr<const Dataset> joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second);

/// The size of a dataset after its field `limit`: its first n samples, 0 = all.
inline std::int64_t limited(std::int64_t size, std::int64_t limit) { return limit > 0 ? std::min(limit, size) : size; }

}  // namespace nixie
