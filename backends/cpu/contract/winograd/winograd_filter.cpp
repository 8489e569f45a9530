// filter_grad in Winograd's tiles: G^T of the products of A dy A^T, filters as lanes, and of the windows' transforms,
// summed over all tiles.
#include "nixie/backends/cpu/contract/pack.h"
#include "nixie/backends/cpu/contract/winograd/winograd.h"
#include "nixie/backends/cpu/contract/winograd/winograd_tiles.h"

namespace nixie::cpu {
namespace {

using V = Vector<float>;
using Segment = WinogradTiling::Segment;
constexpr std::int64_t kWidth = kLanes<float>;
constexpr int kWindow = kWinogradWindow, kPoints = kWinogradPoints;
constexpr std::int64_t kChannels = 32;  // whose windows stay in the second-level cache

/// dy of a segment, [pixel][lane]; `wide` is the filters' lanes with those that fill a vector.
void pack_lines(const ImageView<float>& dy, const Sizes& out, const Segment& segment, std::int64_t filter,
                std::int64_t used, std::int64_t wide, float* to) {
  const std::int64_t top = 2 * segment.line, bottom = std::min(out[1], top + 2 * segment.lines);
  const float* from = dy.data + segment.image * dy.outer + filter * dy.inner + top * dy.axis[1];
  if (dy.axis[2] == 1 && dy.axis[1] == out[2])
    return pack_lanes(from, dy.inner, std::int64_t{1}, used, wide, (bottom - top) * out[2], to);
  for (std::int64_t h = top; h < bottom; ++h, from += dy.axis[1], to += out[2] * wide)
    pack_lanes(from, dy.inner, dy.axis[2], used, wide, out[2], to);
}

/// A of a column or a row of two: to[i * step].
void transform_pair(V a, V b, V* to, int step) {
  to[0] = a;
  to[step] = a + b;
  to[2 * step] = a - b;
  to[3 * step] = -b;
}

/// to[point * point_step + tile * wide + lane] = A dy A^T; pixels outside dy are zero.
void transform_gradients(const float* pixels, const Sizes& out, const WinogradTiling& tiling, const Segment& segment,
                         std::int64_t wide, float* to, std::int64_t point_step) {
  const std::int64_t height = out[1] - 2 * segment.line, width = out[2];
  to += segment.lane * wide;
  for (std::int64_t line = 0; line < segment.lines; ++line)
    for (std::int64_t w = 0; w < tiling.across; ++w, to += wide) {
      const bool below = 2 * line + 1 < height, right = 2 * w + 1 < width;
      const float* from = pixels + (2 * line * width + 2 * w) * wide;
      for (std::int64_t lane = 0; lane < wide; lane += kWidth, from += kWidth) {
        V half[2 * kWindow], whole[kPoints];
        transform_pair(load(from), below ? load(from + width * wide) : V{}, half, 2);
        transform_pair(right ? load(from + wide) : V{}, right && below ? load(from + (width + 1) * wide) : V{},
                       half + 1, 2);
#pragma GCC unroll 4
        for (int i = 0; i < kWindow; ++i) transform_pair(half[2 * i], half[2 * i + 1], whole + kWindow * i, 1);
#pragma GCC unroll 16
        for (int p = 0; p < kPoints; ++p) store(to + p * point_step + lane, whole[p]);
      }
    }
}

/// G^T of a column or a row of products: x[i * step].
void transform_filter_grad(const V* x, int step, V* to, int to_step) {
  const V middle = (x[step] + x[2 * step]) * 0.5f;
  to[0] = x[0] + middle;
  to[to_step] = (x[step] - x[2 * step]) * 0.5f;
  to[2 * to_step] = middle + x[3 * step];
}

}  // namespace

bool winograd_filter_pays(const ConvShape& s) {
  if (!winograd_fits(s)) return false;
  const WinogradTiling tiling(s.batch, s.out);
  constexpr double kWindowCost = 100, kGradCost = 100;  // of a transform, in lanes
  const double filters = static_cast<double>(s.filters), channels = static_cast<double>(s.channels);
  const double vectors = static_cast<double>(ceil_div(s.filters, kWidth));
  const double panels = static_cast<double>(ceil_div(ceil_div(s.filters, kWidth), kTileVectors));
  const double line_waste =
      static_cast<double>(ceil_div(tiling.across, kWidth) * kWidth) / static_cast<double>(tiling.across);
  return winograd_is_faster(s, tiling, s.out, vectors * kWidth / filters,
                            line_waste * kWindowCost * channels * panels + kGradCost * filters);
}

void sum_winograd_filters(const ConvShape& s, const ImageView<float>& dy, const ImageView<float>& x,
                          const FilterPart& part, float* sums) {
  const WinogradTiling tiling(s.batch, s.out);
  const WinogradWindows windows{x, s.in, s.pad, tiling};
  const std::int64_t wide = ceil_div(part.filters, kWidth) * kWidth, channels = part.channels;
  const std::int64_t pitch = tiling.pitch(), point = kChannels * pitch + kWidth;
  const std::int64_t grad_point = tiling.most_tiles() * wide + kWidth, product_point = channels * wide + kWidth;
  Scratch<float> pixels(4 * tiling.most_tiles() * wide), grads(kPoints * grad_point), transformed(kPoints * point);
  Scratch<float> products(kPoints * product_point);
  const std::int64_t line0 = part.image0 * tiling.lines, line1 = part.image1 * tiling.lines;
  const std::int64_t most_lines = tiling.most_tiles() / tiling.across;
  TileArgs<float> tile;
  tile.lanes_step = tile.out_step = wide;
  if (line0 == line1) std::fill_n(products.data(), kPoints * product_point, 0.0f);
  for (std::int64_t line = line0; line < line1; line += most_lines) {
    const std::vector<Segment> segments = tiling.segments(line, std::min(line1, line + most_lines));
    for (const Segment& segment : segments) {
      pack_lines(dy, s.out, segment, part.filter, part.filters, wide, pixels.data());
      transform_gradients(pixels.data(), s.out, tiling, segment, wide, grads.data(), grad_point);
    }
    tile.length = segments.back().lane + segments.back().lines * tiling.across;
    tile.add = line > line0;
    for (std::int64_t c = 0; c < channels; c += kChannels) {
      const std::int64_t some = std::min(kChannels, channels - c), tiles = ceil_div(some, kTileRows);
      windows.transform(segments, part.channel + c, part.channel + c + some, transformed.data(), point);
      for (int p = 0; p < kPoints; ++p) {
        tile.lanes = grads.data() + p * grad_point;
        for (std::int64_t t = 0; t < tiles; ++t) {
          const std::int64_t row = cut(some, tiles, t), rows = cut(some, tiles, t + 1) - row;
          for (std::int64_t r = 0; r < rows; ++r) tile.rows[r] = transformed.data() + p * point + (row + r) * pitch;
          tile.out = products.data() + p * product_point + (c + row) * wide;
          run_tile(static_cast<int>(rows), static_cast<int>(wide / kWidth), tile);
        }
      }
    }
  }
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t lane = 0; lane < wide; lane += kWidth) {
      V whole[kPoints], half[3 * kWindow], taps[9];
      for (int p = 0; p < kPoints; ++p) whole[p] = load(products.data() + p * product_point + c * wide + lane);
      for (int w = 0; w < kWindow; ++w) transform_filter_grad(whole + w, kWindow, half + w, kWindow);
      for (int h = 0; h < 3; ++h) transform_filter_grad(half + kWindow * h, 1, taps + 3 * h, 1);
      for (int t = 0; t < 9; ++t) store(sums + (c * 9 + t) * wide + lane, taps[t]);
    }
}

}  // namespace nixie::cpu
