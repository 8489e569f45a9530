// Dataset: normalises bytes of samples, on the host and in a graph.
#include "nixie/data/dataset.h"

namespace nixie {
namespace {

// Forwards each sample to the dataset that has it.
class Joined final : public Dataset {
 public:
  Joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second)
      : first_(std::move(first)), second_(std::move(second)) {
    check(first_->sample_shape() == second_->sample_shape(), "samples of ", first_->sample_shape(), " and of ",
          second_->sample_shape(), " cannot be one dataset");
    check(first_->target() == second_->target() && first_->class_names() == second_->class_names(),
          "targets that differ (", to_string(first_->target()), ", ", to_string(second_->target()),
          ") cannot be one dataset's");
  }

  std::int64_t size() const override { return first_->size() + second_->size(); }
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
    if (std::ssize(all) != first_->size() || std::ssize(more) != second_->size()) return {};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Preparation preparation() const override { return first_->preparation(); }

 private:
  std::pair<const Dataset&, std::int64_t> place_of(std::int64_t index) const {
    if (index < first_->size()) return {*first_, index};
    return {*second_, index - first_->size()};
  }

  std::shared_ptr<const Dataset> first_, second_;
};

}  // namespace

std::string to_string(const SampleTarget& target) {
  if (target.is_class()) return "class";
  if (target.is_dense()) return fmt::format("a class for each of {} pixels", target.shape);
  if (target.shape.rank() == 0) return "a number";
  return target.shape.rank() == 1 ? fmt::format("{} numbers", target.shape[0])
                                  : fmt::format("{} numbers", target.shape);
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

void check_label(std::int64_t sample, std::int32_t label, std::int64_t classes) {
  if (label >= 0 && label < classes) return;
  fail(Fault::data, "sample ", sample, " has label ", label,
       classes > 0 ? fmt::format(", expected 0 to {}; mend the dataset, or its class names", classes - 1)
                   : ", but the dataset names no class; give it class names, or targets that are numbers");
}

Shape image_shape(const Dataset& dataset) {
  const Shape sample = dataset.sample_shape();
  check(sample.rank() == 3, "the dataset's samples are ", sample, ", expected [channels, height, width]");
  return sample;
}

std::shared_ptr<const Dataset> joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second) {
  return std::make_shared<Joined>(std::move(first), std::move(second));
}

}  // namespace nixie
