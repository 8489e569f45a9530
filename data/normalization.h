// Normalization: the formula from image bytes to a model's input, for the host and for graphs. Batch::pixels
// (data/loader.h) applies it; on CUDA fold_byte_images.cpp fuses it into the kernels that read the bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "nixie/core/graph/tensor.h"

namespace nixie {

/// A byte x of channel c is (x / 255 - mean[c]) / deviation[c], computed as x * scale[c] + shift[c] in f32.
class Normalization {
 public:
  /// One mean and one deviation for each channel, of pixels in [0, 1]; without them bytes map to [0, 1].
  explicit Normalization(std::int64_t channels, const std::vector<float>& mean = {},
                         const std::vector<float>& deviation = {});

  /// One number per channel, by default 0 and 1.
  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& deviation() const { return deviation_; }

  float operator()(float byte, std::int64_t channel) const;
  /// Normalises images [N, C, spatial...] of any type to f32; throws if the number of channels differs. First layers
  /// fuse this formula and read bytes.
  Tensor operator()(const Tensor& images) const;

 private:
  std::vector<double> mean_, deviation_;
  std::vector<float> scale_, shift_;
  Tensor scale_tensor_, shift_tensor_;  // made once, so that a Step uploads them once
};

}  // namespace nixie
