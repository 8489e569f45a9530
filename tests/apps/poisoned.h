// A dataset of which one training sample is no number.
#pragma once

#include "nixie/tests/test.h"

#include "nixie/core/base/fields.h"
#include "nixie/data/dataset.h"

namespace nixie {

struct Poisoned {
  std::int64_t batch = 10, samples = 50;
  static constexpr const char* name = "poisoned";
  static constexpr auto fields() {
    return field_list(field("batch", &Poisoned::batch, "samples per step"),
                      field("samples", &Poisoned::samples, "of each half"));
  }
  Splits open() const {
    class Samples final : public Dataset {
     public:
      Samples(std::int64_t size, std::int64_t bad) : size_(size), bad_(bad) {}
      std::int64_t size() const override { return size_; }
      Shape sample_shape() const override { return {1, 2, 2}; }
      const std::vector<std::string>& class_names() const override { return names_; }
      std::int32_t load(std::int64_t index, const AugmentKey&, std::span<float> pixels) const override {
        std::fill(pixels.begin(), pixels.end(), index == bad_ ? NAN : static_cast<float>(index % 3));
        return static_cast<std::int32_t>(index % 3);
      }

     private:
      std::int64_t size_, bad_;
      std::vector<std::string> names_{"a", "b", "c"};
    };
    return {std::make_shared<Samples>(samples, 17), std::make_shared<Samples>(samples, -1)};
  }
};

}  // namespace nixie
