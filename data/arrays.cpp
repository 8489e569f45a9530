// Arrays: channels come first, and one half is cut into two where there is no other.
#include "nixie/data/arrays.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nixie/data/draws.h"
#include "nixie/data/files/npy_file.h"
#include "nixie/data/stored_images.h"

namespace nixie {
namespace {

using Content = StoredImages::Content;

/// The first of these names that there is, else "".
std::string present(const NpyFile& file, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (file.has(name)) return name;
  return {};
}

[[noreturn]] void refuse(const Arrays& options, const std::string& what) {
  fail(Fault::data, options.path.string(), ": ", what);
}

/// Whether the last one of four axes holds the channels.
bool has_channels_last(const Arrays& options, const std::string& name, const std::vector<std::int64_t>& shape) {
  if (options.layout != "auto") return options.layout == "last";
  const auto is_usual = [](std::int64_t size) { return size == 1 || size == 3; };
  if (is_usual(shape[1]) != is_usual(shape[3])) return is_usual(shape[3]);
  if (shape[1] == shape[3] && !is_usual(shape[3]))
    refuse(options, fmt::format("{} has the shape [{}]: either axis may be the channels; set layout to first or last",
                                name, fmt::join(shape, ", ")));
  return shape[3] <= shape[1];
}

void read_images(const Arrays& options, const NpyFile& file, const std::string& name, Content& content) {
  NpyArray array = file.array(name);
  const auto& s = array.shape;
  const std::size_t rank = s.size();
  if (array.type != "u1") refuse(options, name + " has the type " + array.type + ", expected uint8 images of 0 to 255");
  if (array.bytes.empty() || !(rank == 3 || rank == 4))
    refuse(options, fmt::format("{} has the shape [{}], expected [N, H, W], [N, H, W, C] or [N, C, H, W]", name,
                                fmt::join(s, ", ")));
  if (rank == 3 || !has_channels_last(options, name, s)) {
    content.sample_shape = rank == 3 ? Shape{1, s[1], s[2]} : Shape{s[1], s[2], s[3]};
    content.pixels = std::move(array.bytes);
    return;
  }
  content.sample_shape = {s[3], s[1], s[2]};
  content.pixels.resize(array.bytes.size());
  const auto channels = static_cast<std::size_t>(s[3]), plane = static_cast<std::size_t>(s[1] * s[2]);
  for (std::size_t i = 0; i < array.bytes.size(); ++i) {
    const std::size_t sample = i / (plane * channels), pixel = i / channels % plane, channel = i % channels;
    content.pixels[(sample * channels + channel) * plane + pixel] = array.bytes[i];
  }
}

void read_labels(const Arrays& options, const NpyFile& file, const std::string& name, Content& content) {
  const NpyArray array = file.array(name);
  const auto labels = integers_of(array);
  const std::size_t samples = content.pixels.size() / static_cast<std::size_t>(content.sample_shape.size());
  if (!labels) refuse(options, name + " has the type " + array.type + ", expected whole numbers");
  if (labels->size() != samples)
    refuse(options, fmt::format("{} has {} labels for {} images; the arrays do not belong together", name,
                                labels->size(), samples));
  for (std::size_t i = 0; i < samples; ++i) {
    const std::int64_t label = (*labels)[i];
    if (label < 0 || label > 255)
      refuse(options, fmt::format("{}[{}] is {}, expected classes 0 to 255", name, i, label));
    content.labels.push_back(static_cast<std::uint8_t>(label));
  }
}

/// The samples of these indices.
Content part_of(const Content& all, std::span<const std::size_t> indices) {
  Content part{.sample_shape = all.sample_shape, .pixels = {}, .labels = {}};
  const auto size = static_cast<std::ptrdiff_t>(all.sample_shape.size());
  for (const std::size_t i : indices) {
    const auto begin = all.pixels.begin() + static_cast<std::ptrdiff_t>(i) * size;
    part.pixels.insert(part.pixels.end(), begin, begin + size);
    part.labels.push_back(all.labels[i]);
  }
  return part;
}

/// Takes a share of the samples out, the same on every machine.
Content hold_out(const Arrays& options, Content& content) {
  std::vector<std::size_t> order(content.labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, Draws(random_stream(0, "arrays/holdout"), 0));
  const auto count = static_cast<std::size_t>(std::lround(options.holdout * static_cast<float>(order.size())));
  if (count == 0 || count == order.size())
    refuse(options, "nothing left to test on; add x_test and y_test, or raise holdout");
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  Content held = part_of(content, std::span(order).first(count));
  content = part_of(content, std::span(order).subspan(count));
  return held;
}

void measure(const Content& content, StoredImages::Transform& transform) {
  const auto channels = static_cast<std::size_t>(content.sample_shape[0]);
  const std::size_t plane = static_cast<std::size_t>(content.sample_shape.size()) / channels;
  const double count = static_cast<double>(content.pixels.size() / channels);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0, square = 0;
    for (std::size_t at = c * plane; at < content.pixels.size(); at += channels * plane)
      for (std::size_t i = at; i < at + plane; ++i) {
        const double value = content.pixels[i] / 255.0;
        sum += value, square += value * value;
      }
    const double mean = sum / count;
    transform.mean.push_back(static_cast<float>(mean));
    transform.deviation.push_back(static_cast<float>(std::sqrt(std::max(1e-12, square / count - mean * mean))));
  }
}

}  // namespace

Splits Arrays::open() const {
  check(layout == "auto" || layout == "first" || layout == "last", "arrays: layout is ", layout,
        ", expected auto, first or last");
  const NpyFile file(path);
  const std::string images = present(file, {"x_train", "train_images", "images", "x"}),
                    labels = present(file, {"y_train", "train_labels", "labels", "y"}),
                    test_images = present(file, {"x_test", "test_images"}),
                    test_labels = present(file, {"y_test", "test_labels"});
  if (images.empty() || labels.empty() || test_images.empty() != test_labels.empty())
    refuse(*this, "holds " + file.names() +
                      ", expected x_train and y_train with or without x_test and y_test, or images and labels");
  Content train, test;
  read_images(*this, file, images, train);
  read_labels(*this, file, labels, train);
  if (test_images.empty()) {
    test = hold_out(*this, train);
  } else {
    read_images(*this, file, test_images, test);
    read_labels(*this, file, test_labels, test);
    if (test.sample_shape != train.sample_shape)
      refuse(*this, fmt::format("training images are {}, test images {}; the arrays do not belong together",
                                train.sample_shape, test.sample_shape));
  }
  std::uint8_t most = 0;
  for (const Content* half : {&train, &test})
    for (const std::uint8_t label : half->labels) most = std::max(most, label);
  std::vector<std::string> names;
  for (int c = 0; c <= most; ++c) names.push_back(std::to_string(c));
  StoredImages::Transform transform{.pad = pad, .flip = flip, .augment = augment};
  if (normalize) measure(train, transform);
  return {std::make_shared<StoredImages>(std::move(train), names, transform, limit),
          std::make_shared<StoredImages>(std::move(test), names, transform, limit)};
}

}  // namespace nixie
