// Window: a separable triangle filter over rows of interleaved pixels.
#include "nixie/data/files/window.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace nixie {
namespace {

/// The source positions that make up each of some scaled positions, and their weights, which sum to 1.
struct Taps {
  std::vector<std::int32_t> first = {};  ///< of each position
  std::int32_t most = 1;                 ///< taps of a position; those that it does not need weigh 0
  std::vector<float> weights = {};       ///< [positions, most]

  std::size_t count() const { return first.size(); }
  const float* of(std::size_t position) const { return weights.data() + position * static_cast<std::size_t>(most); }
};

/// The taps of `count` positions from `offset` on, when `from` pixels are scaled to `to`.
Taps make_taps(std::int64_t from, std::int64_t to, std::int64_t offset, std::int64_t count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  Taps taps;
  // So many whole numbers are less than `reach` away from any.
  taps.most = static_cast<std::int32_t>(std::min<double>(std::ceil(2 * reach), static_cast<double>(from)));
  taps.weights.resize(static_cast<std::size_t>(taps.most * count));
  float* weights = taps.weights.data();
  for (std::int64_t i = offset; i < offset + count; ++i, weights += taps.most) {
    const double center = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto weight = [&](std::int64_t k) {
      return std::max(0.0, 1 - std::abs(static_cast<double>(k) - center) / reach);
    };
    auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(center - reach)));
    auto last = std::min(from - 1, static_cast<std::int64_t>(std::floor(center + reach)));
    while (first < last && weight(first) == 0) ++first;  // what weighs nothing costs nothing
    while (first < last && (weight(last) == 0 || last - first >= taps.most)) --last;
    double sum = 0;
    for (std::int64_t k = first; k <= last; ++k) sum += weight(k);
    for (std::int64_t k = first; k <= last; ++k)
      weights[k - first] = static_cast<float>(static_cast<float>(weight(k)) / sum);
    taps.first.push_back(static_cast<std::int32_t>(first));
  }
  return taps;
}

/// The positions in reverse.
void mirror(Taps& taps) {
  std::reverse(taps.first.begin(), taps.first.end());
  std::reverse(taps.weights.begin(), taps.weights.end());  // also within a position, which is put right here
  for (auto each = taps.weights.begin(); each != taps.weights.end(); each += taps.most)
    std::reverse(each, each + taps.most);
}

/// The share of a window's part within the scaled box, and its place in the sample.
struct Visible {
  Box part;
  std::int64_t right = 0, down = 0;
};

Visible visible_of(const Window& window) {
  const Box& part = window.part;
  const std::int64_t left = std::max<std::int64_t>(part.left, 0), top = std::max<std::int64_t>(part.top, 0),
                     width = std::min(part.left + part.width, window.width) - left,
                     height = std::min(part.top + part.height, window.height) - top;
  if (width < 1 || height < 1) return {};
  const std::int64_t before = left - part.left;
  return {{left, top, width, height}, window.mirrored ? part.width - width - before : before, top - part.top};
}

/// Three channels and one more that nobody looks at: a pixel is read and written as one vector.
using Pixel = float __attribute__((vector_size(16), aligned(4)));

/// A line of scaled pixels out of a line of source pixels that begins with `first`. Taps of weight 0 read behind
/// that line; a float is written behind the scaled one.
template <std::int32_t most>
void scale_across(const float* line, const Taps& columns, std::int32_t first, float* to) {
  const std::int32_t count = most > 0 ? most : columns.most;
  const float* weights = columns.weights.data();
  for (const std::int32_t column : columns.first) {
    const float* from = line + 3 * (column - first);
    Pixel sum{};
    for (std::int32_t k = 0; k < count; ++k, from += 3) {
      Pixel pixel;
      std::memcpy(&pixel, from, sizeof(pixel));
      sum += weights[k] * pixel;
    }
    std::memcpy(to, &sum, sizeof(sum));
    weights += count;
    to += 3;
  }
}

/// The weighted sum of lines, several at a time; `line_of(k)` gives the k-th.
template <class LineOf>
void scale_down(const LineOf& line_of, const float* weights, std::int32_t most, std::span<float> sum) {
  std::int32_t count = 0, k = 0;
  while (count < most && weights[count] != 0) ++count;
  const auto add = [&]<std::int32_t... each>(std::integer_sequence<std::int32_t, each...>) {
    const std::array lines = {line_of(k + each)...};
    const std::array of = {weights[k + each]...};
    if (k == 0)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = ((of[each] * static_cast<float>(lines[each][i])) + ...);
    else
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += ((of[each] * static_cast<float>(lines[each][i])) + ...);
    k += static_cast<std::int32_t>(sizeof...(each));
  };
  while (k + 4 <= count) add(std::make_integer_sequence<std::int32_t, 4>());
  if (k + 2 <= count) add(std::make_integer_sequence<std::int32_t, 2>());
  if (k < count) add(std::make_integer_sequence<std::int32_t, 1>());
}

/// Calls `emit(y, row)` with each row of the window's visible part: interleaved R, G, B in [0, 255].
template <class Emit>
void scale_window(const Image& image, const Window& window, const Box& part, const Emit& emit) {
  const Box& box = window.source;
  const Taps rows = make_taps(box.height, window.height, part.top, part.height);
  Taps columns = make_taps(box.width, window.width, part.left, part.width);
  const std::int32_t first = columns.first.front();
  const std::int64_t last = std::min<std::int64_t>(columns.first.back() + columns.most, box.width);
  if (window.mirrored) mirror(columns);
  const auto span = static_cast<std::size_t>(3 * (last - first)), count = 3 * columns.count(),
             most = static_cast<std::size_t>(rows.most);
  const auto source = [&](std::int64_t y) {
    return image.rgb.data() + ((box.top + y) * image.width + box.left + first) * 3;
  };
  const auto across = columns.most == 2 ? scale_across<2> : scale_across<0>;
  std::vector<float> line(span + 3 * static_cast<std::size_t>(columns.most) + 1), row(count + 1);
  const std::int64_t read = std::min<std::int64_t>(rows.first.back() + rows.most, box.height) - rows.first.front();
  if (read >= part.height) {  // the way that has fewer lines to scale across
    for (std::size_t y = 0; y < rows.count(); ++y) {
      scale_down([&](std::int32_t k) { return source(rows.first[y] + k); }, rows.of(y), rows.most,
                 std::span(line).first(span));
      across(line.data(), columns, first, row.data());
      emit(y, row.data());
    }
    return;
  }
  // Rows read lines in their order, so few scaled lines are kept.
  std::vector<float> lines(most * (count + 1));
  const auto scaled = [&](std::int64_t y) { return lines.data() + static_cast<std::size_t>(y) % most * (count + 1); };
  std::int64_t done = rows.first.front();
  for (std::size_t y = 0; y < rows.count(); ++y) {
    for (const auto end = std::min<std::int64_t>(rows.first[y] + rows.most, box.height); done < end; ++done) {
      std::copy_n(source(done), span, line.data());
      across(line.data(), columns, first, scaled(done));
    }
    scale_down([&](std::int32_t k) { return scaled(rows.first[y] + k); }, rows.of(y), rows.most,
               std::span(row).first(count));
    emit(y, row.data());
  }
}

/// Interleaved pixels to planes.
template <class T>
void separate(const T* from, std::int64_t count, T* to, std::size_t plane) {
  T *red = to, *green = to + plane, *blue = green + plane;
  for (std::int64_t x = 0; x < count; ++x) {
    red[x] = from[3 * x];
    green[x] = from[3 * x + 1];
    blue[x] = from[3 * x + 2];
  }
}

/// Written out, not by `convert`, so that it runs on many pixels at once.
std::uint8_t rounded(float value) {
  return static_cast<std::uint8_t>(static_cast<std::int32_t>(std::nearbyint(std::clamp(value, 0.0f, 255.0f))));
}

}  // namespace

std::array<std::int64_t, 2> covering_size(const Image& image, std::int64_t width, std::int64_t height) {
  if (width * image.height >= height * image.width) return {width, width * image.height / image.width};
  return {height * image.width / image.height, height};
}

std::int64_t centred(std::int64_t room) {
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(room) / 2));
}

Window centre_window(const Image& image, std::int64_t short_side, std::int64_t width, std::int64_t height) {
  const std::int64_t least = std::min(width, height);
  const auto [scaled_width, scaled_height] =
      covering_size(image, width * short_side / least, height * short_side / least);
  return {.source = {0, 0, image.width, image.height},
          .width = scaled_width,
          .height = scaled_height,
          .part = {centred(scaled_width - width), centred(scaled_height - height), width, height}};
}

std::vector<float> cut_window(const Image& image, const Window& window) {
  const auto plane = static_cast<std::size_t>(window.part.width * window.part.height);
  std::vector<float> result(3 * plane);
  const Visible seen = visible_of(window);
  if (seen.part.width == 0) return result;
  float* begin = result.data() + seen.down * window.part.width + seen.right;
  scale_window(image, window, seen.part, [&](std::size_t y, const float* row) {
    separate(row, seen.part.width, begin + static_cast<std::int64_t>(y) * window.part.width, plane);
  });
  return result;
}

void cut_bytes(const Image& image, const Window& window, std::int64_t channels, std::span<std::uint8_t> bytes) {
  if (channels != 3) return round_pixels(cut_window(image, window), channels, bytes);
  const auto plane = static_cast<std::size_t>(window.part.width * window.part.height);
  const Visible seen = visible_of(window);
  const Box& part = seen.part;
  if (part.width != window.part.width || part.height != window.part.height)
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
  if (part.width == 0) return;
  std::uint8_t* to = bytes.data() + seen.down * window.part.width + seen.right;
  const Box& box = window.source;
  if (window.width == box.width && window.height == box.height) {  // nothing is scaled
    for (std::int64_t y = 0; y < part.height; ++y, to += window.part.width) {
      separate(image.rgb.data() + ((box.top + part.top + y) * image.width + box.left + part.left) * 3, part.width, to,
               plane);
      if (window.mirrored)
        for (std::size_t c = 0; c < 3; ++c) std::reverse(to + c * plane, to + c * plane + part.width);
    }
    return;
  }
  std::vector<std::uint8_t> line(static_cast<std::size_t>(3 * part.width));
  scale_window(image, window, part, [&](std::size_t y, const float* row) {
    for (std::size_t i = 0; i < line.size(); ++i) line[i] = rounded(row[i]);
    separate<std::uint8_t>(line.data(), part.width, to + static_cast<std::int64_t>(y) * window.part.width, plane);
  });
}

void cut_mask(const Mask& mask, const Window& window, std::span<std::int32_t> classes) {
  const Box &box = window.source, &part = window.part;
  const auto under = [](std::int64_t at, std::int64_t from, std::int64_t to) { return (2 * at + 1) * from / (2 * to); };
  std::int32_t* to = classes.data();
  for (std::int64_t row = 0; row < part.height; ++row)
    for (std::int64_t column = 0; column < part.width; ++column, ++to) {
      const std::int64_t y = part.top + row, x = part.left + (window.mirrored ? part.width - 1 - column : column);
      const bool is_inside = y >= 0 && y < window.height && x >= 0 && x < window.width;
      *to = is_inside
                ? mask.classes[static_cast<std::size_t>((box.top + under(y, box.height, window.height)) * mask.width +
                                                        box.left + under(x, box.width, window.width))]
                : 0;
    }
}

void round_pixels(const std::vector<float>& rgb, std::int64_t channels, std::span<std::uint8_t> bytes) {
  const std::size_t plane = rgb.size() / 3;
  const float *red = rgb.data(), *green = red + plane, *blue = green + plane;
  if (channels == 3)
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = rounded(red[i]);
  else
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = rounded(0.299f * red[i] + 0.587f * green[i] + 0.114f * blue[i]);
}

}  // namespace nixie
