// Dataset: normalises bytes of samples, on the host and in a graph.
#include "nixie/data/dataset.h"

namespace nixie {

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

}  // namespace nixie
