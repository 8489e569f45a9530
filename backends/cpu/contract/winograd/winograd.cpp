// Winograd's tiles: windows of 4x4 and filters are transformed, 16 products of matrices give the transforms of 2x2
// results. Tiles are the lanes; a block of them stays in the second-level cache from transform to transform.
#include "nixie/backends/cpu/contract/winograd/winograd.h"

#include <cstring>

#include "nixie/backends/cpu/contract/pack.h"
#include "nixie/backends/cpu/contract/winograd/winograd_tiles.h"

namespace nixie::cpu {
namespace {

using V = Vector<float>;
constexpr std::int64_t kWidth = kLanes<float>;
constexpr int kWindow = kWinogradWindow, kPoints = kWinogradPoints;
constexpr std::int64_t kDepthChunk = 128;     // channels of a panel that stay in the first-level cache
constexpr std::int64_t kRowGroup = 32;        // rows of the result whose products stay in the second-level cache
constexpr std::int64_t kUnits = 16;           // parts wanted
constexpr std::int64_t kPackedChannels = 16;  // filters are written in runs of so many: points are a power of 2 apart

/// One number for each row of a tile.
typedef float Rows __attribute__((vector_size(kTileRows * sizeof(float))));

/// G of a column or a row of a filter.
void transform_filter(const Rows& a, const Rows& b, const Rows& c, Rows* to, int step) {
  const Rows ends = (a + c) * 0.5f, middle = b * 0.5f;
  to[0] = a;
  to[step] = ends + middle;
  to[2 * step] = ends - middle;
  to[3 * step] = c;
}

class WinogradConv {
 public:
  WinogradConv(const Conv& conv, const ConvShape& shape, const Strided<float>& source, const Strided<float>& weight,
               const HeadSink& sink, ThreadPool& pool)
      : s_(shape),
        source_(source),
        weight_(weight),
        sink_(sink),
        pool_(pool),
        forward_(conv.role == ConvRole::output),
        tiling_(shape.batch, forward_ ? shape.out : shape.in) {
    rows_ = forward_ ? s_.filters : s_.channels;
    channels_ = forward_ ? s_.channels : s_.filters;
    source_size_ = forward_ ? s_.in : s_.out;
    result_size_ = forward_ ? s_.out : s_.in;
    // input_grad is the convolution of dy with turned filters.
    pad_ = forward_ ? Sizes{0, s_.pad[1], s_.pad[2]} : Sizes{0, 2 - s_.pad[1], 2 - s_.pad[2]};
    row_blocks_ = ceil_div(rows_, kTileRows);
    pitch_ = tiling_.pitch();
    point_ = channels_ * pitch_ + kWidth;
  }

  void run() {
    Scratch<float> packed(s_.groups * kPoints * rows_ * channels_);
    pack_filters(packed.data());
    const std::int64_t blocks = s_.groups * tiling_.blocks;
    const std::int64_t splits =
        std::clamp<std::int64_t>(kUnits / blocks, 1, ceil_div(row_blocks_, kRowGroup / kTileRows));
    // Windows that several units read are transformed once, before.
    const bool shared = splits > 1;
    Scratch<float> windows(shared ? blocks * kPoints * point_ : 0);
    if (shared) {
      const std::int64_t slices = ceil_div(kUnits, blocks);
      pool_.parallel_for(blocks * slices, [&](std::int64_t unit) {
        const std::int64_t slice = unit % slices, block = unit / slices;
        transform_windows(block, cut(channels_, slices, slice), cut(channels_, slices, slice + 1),
                          windows.data() + block * kPoints * point_);
      });
    }
    pool_.parallel_for(blocks * splits, [&](std::int64_t unit) {
      const std::int64_t split = unit % splits, block = unit / splits;
      Scratch<float> own(shared ? 0 : kPoints * point_);
      if (!shared) transform_windows(block, 0, channels_, own.data());
      run_rows(block, cut(row_blocks_, splits, split), cut(row_blocks_, splits, split + 1),
               packed.data() + block / tiling_.blocks * kPoints * rows_ * channels_,
               shared ? windows.data() + block * kPoints * point_ : own.data());
    });
  }

 private:
  /// windows: [point][channel][tile] for channels [first, last) of a group's.
  void transform_windows(std::int64_t block, std::int64_t first, std::int64_t last, float* windows) const {
    const std::int64_t channel = block / tiling_.blocks * channels_;
    WinogradWindows{source_, source_size_, pad_, tiling_}.transform(
        tiling_.segments_of(block % tiling_.blocks), channel + first, channel + last, windows + first * pitch_, point_);
  }
  using Segment = WinogradTiling::Segment;

  std::int64_t first_row(std::int64_t block) const { return cut(rows_, row_blocks_, block); }
  std::int64_t area() const { return result_size_[1] * result_size_[2]; }

  /// [group][row block][point][channel][rows of the block]
  void pack_filters(float* packed) const {
    pool_.parallel_for(s_.groups * row_blocks_, [&](std::int64_t part) {
      const std::int64_t group = part / row_blocks_, row = first_row(part % row_blocks_);
      const std::int64_t rows = first_row(part % row_blocks_ + 1) - row;
      const float* from =
          weight_.data + group * s_.filters * weight_.outer + row * (forward_ ? weight_.outer : weight_.inner);
      float* to = packed + (group * rows_ + row) * kPoints * channels_;
      Rows taps[9 * kPackedChannels] = {}, half[3 * kWindow];  // as they are; transformed along the height
      Rows whole[kPoints][kPackedChannels];                    // along the width, too
      for (std::int64_t first = 0; first < channels_; first += kPackedChannels) {
        const std::int64_t count = std::min(kPackedChannels, channels_ - first);
        read_filters(from + first * (forward_ ? weight_.inner : weight_.outer), rows, count, taps);
        for (std::int64_t c = 0; c < count; ++c) {
          const Rows* tap = taps + 9 * c;
#pragma GCC unroll 3
          for (int w = 0; w < 3; ++w) transform_filter(tap[w], tap[3 + w], tap[6 + w], half + w, 3);
#pragma GCC unroll 4
          for (int h = 0; h < kWindow; ++h)
            transform_filter(half[3 * h], half[3 * h + 1], half[3 * h + 2], &whole[h * kWindow][c], kPackedChannels);
        }
        for (int p = 0; p < kPoints; ++p) {
          float* at = to + (p * channels_ + first) * rows;
          if (rows == kTileRows)
            std::memcpy(at, whole[p], static_cast<std::size_t>(count) * sizeof(Rows));
          else
            for (std::int64_t i = 0; i < count * rows; ++i) at[i] = whole[p][i / rows][i % rows];
        }
      }
    });
  }

  /// taps: [channel][tap], turned for input_grad.
  void read_filters(const float* from, std::int64_t rows, std::int64_t channels, Rows* taps) const {
    if (forward_ && weight_.inner == 9 && weight_.axis[1] == 3 && weight_.axis[2] == 1)
      return transpose(from, weight_.outer, rows, 9 * channels, reinterpret_cast<float*>(taps),
                       std::int64_t{kTileRows});
    const std::int64_t row_stride = forward_ ? weight_.outer : weight_.inner;
    const std::int64_t channel_stride = forward_ ? weight_.inner : weight_.outer;
    for (std::int64_t c = 0; c < channels; ++c, from += channel_stride, taps += 9) {
      prefetch_rows(from, channel_stride, row_stride, rows);
      for (std::int64_t r = 0; r < rows; ++r)
        for (int tap = 0; tap < 9; ++tap)
          taps[forward_ ? tap : 8 - tap][r] =
              from[r * row_stride + tap / 3 * weight_.axis[1] + tap % 3 * weight_.axis[2]];
    }
  }

  /// Rows of the result in row blocks [first, last), of a block of tiles of a group.
  void run_rows(std::int64_t block, std::int64_t first, std::int64_t last, const float* packed,
                const float* windows) const {
    const std::int64_t group = block / tiling_.blocks;
    const std::vector<Segment> segments = tiling_.segments_of(block % tiling_.blocks);
    const std::int64_t tiles = segments.back().lane + segments.back().lines * tiling_.across;
    constexpr std::int64_t kStep = kRowGroup / kTileRows;
    Scratch<float> products(kPoints * product_point());
    for (std::int64_t b = first; b < last; b += kStep) {
      const std::int64_t end = std::min(last, b + kStep), row = first_row(b), rows = first_row(end) - row;
      multiply(b, end, tiles, packed, windows, products.data());
      Pieces pieces(sink_);
      for (const Segment& segment : segments) {
        const std::int64_t top = 2 * segment.line, bottom = std::min(result_size_[1], top + 2 * segment.lines);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t at = ((segment.image * s_.groups + group) * rows_ + row + r) * area();
          transform_results(segment, products.data() + r * pitch_, reinterpret_cast<float*>(sink_.result) + at);
          pieces.add(at + top * result_size_[2], (bottom - top) * result_size_[2]);
        }
      }
      pieces.flush();
    }
  }

  /// products: [point][row][tile] of the row blocks [first, last).
  void multiply(std::int64_t first, std::int64_t last, std::int64_t tiles, const float* packed, const float* windows,
                float* products) const {
    const std::int64_t vectors = ceil_div(tiles, kWidth), panels = ceil_div(vectors, kTileVectors);
    const std::int64_t chunks = ceil_div(channels_, kDepthChunk);
    TileArgs<float> tile;
    tile.lanes_step = tile.out_step = pitch_;
    for (int point = 0; point < kPoints; ++point)
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::int64_t c = cut(channels_, chunks, chunk);
        tile.length = cut(channels_, chunks, chunk + 1) - c;
        tile.add = chunk > 0;
        for (std::int64_t panel = 0; panel < panels; ++panel) {
          const std::int64_t v0 = cut(vectors, panels, panel), v1 = cut(vectors, panels, panel + 1);
          tile.lanes = windows + point * point_ + c * pitch_ + v0 * kWidth;
          for (std::int64_t block = first; block < last; ++block) {
            const std::int64_t row = first_row(block), rows = first_row(block + 1) - row;
            const float* from = packed + row * kPoints * channels_ + (point * channels_ + c) * rows;
            for (std::int64_t r = 0; r < rows; ++r) tile.rows[r] = from + r;
            tile.step = rows;
            tile.out = products + point * product_point() + (row - first_row(first)) * pitch_ + v0 * kWidth;
            run_tile(static_cast<int>(rows), static_cast<int>(v1 - v0), tile);
          }
        }
      }
  }
  std::int64_t product_point() const { return kRowGroup * pitch_ + kWidth; }

  /// Transforms a segment's tiles of one row into their places in the plane `to`.
  void transform_results(const Segment& segment, const float* products, float* to) const {
    const std::int64_t height = result_size_[1], width = result_size_[2];
    for (std::int64_t line = 0; line < segment.lines; ++line)
      for (std::int64_t w = 0; w < tiling_.across; w += kWidth) {
        const float* from = products + segment.lane + line * tiling_.across + w;
        V half[2 * kWindow];  // [row][point]
#pragma GCC unroll 4
        for (int i = 0; i < kWindow; ++i) {
          const V a = load(from + i * product_point()), b = load(from + (kWindow + i) * product_point());
          const V c = load(from + (2 * kWindow + i) * product_point()),
                  d = load(from + (3 * kWindow + i) * product_point());
          half[i] = a + b + c;
          half[kWindow + i] = b - c - d;
        }
        const std::int64_t h = 2 * (segment.line + line), used = std::min(2 * kWidth, width - 2 * w);
        for (int i = 0; i < 2 && h + i < height; ++i) {
          const V* x = half + kWindow * i;
          const V even = x[0] + x[1] + x[2], odd = x[1] - x[2] - x[3];
          store_dealt(interleave<float, false>(even, odd), interleave<float, true>(even, odd), used,
                      to + (h + i) * width + 2 * w);
        }
      }
  }

  static void store_dealt(V low, V high, std::int64_t used, float* to) {
    if (used == 2 * kWidth) {
      store(to, low);
      store(to + kWidth, high);
      return;
    }
    float both[2 * kWidth];
    store(both, low);
    store(both + kWidth, high);
    copy_row(both, used, to);
  }

  const ConvShape& s_;
  const ImageView<float> source_, weight_;
  const HeadSink& sink_;
  ThreadPool& pool_;
  const bool forward_;
  const WinogradTiling tiling_;
  Sizes source_size_, result_size_, pad_;
  std::int64_t rows_, channels_, row_blocks_, pitch_, point_;
};

}  // namespace

bool winograd_pays(const Conv& conv, const ConvShape& s) {
  if (!winograd_fits(s)) return false;
  const Sizes& result = conv.role == ConvRole::output ? s.out : s.in;
  const WinogradTiling tiling(s.batch, result);
  constexpr double kWindowCost = 80, kResultCost = 80;  // of a transform, in lanes
  const auto waste = [](std::int64_t lanes) {
    return static_cast<double>(ceil_div(lanes, kWidth) * kWidth) / static_cast<double>(lanes);
  };
  return winograd_is_faster(s, tiling, result, waste(tiling.most_tiles()),
                            waste(tiling.across) * (kWindowCost * static_cast<double>(s.channels) +
                                                    kResultCost * static_cast<double>(s.filters)));
}

void run_winograd(const Conv& conv, const ConvShape& shape, const Strided<float>& source, const Strided<float>& weight,
                  const HeadSink& sink, ThreadPool& pool) {
  WinogradConv(conv, shape, source, weight, sink, pool).run();
}

}  // namespace nixie::cpu
