// Packed: crops are cut from the mapped bytes.
#include "nixie/data/packed.h"

#include <algorithm>

#include "nixie/data/draws.h"
#include "nixie/data/files/packed_file.h"
#include "nixie/data/fingerprint.h"

namespace nixie {
namespace {

Normalization normalization_of(const Packed& options, const PackedHeader& header) {
  const std::int64_t channels = header.sample_shape[0];
  if (!options.normalize) return Normalization(channels);
  const auto numbers = [](const std::vector<float>& given, const std::vector<double>& stored) {
    return given.empty() ? std::vector<float>(stored.begin(), stored.end()) : given;
  };
  return Normalization(channels, numbers(options.mean, header.mean), numbers(options.deviation, header.deviation));
}

class PackedImages final : public ByteDataset {
 public:
  PackedImages(const Packed& options, std::unique_ptr<PackedFile> file)
      : ByteDataset(normalization_of(options, file->header())),
        options_(options),
        file_(std::move(file)),
        first_read_(size()) {
    const Shape stored = file_->header().sample_shape;
    shape_ = options_.crop > 0 ? Shape{stored[0], options_.crop, options_.crop} : stored;
    check(shape_[1] <= stored[1] && shape_[2] <= stored[2], "packed: crop is ", options_.crop,
          ", larger than the images, ", stored);
    check_augment(options_.augment);
    check(options_.pad == 0 || !options_.augment.crops(), "packed: pad and augment's scale are two crops; set one");
    const bool has_colours = stored[0] == 1 || stored[0] == 3;
    check(has_colours || !(options_.augment.crops() || options_.augment.changes_pixels()),
          "packed: augment is for images of 1 or 3 channels, these have ", stored[0]);
  }

  std::int64_t size() const override { return limited(file_->header().samples, options_.limit); }
  Shape sample_shape() const override { return shape_; }
  const std::vector<std::string>& class_names() const override { return file_->header().class_names; }
  std::vector<std::int32_t> labels() const override {
    const std::vector<std::uint32_t>& all = file_->labels();
    return {all.begin(), all.begin() + size()};
  }
  std::uint64_t fingerprint() const override { return file_->checksum(); }

  Preparation preparation() const override {
    Preparation preparation = Dataset::preparation();
    const Shape stored = file_->header().sample_shape;
    preparation.short_side = std::min(stored[1], stored[2]);
    preparation.upright = file_->header().upright;
    return preparation;
  }

  std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const override {
    const auto label = static_cast<std::int32_t>(file_->labels()[static_cast<std::size_t>(index)]);
    const std::span<const std::uint8_t> stored = file_->sample(index);
    if (!first_read_.holds(index, std::as_bytes(stored))) fail_changed(file_->path().string());
    const Shape from = file_->header().sample_shape;
    const std::int64_t rows = from[1] - shape_[1], columns = from[2] - shape_[2];
    if (!key.training) {
      cut(stored, {centred(columns), centred(rows), shape_[2], shape_[1]}, false, bytes);
      return label;
    }
    const Augment& augment = options_.augment;
    Draws draws(random_stream(key.seed, "augment"), index, key.epoch);
    if (augment.crops()) {
      scale(stored, draw_crop(augment, from[2], from[1], draws), options_.flip && draws.below(2) == 1, bytes);
    } else {
      const std::int64_t pad = options_.pad;
      const std::int64_t left = draws.below(columns + 2 * pad + 1) - pad, top = draws.below(rows + 2 * pad + 1) - pad;
      cut(stored, {left, top, shape_[2], shape_[1]}, options_.flip && draws.below(2) == 1, bytes);
    }
    if (augment.changes_pixels()) change_pixels(augment, shape_[1], shape_[2], normalization().mean(), draws, bytes);
    return label;
  }

 private:
  /// A part of the image; black where the box reaches beyond it.
  void cut(std::span<const std::uint8_t> stored, const Box& box, bool mirrored, std::span<std::uint8_t> bytes) const {
    const Shape from = file_->header().sample_shape;
    const std::int64_t first = std::clamp<std::int64_t>(-box.left, 0, box.width),
                       last = std::clamp<std::int64_t>(from[2] - box.left, first, box.width);
    std::uint8_t* to = bytes.data();
    for (std::int64_t c = 0; c < from[0]; ++c)
      for (std::int64_t y = box.top; y < box.top + box.height; ++y, to += box.width) {
        if (y < 0 || y >= from[1] || last == first) {
          std::fill_n(to, box.width, std::uint8_t{0});
          continue;
        }
        const std::uint8_t* line = stored.data() + (c * from[1] + y) * from[2] + box.left;
        std::fill(to, to + first, std::uint8_t{0});
        std::copy(line + first, line + last, to + first);
        std::fill(to + last, to + box.width, std::uint8_t{0});
        if (mirrored) std::reverse(to, to + box.width);
      }
  }

  /// A part of the image, scaled to the sample.
  void scale(std::span<const std::uint8_t> stored, const Box& box, bool mirrored, std::span<std::uint8_t> bytes) const {
    const Shape from = file_->header().sample_shape;
    const std::int64_t plane = from[1] * from[2];
    Image image{from[2], from[1], std::vector<std::uint8_t>(static_cast<std::size_t>(3 * plane))};
    for (std::int64_t i = 0; i < plane; ++i)
      for (std::int64_t c = 0; c < 3; ++c)
        image.rgb[static_cast<std::size_t>(3 * i + c)] = stored[static_cast<std::size_t>(c % from[0] * plane + i)];
    const Window window{box, shape_[2], shape_[1], {0, 0, shape_[2], shape_[1]}, mirrored};
    round_pixels(cut_window(image, window), from[0], bytes);
  }

  Packed options_;
  std::unique_ptr<PackedFile> file_;
  FirstRead first_read_;
  Shape shape_;
};

}  // namespace

Splits Packed::open() const {
  auto train = std::make_unique<PackedFile>(path / "train.packed"),
       test = std::make_unique<PackedFile>(path / "test.packed");
  const PackedHeader &first = train->header(), &second = test->header();
  if (first.sample_shape != second.sample_shape || first.class_names != second.class_names)
    fail(Fault::data, path.string(), ": train.packed and test.packed differ in classes or size (", first.sample_shape,
         " and ", second.sample_shape, "); pack them together");
  return {std::make_shared<PackedImages>(*this, std::move(train)),
          std::make_shared<PackedImages>(*this, std::move(test))};
}

}  // namespace nixie
