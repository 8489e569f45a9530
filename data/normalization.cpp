// Normalization: a scale and a shift for each channel.
#include "nixie/data/normalization.h"

#include <cmath>

#include "nixie/core/base/array.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

Normalization::Normalization(std::int64_t channels, const std::vector<float>& mean,
                             const std::vector<float>& deviation) {
  const auto count = static_cast<std::size_t>(channels);
  for (const auto& [name, values] : {std::pair{"mean", &mean}, {"deviation", &deviation}})
    check(values->empty() || values->size() == count, "normalization: ", name, " has ", values->size(),
          " numbers, expected one for each of ", channels, " channels");
  for (std::size_t c = 0; c < count; ++c) {
    const double from = mean.empty() ? 0 : mean[c], unit = deviation.empty() ? 1 : deviation[c];
    check(unit > 0 && std::isfinite(unit), "normalization: the deviation of channel ", c, " is ", unit,
          ", expected a positive number");
    check(std::isfinite(from), "normalization: the mean of channel ", c, " is ", from, ", expected a number");
    mean_.push_back(from);
    deviation_.push_back(unit);
    scale_.push_back(static_cast<float>(1 / (255 * unit)));
    shift_.push_back(static_cast<float>(-from / unit));
    check(std::isfinite(scale_[c]) && std::isfinite(shift_[c]), "normalization: the deviation of channel ", c, " is ",
          unit, ", too small for f32 with the mean ", from, "; give the deviation of pixels in [0, 1]");
  }
  scale_tensor_ = Array::from(scale_, {channels});
  shift_tensor_ = Array::from(shift_, {channels});
}

float Normalization::operator()(float byte, std::int64_t channel) const {
  const auto c = static_cast<std::size_t>(channel);
  return byte * scale_[c] + shift_[c];
}

Tensor Normalization::operator()(const Tensor& images) const {
  const auto channels = static_cast<std::int64_t>(scale_.size());
  check(images.rank() >= 2 && images.shape()[1] == channels, "normalization: images are ", images.shape(),
        ", expected [N, ", channels, ", ...]");
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(images.rank()), 1);
  sizes[1] = channels;
  return cast(images, Dtype::f32) * reshape(scale_tensor_, sizes) + reshape(shift_tensor_, sizes);
}

}  // namespace nixie
