// DataScan: integer sums of bytes, so that no order of threads shows in the result.
#include "nixie/apps/trainer/commands/data_scan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <span>

#include "nixie/core/base/array.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/threads.h"

namespace nixie {
namespace {

/// PixelSums over a channel and of the squares; of bytes they are whole numbers, so no order of threads shows in them.
struct PixelSums {
  std::vector<double> plain, square;

  explicit PixelSums(std::size_t channels) : plain(channels), square(channels) {}
  template <class T>
  void add(const std::vector<T>& pixels) {
    const std::size_t plane = pixels.size() / plain.size();
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const auto value = static_cast<double>(pixels[i]);
      plain[i / plane] += value;
      square[i / plane] += value * value;
    }
  }
  void add(const PixelSums& other) {
    for (std::size_t c = 0; c < plain.size(); ++c) plain[c] += other.plain[c], square[c] += other.square[c];
  }
};

/// Facts about the targets read so far.
struct TargetSums {
  std::vector<double> plain, square, least, most;

  explicit TargetSums(const SampleTarget& target) {
    const auto count = target.dtype == Dtype::f32 ? std::min(target.shape.size(), DataScan::kTargets) : 0;
    for (auto* each : {&plain, &square, &least, &most}) each->resize(static_cast<std::size_t>(count));
  }
  void add(std::span<const float> values, bool is_first) {
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const double value = values[i];
      plain[i] += value, square[i] += value * value;
      least[i] = is_first ? value : std::min(least[i], value);
      most[i] = is_first ? value : std::max(most[i], value);
    }
  }
  std::vector<DataScan::Numbers> numbers(std::int64_t read) const {
    std::vector<DataScan::Numbers> result;
    for (std::size_t i = 0; i < plain.size() && read > 0; ++i) {
      const double mean = plain[i] / static_cast<double>(read), square_mean = square[i] / static_cast<double>(read);
      result.push_back({mean, std::sqrt(std::max(0.0, square_mean - mean * mean)), least[i], most[i]});
    }
    return result;
  }
};

/// Reads a sample into the sums and gives its label.
std::int32_t read_sample(const Dataset& dataset, std::int64_t index, PixelSums& sums) {
  const auto size = static_cast<std::size_t>(dataset.sample_shape().size());
  std::int32_t label = 0;
  if (dataset.bytes()) {
    std::vector<std::uint8_t> bytes(size);
    label = dataset.bytes()->load_bytes(index, {}, bytes);
    sums.add(bytes);
  } else {
    std::vector<float> pixels(size);
    label = dataset.load(index, {}, pixels);
    sums.add(pixels);
  }
  return label;
}

}  // namespace

DataScan scan_data(const Dataset& dataset, const std::function<void(std::int64_t)>& tell) {
  const auto channels = static_cast<std::size_t>(dataset.sample_shape()[0]);
  DataScan scan{.counts = std::vector<std::int64_t>(static_cast<std::size_t>(dataset.classes()))};
  PixelSums all(channels);
  const SampleTarget form = dataset.target();
  const TargetReader read_target(dataset);
  TargetSums targets(form);
  std::map<std::int64_t, std::string> damaged;
  std::mutex mutex;
  std::int64_t done = 0;
  share_out("scan", dataset.size(), [&](std::int64_t i) {
    PixelSums sums(channels);
    Array target(form.dtype, form.shape);
    std::string damage;
    try {
      const std::int32_t label = read_sample(dataset, i, sums);
      read_target(i, {}, label, {target.bytes(), static_cast<std::size_t>(target.size_bytes())});
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;  // the sample may be good
      damage = error.what();
    }
    const std::lock_guard lock(mutex);
    if (++done % 256 == 0 && tell) tell(done);
    if (!damage.empty()) {
      damaged[i] = damage;
      return;
    }
    all.add(sums);
    if (form.dtype == Dtype::f32)
      targets.add(target.data<float>(), scan.read == 0);
    else
      for (const std::int32_t label : target.data<std::int32_t>())  // others are no class
        if (label >= 0 && label < dataset.classes()) ++scan.counts[static_cast<std::size_t>(label)];
    ++scan.read;
  });
  scan.targets = targets.numbers(scan.read);
  for (const auto& [index, line] : damaged) scan.damaged.push_back(line);
  const double unit = dataset.bytes() ? 255 : 1, pixels = static_cast<double>(std::max<std::int64_t>(scan.read, 1)) *
                                                          static_cast<double>(dataset.sample_shape().size()) /
                                                          static_cast<double>(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = all.plain[c] / pixels, square = all.square[c] / pixels;
    scan.mean.push_back(mean / unit);
    scan.deviation.push_back(std::sqrt(std::max(0.0, square - mean * mean)) / unit);
  }
  return scan;
}

std::vector<std::uint8_t> read_samples(const ByteDataset& dataset, std::int64_t first, std::int64_t last,
                                       std::span<std::uint32_t> labels) {
  const auto stride = static_cast<std::size_t>(dataset.sample_shape().size());
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(last - first) * stride);
  share_out("scan", last - first, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    labels[at] =
        static_cast<std::uint32_t>(dataset.load_bytes(first + i, {}, std::span(bytes).subspan(at * stride, stride)));
  });
  return bytes;
}

}  // namespace nixie
