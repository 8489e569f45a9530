// Winograd's tiles: their places, and B^T d B of windows, the tiles of a line as lanes.
#include "nixie/backends/cpu/contract/winograd/winograd_tiles.h"
#include "nixie/backends/settings/environment.h"

namespace nixie::cpu {
namespace {

using V = Vector<float>;
constexpr std::int64_t kWidth = kLanes<float>;
constexpr int kWindow = kWinogradWindow, kPoints = kWinogradPoints;
constexpr std::int64_t kTiles = 112;  // of a block

/// B^T of a column or a row of a window: x[i * step].
void transform_window(V* x, int step) {
  const V a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
  x[0] = a - c;
  x[step] = b + c;
  x[2 * step] = c - b;
  x[3 * step] = b - d;
}

}  // namespace

WinogradTiling::WinogradTiling(std::int64_t images, const Sizes& result)
    : lines(ceil_div(result[1], 2)), across(ceil_div(result[2], 2)), all_lines(images * lines) {
  blocks = std::clamp<std::int64_t>(ceil_div(all_lines * across, kTiles), 1, std::max<std::int64_t>(1, all_lines));
}

std::vector<WinogradTiling::Segment> WinogradTiling::segments(std::int64_t first, std::int64_t last) const {
  std::vector<Segment> result;
  for (std::int64_t line = first; line < last; line += result.back().lines)
    result.push_back(
        {line / lines, line % lines, std::min(last - line, lines - line % lines), (line - first) * across});
  return result;
}

std::vector<WinogradTiling::Segment> WinogradTiling::segments_of(std::int64_t block) const {
  return segments(cut(all_lines, blocks, block), cut(all_lines, blocks, block + 1));
}

std::int64_t WinogradTiling::pitch() const {
  const std::int64_t vectors = ceil_div(most_tiles(), kWidth) + 1;
  return (vectors + (vectors % 2 == 0)) * kWidth;
}

void WinogradWindows::transform(const std::vector<WinogradTiling::Segment>& segments, std::int64_t first,
                                std::int64_t last, float* to, std::int64_t point_step) const {
  const std::int64_t pitch = tiling.pitch();
  for (const WinogradTiling::Segment& segment : segments) {
    FrameLayout layout;
    layout.column_step = 2;
    layout.size = {1, 2 * segment.lines + 2, 2 * tiling.across + 2};
    layout.pad = {0, pad[1] - 2 * segment.line, pad[2]};
    Scratch<float> frame(layout.channel());
    std::fill_n(frame.data(), layout.channel() + kWidth, 0.0f);
    const std::int64_t odd = layout.dealt_columns(), row_step = layout.row();
    const float* image = source.data + segment.image * source.outer;
    for (std::int64_t c = first; c < last; ++c) {
      fill_frame(layout, image + c * source.inner, source.inner, source.axis, size, 1, frame.data());
      for (std::int64_t line = 0; line < segment.lines; ++line)
        for (std::int64_t w = 0; w < tiling.across; w += kWidth) {
          V x[kPoints];
#pragma GCC unroll 4
          for (int i = 0; i < kWindow; ++i) {
            const float* row = frame.data() + (2 * line + i) * row_step + w;
            x[kWindow * i] = load(row);
            x[kWindow * i + 1] = load(row + odd);
            x[kWindow * i + 2] = load(row + 1);
            x[kWindow * i + 3] = load(row + odd + 1);
          }
#pragma GCC unroll 4
          for (int i = 0; i < kWindow; ++i) transform_window(x + i, kWindow);
#pragma GCC unroll 4
          for (int i = 0; i < kWindow; ++i) transform_window(x + kWindow * i, 1);
          // Over the end of a line the next one writes.
          float* at = to + (c - first) * pitch + segment.lane + line * tiling.across + w;
#pragma GCC unroll 16
          for (int p = 0; p < kPoints; ++p) store(at + p * point_step, x[p]);
        }
    }
  }
}

bool winograd_fits(const ConvShape& s) {
  static const bool is_allowed = winograd_is_allowed();
  return is_allowed && s.window == Sizes{1, 3, 3} && s.stride == Sizes{1, 1, 1} && s.dilation == Sizes{1, 1, 1} &&
         s.in[0] == 1 && s.pad[0] == 0;
}

bool winograd_is_faster(const ConvShape& s, const WinogradTiling& tiling, const Sizes& result, double waste,
                        double tile_cost) {
  const double products = static_cast<double>(s.channels * s.filters);
  const double pixels = static_cast<double>(result[1] * result[2]) / static_cast<double>(tiling.lines * tiling.across);
  return waste * kPoints * products + tile_cost < 0.9 * 9 * products * pixels;
}

}  // namespace nixie::cpu
