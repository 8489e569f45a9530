// Dataset: normalises bytes of samples, on the host and in a graph, and checks targets.
#include "nixie/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "nixie/core/base/check_fields.h"

#include "nixie/core/base/fields.h"

namespace nixie {
namespace {

/// A dataset and what messages call it.
struct Part {
  const char* name;
  const Dataset* dataset;
};

/// Throws Fault::data unless samples of both can come from one dataset.
void check_alike(const Part& a, const Part& b) {
  for (const auto& [name, dataset] : {a, b})
    if (!dataset) fail(Fault::data, "there is no ", name, " (null); give a dataset for it");
  const auto check_equal = [&](const std::string& what, const auto& in_a, const auto& in_b) {
    if (in_a != in_b)
      fail(Fault::data, what, " differ: ", in_a, " in the ", a.name, ", ", in_b, " in the ", b.name,
           "; make them equal");
  };
  check_equal("the shapes of samples", a.dataset->sample_shape(), b.dataset->sample_shape());
  check_equal("the targets", to_string(a.dataset->target()), to_string(b.dataset->target()));
  const std::vector<std::string>&of_a = a.dataset->class_names(), &of_b = b.dataset->class_names();
  check_equal("the numbers of classes", of_a.size(), of_b.size());
  for (std::size_t i = 0; i < of_a.size(); ++i)
    check_equal(fmt::format("the names of class {}", i), field_text(of_a[i]), field_text(of_b[i]));
}

// Forwards each sample to the dataset that has it.
class Joined final : public Dataset {
 public:
  Joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second)
      : first_(std::move(first)), second_(std::move(second)) {
    check_alike({"first dataset", first_.get()}, {"second dataset", second_.get()});
    first_size_ = first_->size();
  }

  std::int64_t size() const override { return first_size_ + second_->size(); }
  Shape sample_shape() const override { return first_->sample_shape(); }
  SampleTarget target() const override { return first_->target(); }
  const std::vector<std::string>& class_names() const override { return first_->class_names(); }
  std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const override {
    const auto [half, at] = place_of(index);
    return half.load(at, key, pixels);
  }
  void load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const override {
    const auto [half, at] = place_of(index);
    half.load_target(at, key, target);
  }
  std::vector<std::int32_t> labels() const override {
    std::vector<std::int32_t> all = first_->labels();
    const std::vector<std::int32_t> more = second_->labels();
    if (std::ssize(all) != first_size_ || std::ssize(more) != second_->size()) return {};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::int32_t> labels_without_class() const override {
    std::vector<std::int32_t> all = first_->labels_without_class();
    for (const std::int32_t label : second_->labels_without_class())
      if (std::ranges::find(all, label) == all.end()) all.push_back(label);
    return all;
  }
  std::string class_apart() const override {
    const std::string apart = first_->class_apart();
    return apart.empty() ? second_->class_apart() : apart;
  }
  std::string target_place(std::int64_t index) const override {
    const auto [half, at] = place_of(index);
    return half.target_place(at);
  }
  std::string sample_place(std::int64_t index) const override {
    const auto [half, at] = place_of(index);
    return half.sample_place(at);
  }
  Preparation preparation() const override { return first_->preparation(); }

 private:
  std::pair<const Dataset&, std::int64_t> place_of(std::int64_t index) const {
    if (index < first_size_) return {*first_, index};
    return {*second_, index - first_size_};
  }

  std::shared_ptr<const Dataset> first_, second_;
  std::int64_t first_size_;
};

template <class T>
std::span<const T> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// The first value that is refused; their number where none is. `key` maps all others below `limit`. The largest key
/// is found with vector instructions, as a search for the first would not be.
template <class T>
std::size_t first_refused(std::span<const T> values, std::uint32_t limit, const auto& key, const auto& is_refused) {
  std::uint32_t largest = 0;
  for (const T value : values) largest = std::max(largest, key(value));
  if (largest < limit) return values.size();
  return static_cast<std::size_t>(std::ranges::find_if(values, is_refused) - values.begin());
}

/// Numbers that are not finite are outside every range.
std::size_t first_outside(std::span<const float> values, const Range& range) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto low = static_cast<float>(std::max(range.low, -kLargest)),
             high = static_cast<float>(std::min(range.high, kLargest));
  const auto is_outside = [=](float value) { return std::uint32_t{!(value >= low)} | std::uint32_t{!(value <= high)}; };
  return first_refused(values, 1, is_outside, is_outside);
}

std::size_t first_without_class(std::span<const std::int32_t> labels, std::uint32_t classes,
                                std::span<const std::int32_t> known) {
  // MaskLabels knows two; of more, the search goes through each label. 0 is a class.
  const std::int32_t first = known.empty() ? 0 : known[0], second = known.size() < 2 ? 0 : known[1];
  return first_refused(
      labels, classes,
      [=](std::int32_t label) {
        const auto is_other = std::uint32_t{label != first} & std::uint32_t{label != second};
        return static_cast<std::uint32_t>(label) & -is_other;  // no branch
      },
      [=](std::int32_t label) {
        return static_cast<std::uint32_t>(label) >= classes && std::ranges::find(known, label) == known.end();
      });
}

}  // namespace

std::string to_string(const SampleTarget& target) {
  if (target.is_class()) return "class";
  if (target.is_dense()) return fmt::format("a class for each of {} pixels", target.shape);
  if (target.shape.rank() == 0) return "a number";
  const char* what = target.dtype == Dtype::i32 ? "classes" : "numbers";
  return target.shape.rank() == 1 ? fmt::format("{} {}", target.shape[0], what)
                                  : fmt::format("{} {}", target.shape, what);
}

std::vector<std::int64_t> index_of(const std::vector<std::int64_t>& sizes, std::size_t element) {
  std::vector<std::int64_t> index(sizes.size());
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) index[axis] = rest % sizes[axis];
  return index;
}

std::string place_text(const std::vector<std::int64_t>& sizes, std::size_t element) {
  return fmt::format("[{}]", fmt::join(index_of(sizes, element), ", "));
}

TargetReader::TargetReader(const Dataset& dataset, const Range& numbers)
    : dataset_(dataset),
      target_(dataset.target()),
      classes_(static_cast<std::uint32_t>(dataset.classes())),
      without_class_(dataset.labels_without_class()),
      numbers_(numbers) {
  check(target_.dtype == Dtype::i32 || target_.dtype == Dtype::f32, "the dataset's targets are ", target_.dtype,
        ", expected i32 (classes) or f32 (numbers)");
  check(target_.dtype == Dtype::f32 || classes_ > 0,
        "the dataset's targets are classes, but it names none; give it class_names");
}

void TargetReader::operator()(std::int64_t index, const AugmentKey& key, std::int32_t label,
                              std::span<std::byte> target) const {
  if (target_.is_class())
    std::memcpy(target.data(), &label, target.size());
  else
    dataset_.load_target(index, key, target);
  if (target_.dtype == Dtype::f32) {
    const auto values = elements<float>(target);
    const std::size_t at = first_outside(values, numbers_);
    if (at < values.size()) refuse(index, at, fmt::format("the target {}", values[at]));
    return;
  }
  const auto labels = elements<std::int32_t>(target);
  const std::size_t at = first_without_class(labels, classes_, without_class_);
  if (at < labels.size()) refuse(index, at, fmt::format("label {}", labels[at]));
}

void TargetReader::refuse(std::int64_t index, std::size_t element, const std::string& what) const {
  const std::string where = dataset_.target_place(index), of_place = where.empty() ? "" : " (" + where + ")",
                    element_place =
                        target_.shape.rank() == 0 ? "" : " at " + place_text(target_.shape.sizes(), element);
  const bool is_any = std::isinf(numbers_.low) && std::isinf(numbers_.high);
  std::string expected = is_any ? "numbers that are finite" : text_of(numbers_) + ", which the loss takes";
  expected += "; mend the dataset, or take that sample out";
  if (target_.dtype == Dtype::i32) {
    expected = fmt::format("0 to {}", classes_ - 1);
    for (const std::int32_t label : without_class_) expected += fmt::format(" or {}", label);
    expected += "; mend the dataset, its class names or its labels without class";
  }
  fail(Fault::data, "sample ", index, of_place, " has ", what, element_place, ", expected ", expected);
}

void Dataset::load_target(std::int64_t, const AugmentKey&, std::span<std::byte>) const {
  fail(Fault::usage, "the dataset's targets are not classes, but it does not override load_target");
}

Tensor Dataset::pixels(const Tensor& images) const { return bytes() ? bytes()->normalization()(images) : images; }

Preparation Dataset::preparation() const {
  const Shape sample = sample_shape();
  Preparation preparation{
      .channels = sample[0], .height = sample[1], .width = sample[2], .short_side = std::min(sample[1], sample[2])};
  if (!bytes()) return preparation;
  preparation.mean = bytes()->normalization().mean();
  preparation.deviation = bytes()->normalization().deviation();
  return preparation;
}

std::int32_t ByteDataset::load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const {
  std::vector<std::uint8_t> bytes(pixels.size());
  const std::int32_t label = load_bytes(index, key, bytes);
  const std::size_t plane = bytes.size() / static_cast<std::size_t>(sample_shape()[0]);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    pixels[i] = normalization_(bytes[i], static_cast<std::int64_t>(i / plane));
  return label;
}

Shape image_shape(const Dataset& dataset) {
  const Shape sample = dataset.sample_shape();
  check(sample.rank() == 3 && sample.size() > 0, "the dataset's samples are ", sample,
        ", expected [channels, height, width], each at least 1");
  return sample;
}

void check_halves(const Splits& splits) {
  const Part train{"training half", splits.train.get()};
  check_alike(train, splits.holds_out ? Part{"test half", splits.test.get()} : train);
}

std::shared_ptr<const Dataset> joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second) {
  return std::make_shared<Joined>(std::move(first), std::move(second));
}

}  // namespace nixie
