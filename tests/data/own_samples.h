// A dataset as a user writes one, whose facts a test states.
#pragma once

#include "nixie/tests/test.h"

#include "nixie/data/dataset.h"

namespace nixie::test {

/// 40 samples of three classes, unless a field says otherwise.
struct SampleFacts {
  std::function<std::int64_t(int call)> size = [](int) { return 40; };
  Shape sample = {1, 4, 5};
  SampleTarget target = {};
  std::vector<std::string> names = {"a", "b", "c"};
  float pixel = 1;  // the third of sample 11
  /// Fills a sample, and gives its class.
  std::function<std::int32_t(std::int64_t index, const AugmentKey& key, std::span<float> pixels)> load = waves;

  static std::int32_t waves(std::int64_t index, const AugmentKey&, std::span<float> pixels) {
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = std::sin(static_cast<float>(index * std::ssize(pixels) + static_cast<std::int64_t>(i)));
    return static_cast<std::int32_t>(index % 3);
  }
};

class OwnSamples final : public Dataset {
 public:
  explicit OwnSamples(SampleFacts facts) : facts_(std::move(facts)) {}
  std::int64_t size() const override { return facts_.size(++calls_); }
  Shape sample_shape() const override { return facts_.sample; }
  SampleTarget target() const override { return facts_.target; }
  const std::vector<std::string>& class_names() const override { return facts_.names; }
  std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const override {
    const std::int32_t label = facts_.load(index, key, pixels);
    if (index == 11 && facts_.pixel != 1) pixels[2] = facts_.pixel;
    return label;
  }

 private:
  SampleFacts facts_;
  mutable std::atomic<int> calls_ = 0;
};

inline std::shared_ptr<const Dataset> own_samples(SampleFacts facts) {
  return std::make_shared<OwnSamples>(std::move(facts));
}

}  // namespace nixie::test
