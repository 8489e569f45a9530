// Generated: a coarse random grid per class, enlarged, plus hashed noise.
#include "nixie/data/generated.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "nixie/data/draws.h"

namespace nixie {
namespace {

constexpr std::int64_t kGrid = 8;

/// Noise in [-1, 1) from an integer: the finaliser of MurmurHash3, which compilers turn into vector code.
float hashed(std::uint32_t h) {
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return static_cast<float>(static_cast<std::int32_t>(h ^ h >> 16)) * 0x1p-31f;
}

/// Where position i of n falls between the points of the grid.
struct Between {
  std::int64_t first, second;
  float share;  // of the second
  Between(std::int64_t i, std::int64_t n) {
    const float at = n > 1 ? static_cast<float>(i) * (kGrid - 1) / static_cast<float>(n - 1) : 0;
    first = std::min(static_cast<std::int64_t>(at), kGrid - 1);
    second = std::min(first + 1, kGrid - 1);
    share = at - static_cast<float>(first);
  }
};

class GeneratedImages : public Dataset {
 public:
  GeneratedImages(const Generated& options, std::string_view half, std::int64_t size)
      : options_(options),
        samples_(random_stream(0, half)),
        patterns_(random_stream(0, "generated/patterns")),
        borders_(random_stream(0, std::string(half) + "/borders")) {
    size_ = limited(size, options.limit);
    for (std::int64_t c = 0; c < options.classes; ++c) names_.push_back(fmt::format("class_{}", c));
    for (std::int64_t x = 0; x < options.width; ++x) columns_.emplace_back(x, options.width);
  }

  std::int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {options_.channels, options_.height, options_.width}; }
  const std::vector<std::string>& class_names() const override { return names_; }

  SampleTarget target() const override {
    return options_.masks ? SampleTarget{Dtype::i32, {options_.height, options_.width}} : SampleTarget{};
  }

  std::int32_t load(std::int64_t index, const AugmentKey&, std::span<float> pixels) const override {
    Draws draws(samples_, index);
    const std::int64_t label = index % options_.classes;
    show(label, draws, pixels);
    if (!options_.masks) return static_cast<std::int32_t>(label);
    const Division division = division_of(index);
    std::vector<float> other(pixels.size());
    show(division.right, draws, other);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      if (static_cast<std::int64_t>(i) % options_.width >= division.border) pixels[i] = other[i];
    return 0;
  }

  void load_target(std::int64_t index, const AugmentKey&, std::span<std::byte> target) const override {
    const Division division = division_of(index);
    std::vector<std::int32_t> mask(static_cast<std::size_t>(options_.height * options_.width));
    for (std::size_t i = 0; i < mask.size(); ++i)
      mask[i] = static_cast<std::int32_t>(
          static_cast<std::int64_t>(i) % options_.width < division.border ? index % options_.classes : division.right);
    std::memcpy(target.data(), mask.data(), target.size());
  }

 private:
  /// The first column of the class on the right, and that class.
  struct Division {
    std::int64_t border, right;
  };
  Division division_of(std::int64_t index) const {
    Draws draws(borders_, index);
    const std::int64_t border = 1 + draws.below(std::max<std::int64_t>(options_.width - 1, 1));
    return {border, draws.below(options_.classes)};
  }

  void show(std::int64_t label, Draws& draws, std::span<float> pixels) const {
    const std::int64_t width = options_.width;
    Draws pattern(patterns_, label);
    // The enlarged grid has about two thirds of a grid point's deviation.
    const float contrast = 1.35f * draws.uniform(0.7f, 1.3f), noise = options_.noise * std::sqrt(3.0f);
    std::vector<float> wide(static_cast<std::size_t>(kGrid * width));
    float* row = pixels.data();
    for (std::int64_t c = 0; c < options_.channels; ++c) {
      draw_wide_grid(pattern, contrast, wide);
      for (std::int64_t y = 0; y < options_.height; ++y, row += width) {
        const Between lines(y, options_.height);
        const float *upper = &wide[static_cast<std::size_t>(lines.first * width)],
                    *lower = &wide[static_cast<std::size_t>(lines.second * width)];
        const std::uint32_t salt = draws.word();
        for (std::int64_t x = 0; x < width; ++x)
          row[x] = upper[x] + lines.share * (lower[x] - upper[x]) +
                   noise * hashed(salt + static_cast<std::uint32_t>(x) * 0x9e3779b9u);
      }
    }
  }

  /// The next grid of the pattern, each of its lines stretched to the image's width.
  void draw_wide_grid(Draws& pattern, float contrast, std::vector<float>& wide) const {
    std::array<float, kGrid> line;
    float* to = wide.data();
    for (std::int64_t y = 0; y < kGrid; ++y) {
      for (std::size_t x = 0; x < kGrid; x += 2) {
        const auto pair = pattern.normals();
        line[x] = contrast * pair[0], line[x + 1] = contrast * pair[1];
      }
      for (const Between& column : columns_) {
        const float left = line[static_cast<std::size_t>(column.first)],
                    right = line[static_cast<std::size_t>(column.second)];
        *to++ = left + column.share * (right - left);
      }
    }
  }

  Generated options_;
  std::uint64_t samples_, patterns_, borders_;
  std::int64_t size_;
  std::vector<std::string> names_;
  std::vector<Between> columns_;
};

}  // namespace

Splits Generated::open() const {
  return {std::make_shared<GeneratedImages>(*this, "generated/train", train),
          std::make_shared<GeneratedImages>(*this, "generated/test", test)};
}

}  // namespace nixie
