// DataScan: reads every sample of a dataset once, as in evaluation: counts, mean, deviation, damage.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nixie/data/dataset.h"

namespace nixie {

struct DataScan {
  std::vector<std::int64_t> counts = {};          ///< samples of each class; of masks, pixels
  std::vector<double> mean = {}, deviation = {};  ///< per channel; of bytes in [0, 1]
  /// Statistics of a number in the targets; of the first kTargets, where targets are numbers.
  struct Numbers {
    double mean = 0, deviation = 0, least = 0, most = 0;
  };
  static constexpr std::int64_t kTargets = 16;
  std::vector<Numbers> targets = {};
  std::vector<std::string> damaged = {};  ///< a line for each sample that cannot be read, in the dataset's order
  std::int64_t read = 0;                  ///< samples that can
};

/// Reads on all cores. `tell` is called now and then with the samples read so far, from any thread but one at a time.
DataScan scan_data(const Dataset& dataset, const std::function<void(std::int64_t)>& tell = {});

/// Samples [first, last) as bytes, one after the other, and their labels, decoded on all cores. Throws Fault::data for
/// the first that cannot be read.
std::vector<std::uint8_t> read_samples(const ByteDataset& dataset, std::int64_t first, std::int64_t last,
                                       std::span<std::uint32_t> labels);

}  // namespace nixie
