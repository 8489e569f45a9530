// StoredImages: copies samples, shifted and mirrored.
#include "nixie/data/stored_images.h"

#include <algorithm>

#include "nixie/core/base/error.h"
#include "nixie/data/draws.h"

namespace nixie {

StoredImages::StoredImages(Content content, std::vector<std::string> class_names, const Transform& transform,
                           std::int64_t limit)
    : ByteDataset(Normalization(content.sample_shape[0], transform.mean, transform.deviation)),
      content_(std::move(content)),
      class_names_(std::move(class_names)),
      pad_(transform.pad),
      flip_(transform.flip),
      augment_(transform.augment),
      size_(limited(static_cast<std::int64_t>(content_.labels.size()), limit)) {
  check_augment(augment_);
  check(!augment_.crops(), "augment: scale is for folders of pictures; set pad for small images");
}

std::int32_t StoredImages::load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const {
  const std::int64_t channels = content_.sample_shape[0], height = content_.sample_shape[1],
                     width = content_.sample_shape[2];
  const std::uint8_t* from = content_.pixels.data() + index * channels * height * width;
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
  if (key.training && (pad_ > 0 || flip_)) {
    Draws draws(random_stream(key.seed, "augment"), index, key.epoch);
    down = draws.below(2 * pad_ + 1) - pad_;
    right = draws.below(2 * pad_ + 1) - pad_;
    mirrored = flip_ && draws.below(2) == 1;
  }
  std::uint8_t* to = bytes.data();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y, to += width) {
      const std::int64_t row = y + down;
      if (row < 0 || row >= height) {
        std::fill_n(to, width, std::uint8_t{0});
        continue;
      }
      const std::uint8_t* line = from + (c * height + row) * width;
      const std::int64_t first = std::clamp<std::int64_t>(-right, 0, width),
                         last = std::clamp<std::int64_t>(width - right, 0, width);
      std::fill(to, to + first, std::uint8_t{0});
      std::copy(line + first + right, line + last + right, to + first);
      std::fill(to + last, to + width, std::uint8_t{0});
      if (mirrored) std::reverse(to, to + width);
    }
  if (key.training && augment_.changes_pixels()) {
    Draws draws(random_stream(key.seed, "augment/pixels"), index, key.epoch);
    std::vector<float> pixels(bytes.begin(), bytes.end());
    change_pixels(augment_, height, width, normalization().mean(), draws, pixels);
    std::transform(pixels.begin(), pixels.end(), bytes.begin(), convert<std::uint8_t, float>);
  }
  return content_.labels[static_cast<std::size_t>(index)];
}

void check_labels(const std::vector<std::uint8_t>& labels, int classes, const std::filesystem::path& file,
                  std::uint64_t first_offset, std::uint64_t stride) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      fail(Fault::data, file.string(), " at byte ", first_offset + i * stride, ": label ", int{labels[i]},
           " of sample ", i, " is not in [0, ", classes - 1, "]; fetch the file again");
}

}  // namespace nixie
