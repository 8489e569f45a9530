// Samples of images in memory: copied, shifted and mirrored; a mask moves with its image.
#include "nixie/data/stored_images.h"

#include <algorithm>
#include <cstring>

#include "nixie/core/base/error.h"
#include "nixie/data/draws.h"
#include "nixie/data/fingerprint.h"

namespace nixie {
namespace {

/// Where the pixels of a sample go; a function of the key and the index.
struct Move {
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
};

Move draw_move(const SmallTransform& transform, std::int64_t index, const AugmentKey& key) {
  Move move;
  if (!key.training || (transform.pad == 0 && !transform.flip)) return move;
  Draws draws(random_stream(key.seed, "augment"), index, key.epoch);
  move.down = draws.below(2 * transform.pad + 1) - transform.pad;
  move.right = draws.below(2 * transform.pad + 1) - transform.pad;
  move.mirrored = transform.flip && draws.below(2) == 1;
  return move;
}

/// Copies planes; what comes from outside is 0.
template <class T>
void move_planes(const T* from, T* to, const Shape& shape, const Move& move) {
  const std::int64_t height = shape[1], width = shape[2];
  for (std::int64_t c = 0; c < shape[0]; ++c)
    for (std::int64_t y = 0; y < height; ++y, to += width) {
      const std::int64_t row = y + move.down;
      if (row < 0 || row >= height) {
        std::fill_n(to, width, T{});
        continue;
      }
      const T* line = from + (c * height + row) * width;
      const std::int64_t first = std::clamp<std::int64_t>(-move.right, 0, width),
                         last = std::clamp<std::int64_t>(width - move.right, 0, width);
      std::fill(to, to + first, T{});
      std::copy(line + first + move.right, line + last + move.right, to + first);
      std::fill(to + last, to + width, T{});
      if (move.mirrored) std::reverse(to, to + width);
    }
}

std::int32_t label_of(const StoredTargets& targets, std::int64_t index) {
  return targets.labels.empty() ? 0 : targets.labels[static_cast<std::size_t>(index)];
}

void copy_target(const StoredTargets& targets, const SmallTransform& transform, std::int64_t index,
                 const AugmentKey& key, std::span<std::byte> target) {
  const std::byte* from = targets.values.bytes() + static_cast<std::size_t>(index) * target.size();
  const SampleTarget form = targets.form();
  if (form.dtype == Dtype::i32)
    move_planes(reinterpret_cast<const std::int32_t*>(from), reinterpret_cast<std::int32_t*>(target.data()),
                {1, form.shape[0], form.shape[1]}, draw_move(transform, index, key));
  else
    std::memcpy(target.data(), from, target.size());
}

void check_transform(const SmallTransform& transform, const SampleTarget& target) {
  check_augment(transform.augment);
  check(!transform.augment.crops(), "augment: scale is for folders of pictures; set pad for small images");
  check(!target.is_dense() || !transform.augment.moves_pixels(),
        "augment: masks move with their images under pad and flip alone; take the other movements out");
}

}  // namespace

SampleTarget StoredTargets::form() const {
  if (!labels.empty()) return {};
  std::vector<std::int64_t> sizes(values.shape().begin() + 1, values.shape().end());
  return {values.dtype(), Shape(std::move(sizes))};
}

template <class Base, class T>
void StoredSamples<Base, T>::load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const {
  copy_target(content_.targets, transform_, index, key, target);
}

// Reads the samples in use, which `limit` bounds. Images in a file are sampled, spread over it: all of them would take
// as long as an epoch.
template <class Base, class T>
std::uint64_t StoredSamples<Base, T>::computed_fingerprint() const {
  constexpr std::int64_t kMostRead = 1024;
  const Shape& sample = content_.sample_shape;
  Fingerprint print;
  print.add(std::vector<std::int64_t>(sample.begin(), sample.end()));
  if (content_.read) {
    const std::int64_t count = std::min(size_, kMostRead);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<T> read = content_.read(i * size_ / count);
      print.add(read.data(), read.size() * sizeof(T));
    }
  } else {
    print.add(content_.pixels.data(), static_cast<std::size_t>(size_ * sample.size()) * sizeof(T));
  }
  if (content_.targets.labels.empty())
    print.add(content_.targets.values.bytes(), static_cast<std::size_t>(size_ * target().bytes()));
  else
    print.add(content_.targets.labels.data(), static_cast<std::size_t>(size_) * sizeof(std::int32_t));
  print.add(class_names_);
  return print.value();
}

template <class Base, class T>
const T* StoredSamples<Base, T>::pixels_of(std::int64_t index, std::vector<T>& read) const {
  if (!content_.read) return content_.pixels.data() + index * content_.sample_shape.size();
  read = content_.read(index);
  return read.data();
}
template class StoredSamples<ByteDataset, std::uint8_t>;
template class StoredSamples<Dataset, float>;

StoredImages::StoredImages(Content content, std::vector<std::string> class_names, const Transform& transform,
                           std::int64_t limit)
    : StoredSamples(std::move(content), std::move(class_names), transform, limit,
                    Normalization(content.sample_shape[0], transform.mean, transform.deviation)) {
  check_transform(transform_, target());
  const std::int64_t channels = content_.sample_shape[0];
  check(channels == 1 || channels == 3 || !transform_.augment.changes_colours(),
        "augment: colours are those of 1 or 3 channels, these images have ", channels);
}

std::int32_t StoredImages::load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const {
  const Shape& shape = content_.sample_shape;
  std::vector<std::uint8_t> read;
  move_planes(pixels_of(index, read), bytes.data(), shape, draw_move(transform_, index, key));
  if (key.training && transform_.augment.changes_pixels()) {
    Draws draws(random_stream(key.seed, "augment/pixels"), index, key.epoch);
    change_pixels(transform_.augment, shape[1], shape[2], normalization().mean(), draws, bytes);
  }
  return label_of(content_.targets, index);
}

StoredFloats::StoredFloats(Content content, std::vector<std::string> class_names, const SmallTransform& transform,
                           std::int64_t limit)
    : StoredSamples(std::move(content), std::move(class_names), transform, limit) {
  check_transform(transform_, target());
  check(!transform_.augment.changes_pixels(), "augment: is for images of bytes, these are other numbers; take it out");
  const auto channels = static_cast<std::size_t>(content_.sample_shape[0]);
  if (transform_.mean.empty()) transform_.mean.assign(channels, 0);
  if (transform_.deviation.empty()) transform_.deviation.assign(channels, 1);
}

// In the units of bytes, 255 to 1, so that predictions normalise both kinds by one formula.
Preparation StoredFloats::preparation() const {
  Preparation preparation = Dataset::preparation();
  for (const float mean : transform_.mean) preparation.mean.push_back(mean / 255.0);
  for (const float deviation : transform_.deviation) preparation.deviation.push_back(deviation / 255.0);
  return preparation;
}

std::int32_t StoredFloats::load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const {
  const Shape& shape = content_.sample_shape;
  const std::size_t plane = pixels.size() / static_cast<std::size_t>(shape[0]);
  std::vector<float> normal(pixels.size()), read;
  const float* from = pixels_of(index, read);
  for (std::size_t i = 0; i < normal.size(); ++i)
    normal[i] = (from[i] - transform_.mean[i / plane]) / transform_.deviation[i / plane];
  move_planes(normal.data(), pixels.data(), shape, draw_move(transform_, index, key));
  return label_of(content_.targets, index);
}

void check_labels(const std::vector<std::uint8_t>& labels, int classes, const std::filesystem::path& file,
                  std::uint64_t first_offset, std::uint64_t stride) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      fail(Fault::data, file.string(), " at byte ", first_offset + i * stride, ": label ", int{labels[i]},
           " of sample ", i, " is not in [0, ", classes - 1, "]; fetch the file again");
}

}  // namespace nixie
