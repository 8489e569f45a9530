// Elements are moved once, into C, H, W order.
#include "nixie/data/files/array_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

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

/// The pixels of an array's rows, channels first; `first` is the number of the first row, for messages.
template <class T>
std::vector<T> pixels_of(NumberArray rows, const Shape& sample, bool is_last, const std::string& where,
                         std::int64_t first) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return channels_first(std::move(rows.bytes), sample, is_last);
  } else {
    std::vector<float> numbers = floats_of(rows);
    const auto wrong = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
    if (const auto at = wrong - numbers.begin(); wrong != numbers.end())
      fail(Fault::data, where, ": sample ", first + at / sample.size(), " holds ",
           element_text(rows, static_cast<std::size_t>(at)), ", expected numbers that are finite in f32; take it out");
    rows = {};  // its memory is that of the next copy
    return channels_first(std::move(numbers), sample, is_last);
  }
}

/// Calls `visit` with the pixels of all samples in order: at once, or of those in a file some at a time.
template <class T, class Visit>
void for_each_part(const ArrayImages& images, const std::vector<T>& held, const Visit& visit) {
  if (!images.filed) return visit(held);
  constexpr std::int64_t kPartElements = 4 << 20;
  const std::vector<std::int64_t>& chosen = images.filed->chosen;
  const std::int64_t rows = std::max<std::int64_t>(1, kPartElements / images.sample_shape.size());
  for (std::size_t first = 0, last = 0; first < chosen.size(); first = last) {
    while (last < chosen.size() && chosen[last] < chosen[first] + rows) ++last;
    visit(images.filed->read<T>(first, last - first));
  }
}

template <class T>
void measure(const ArrayImages& images, const std::vector<T>& held, double unit, std::vector<float>& means,
             std::vector<float>& deviations) {
  const auto channels = static_cast<std::size_t>(images.sample_shape[0]),
             plane = static_cast<std::size_t>(images.sample_shape[1] * images.sample_shape[2]);
  const double count = static_cast<double>(images.samples) * static_cast<double>(plane);
  // The mean over each channel of `term(channel, value)`.
  const auto averages = [&](const auto& term) {
    std::vector<double> sums(channels);
    for_each_part<T>(images, held, [&](const std::vector<T>& values) {
      for (auto value = values.begin(); value != values.end();)
        for (std::size_t c = 0; c < channels; ++c)
          for (std::size_t i = 0; i < plane; ++i) sums[c] += term(c, *value++ / unit);
    });
    for (double& sum : sums) sum /= count;
    return sums;
  };
  const std::vector<double> mean = averages([](std::size_t, double value) { return value; }),
                            square = averages(
                                [&](std::size_t c, double value) { return (value - mean[c]) * (value - mean[c]); });
  // Numbers come in any unit, so only what equal ones leave by rounding is no deviation; of one colour there is none.
  const double least = std::is_same_v<T, std::uint8_t> ? 1e-6 : 0;
  for (std::size_t c = 0; c < channels; ++c) {
    means.push_back(static_cast<float>(mean[c]));
    const auto deviation = static_cast<float>(std::sqrt(square[c]));
    const bool varies = deviation > std::max(least, 1e-9 * std::abs(mean[c]));
    deviations.push_back(varies ? std::max(deviation, std::numeric_limits<float>::min()) : 1.0f);
  }
}

template <class T>
std::vector<T> samples_of(const std::vector<T>& all, std::span<const std::size_t> indices, std::size_t size) {
  std::vector<T> samples;
  samples.reserve(indices.size() * size);
  for (const std::size_t i : indices) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * size);
    samples.insert(samples.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return samples;
}

}  // namespace

template <class T>
std::vector<T> FiledImages::read(std::size_t first, std::size_t count) const {
  if (count == 0) return {};
  const std::int64_t begin = chosen[first], end = chosen[first + count - 1] + 1;
  std::vector<T> pixels = pixels_of<T>(rows->read(begin, end - begin), sample_shape, is_last, where, begin);
  const auto size = static_cast<std::size_t>(sample_shape.size());
  for (std::size_t i = 0; i < count; ++i) {  // a row is never moved to a later place
    const auto from = pixels.begin() + (chosen[first + i] - begin) * sample_shape.size();
    std::copy(from, from + sample_shape.size(), pixels.begin() + static_cast<std::int64_t>(i) * sample_shape.size());
  }
  pixels.resize(count * size);
  return pixels;
}
template std::vector<std::uint8_t> FiledImages::read(std::size_t, std::size_t) const;
template std::vector<float> FiledImages::read(std::size_t, std::size_t) const;

ArrayImages images_of(const ArraySource& source, const std::string& name, const std::string& layout,
                      const std::filesystem::path& file, double most_bytes) {
  const std::string where = file.string() + ": " + name;
  const std::shared_ptr<const ArrayRows> rows = source.rows(name);
  const auto bytes_of = [](const NumberArray& form) {  // in double: sizes of strangers overflow integers
    const double element = form.type == "u1" ? 1 : sizeof(float);
    return std::accumulate(form.shape.begin(), form.shape.end(), element, std::multiplies<>());
  };
  const bool is_filed = rows && bytes_of(rows->form()) > most_bytes;
  NumberArray array = is_filed ? rows->form() : source.array(name);
  const auto refuse = [&](const std::string& what) {
    fail(Fault::data, where, " has the shape [", fmt::format("{}", fmt::join(array.shape, ", ")), "], ", what);
  };
  if (array.shape.size() < 2 || array.shape.size() > 4)
    refuse("expected [N, F], [N, H, W], [N, H, W, C] or [N, C, H, W]");
  if (array.shape[0] == 0) refuse("so no sample; save it with at least one");
  if (array.bytes.empty() && !is_filed) refuse("so no number in a sample; save it with at least one");
  bool is_last = false;
  ArrayImages images{.sample_shape = shape_of(source, name, array.shape, layout, where, is_last),
                     .samples = array.shape[0]};
  if (is_filed) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(images.samples));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    images.filed = std::make_shared<FiledImages>(FiledImages{rows, images.sample_shape, is_last, where, all});
  } else if (array.type == "u1") {
    images.bytes = pixels_of<std::uint8_t>(std::move(array), images.sample_shape, is_last, where, 0);
  } else {
    images.numbers = pixels_of<float>(std::move(array), images.sample_shape, is_last, where, 0);
  }
  return images;
}

ArrayImages part_of(const ArrayImages& images, std::span<const std::size_t> indices) {
  const auto size = static_cast<std::size_t>(images.sample_shape.size());
  ArrayImages part{.sample_shape = images.sample_shape,
                   .samples = static_cast<std::int64_t>(indices.size()),
                   .bytes = {},
                   .numbers = {}};
  if (images.filed) {
    FiledImages filed = *images.filed;
    filed.chosen = samples_of(images.filed->chosen, indices, 1);
    part.filed = std::make_shared<FiledImages>(std::move(filed));
  } else if (images.is_bytes()) {
    part.bytes = samples_of(images.bytes, indices, size);
  } else {
    part.numbers = samples_of(images.numbers, indices, size);
  }
  return part;
}

void measure_images(const ArrayImages& images, std::vector<float>& mean, std::vector<float>& deviation) {
  if (images.is_bytes())
    measure(images, images.bytes, 255, mean, deviation);
  else
    measure(images, images.numbers, 1, mean, deviation);
}

std::optional<std::int64_t> first_row_not_one_hot(const NumberArray& rows) {
  const auto columns = static_cast<std::size_t>(rows.shape[1]);
  const std::vector<float> values = floats_of(rows);
  for (std::size_t at = 0; at < values.size(); at += columns) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at),
               end = begin + static_cast<std::ptrdiff_t>(columns);
    if (std::count(begin, end, 1.0f) != 1 || std::count(begin, end, 0.0f) != static_cast<std::ptrdiff_t>(columns) - 1)
      return static_cast<std::int64_t>(at / columns);
  }
  return std::nullopt;
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
