// Elements are moved once, into C, H, W order.
#include "nixie/data/files/array_samples.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/base/error.h"

namespace nixie {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Whether the last one of four axes holds the channels.
bool has_channels_last(const Sizes& shape, const std::string& layout, const std::string& where) {
  if (layout != "auto") return layout == "last";
  const auto is_usual = [](std::int64_t size) { return size == 1 || size == 3; };
  if (is_usual(shape[1]) != is_usual(shape[3])) return is_usual(shape[3]);
  if (shape[1] == shape[3] && !is_usual(shape[3]))
    fail(Fault::data, where, " has the shape [", fmt::format("{}", fmt::join(shape, ", ")),
         "]: either axis may be the channels; set layout to first or last");
  return shape[3] <= shape[1];
}

/// The samples' shape [C, H, W]; `is_last` says that the channels come last in the array.
Shape shape_of(const ArraySource& source, const std::string& name, const Sizes& sizes, const std::string& layout,
               const std::string& where, bool& is_last) {
  is_last = false;
  if (sizes.size() == 3) return {1, sizes[1], sizes[2]};
  if (sizes.size() == 4) {
    is_last = has_channels_last(sizes, layout, where);
    return is_last ? Shape{sizes[3], sizes[1], sizes[2]} : Shape{sizes[1], sizes[2], sizes[3]};
  }
  const std::vector<double> given = source.attribute(name, "lshape");
  if (given.empty()) return {sizes[1], 1, 1};
  Sizes inner;
  for (const double size : given) inner.push_back(size >= 1 && size <= 1e9 ? std::llround(size) : 0);
  double elements = 1;
  for (const std::int64_t size : inner) elements *= static_cast<double>(size);
  if (inner.size() != 3 || elements != static_cast<double>(sizes[1]))
    fail(Fault::data, where, " has ", sizes[1], " numbers for a sample, its lshape is [",
         fmt::format("{}", fmt::join(inner, ", ")), "]");
  return Shape(inner);
}

template <class T>
std::vector<T> channels_first(std::vector<T> values, const Shape& sample, bool is_last) {
  if (!is_last) return values;
  std::vector<T> moved(values.size());
  const auto channels = static_cast<std::size_t>(sample[0]), plane = static_cast<std::size_t>(sample[1] * sample[2]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t at = i / (plane * channels), pixel = i / channels % plane, channel = i % channels;
    moved[(at * channels + channel) * plane + pixel] = values[i];
  }
  return moved;
}

template <class T>
void measure(const std::vector<T>& values, const Shape& sample, double unit, std::vector<float>& means,
             std::vector<float>& deviations) {
  const auto channels = static_cast<std::size_t>(sample[0]), plane = static_cast<std::size_t>(sample[1] * sample[2]);
  const double count = static_cast<double>(values.size() / channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto each = [&](const auto& visit) {
      for (std::size_t at = c * plane; at < values.size(); at += channels * plane)
        for (std::size_t i = at; i < at + plane; ++i) visit(values[i] / unit);
    };
    double mean = 0, square = 0;
    each([&](double value) { mean += value; });
    mean /= count;
    each([&](double value) { square += (value - mean) * (value - mean); });
    means.push_back(static_cast<float>(mean));
    const double deviation = std::sqrt(square / count);
    deviations.push_back(deviation > 1e-6 ? static_cast<float>(deviation) : 1.0f);  // of one colour there is none
  }
}

}  // namespace

ArrayImages images_of(const ArraySource& source, const std::string& name, const std::string& layout,
                      const std::filesystem::path& file) {
  NumberArray array = source.array(name);
  const std::string where = file.string() + ": " + name;
  if (array.bytes.empty() || array.shape.size() < 2 || array.shape.size() > 4)
    fail(Fault::data, where, " has the shape [", fmt::format("{}", fmt::join(array.shape, ", ")),
         "], expected [N, F], [N, H, W], [N, H, W, C] or [N, C, H, W]");
  bool is_last = false;
  ArrayImages images{.sample_shape = shape_of(source, name, array.shape, layout, where, is_last),
                     .samples = array.shape[0]};
  if (array.type == "u1") {
    images.bytes = channels_first(std::move(array.bytes), images.sample_shape, is_last);
    return images;
  }
  images.numbers = channels_first(floats_of(array), images.sample_shape, is_last);
  const auto wrong =
      std::find_if(images.numbers.begin(), images.numbers.end(), [](float x) { return !std::isfinite(x); });
  if (wrong != images.numbers.end())
    fail(Fault::data, where, ": sample ", (wrong - images.numbers.begin()) / images.sample_shape.size(), " holds ",
         *wrong, ", expected numbers that are finite; take it out");
  return images;
}

void measure_images(const ArrayImages& images, std::vector<float>& mean, std::vector<float>& deviation) {
  if (images.is_bytes())
    measure(images.bytes, images.sample_shape, 255, mean, deviation);
  else
    measure(images.numbers, images.sample_shape, 1, mean, deviation);
}

bool is_one_hot_rows(const NumberArray& rows) {
  if (rows.shape.size() != 2 || rows.shape[1] < 2) return false;
  const auto columns = static_cast<std::size_t>(rows.shape[1]);
  const std::vector<float> values = floats_of(rows);
  for (std::size_t at = 0; at < values.size(); at += columns) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at),
               end = begin + static_cast<std::ptrdiff_t>(columns);
    if (std::count(begin, end, 1.0f) != 1 || std::count(begin, end, 0.0f) != static_cast<std::ptrdiff_t>(columns) - 1)
      return false;
  }
  return true;
}

std::vector<std::int32_t> places_of_ones(const NumberArray& rows) {
  const auto columns = static_cast<std::size_t>(rows.shape[1]);
  const std::vector<float> values = floats_of(rows);
  std::vector<std::int32_t> places;
  for (std::size_t at = 0; at < values.size(); at += columns) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
    places.push_back(
        static_cast<std::int32_t>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(columns)) - begin));
  }
  return places;
}

}  // namespace nixie
