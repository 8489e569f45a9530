// Winograd's tiles: windows of 4x4 and filters are transformed, 16 products of matrices give the transforms of 2x2
// results. Tiles are the lanes; a block of them stays in the second-level cache from transform to transform.
#include "nixie/backends/cpu/contract/winograd.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "nixie/backends/cpu/contract/pack.h"

namespace nixie::cpu {
namespace {

using V = Vector<float>;
constexpr std::int64_t kWidth = kLanes<float>;
constexpr int kWindow = 4, kPoints = kWindow * kWindow;
constexpr std::int64_t kTiles = 112;       // of a block
constexpr std::int64_t kDepthChunk = 128;  // channels of a panel that stay in the first-level cache
constexpr std::int64_t kRowGroup = 32;     // rows of the result whose products stay in the second-level cache
constexpr std::int64_t kUnits = 16;        // parts wanted

std::int64_t whole_vectors(std::int64_t count) { return ceil_div(count, kWidth) * kWidth; }

/// B^T of a column or a row of a window: x[i * step].
void transform_window(V* x, int step) {
  const V a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
  x[0] = a - c;
  x[step] = b + c;
  x[2 * step] = c - b;
  x[3 * step] = b - d;
}

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

/// Where the tiles of a layer lie: lines of tiles, image after image.
struct Tiling {
  explicit Tiling(const ConvShape& s, bool forward) {
    const Sizes& result = forward ? s.out : s.in;
    lines = ceil_div(result[1], 2);
    across = ceil_div(result[2], 2);
    all_lines = s.batch * lines;
    blocks = std::clamp<std::int64_t>(ceil_div(all_lines * across, kTiles), 1, std::max<std::int64_t>(1, all_lines));
  }
  std::int64_t most_tiles() const { return ceil_div(all_lines, blocks) * across; }
  std::int64_t lines, across;      ///< of an image; tiles of a line
  std::int64_t all_lines, blocks;  ///< of the batch
};

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
        tiling_(shape, forward_) {
    rows_ = forward_ ? s_.filters : s_.channels;
    channels_ = forward_ ? s_.channels : s_.filters;
    source_size_ = forward_ ? s_.in : s_.out;
    result_size_ = forward_ ? s_.out : s_.in;
    // input_grad is the convolution of dy with turned filters.
    pad_ = forward_ ? Sizes{0, s_.pad[1], s_.pad[2]} : Sizes{0, 2 - s_.pad[1], 2 - s_.pad[2]};
    row_blocks_ = ceil_div(rows_, kTileRows);
    // An odd number of vectors, so that channels do not fall on the same lines of a cache; one to write over.
    pitch_ = whole_vectors(tiling_.most_tiles()) + kWidth;
    pitch_ += pitch_ / kWidth % 2 == 0 ? kWidth : 0;
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
  /// Lines of tiles of one image, and their first lane in a block.
  struct Segment {
    std::int64_t image, line, lines, lane;
  };

  std::int64_t first_row(std::int64_t block) const { return cut(rows_, row_blocks_, block); }
  std::int64_t area() const { return result_size_[1] * result_size_[2]; }

  /// [group][row block][point][channel][rows of the block]
  void pack_filters(float* packed) const {
    pool_.parallel_for(s_.groups * row_blocks_, [&](std::int64_t part) {
      const std::int64_t group = part / row_blocks_, row = first_row(part % row_blocks_);
      const std::int64_t rows = first_row(part % row_blocks_ + 1) - row;
      const std::int64_t row_stride = forward_ ? weight_.outer : weight_.inner;
      const std::int64_t channel_stride = forward_ ? weight_.inner : weight_.outer;
      const float* from = weight_.data + group * s_.filters * weight_.outer + row * row_stride;
      float* to = packed + (group * rows_ + row) * kPoints * channels_;
      for (std::int64_t c = 0; c < channels_; ++c) {
        Rows taps[9] = {}, half[3 * kWindow], whole[kPoints];  // as they are; transformed along the height, the width
        for (std::int64_t r = 0; r < rows; ++r)
          for (int h = 0; h < 3; ++h)
            for (int w = 0; w < 3; ++w) {
              const int tap = 3 * h + w;
              taps[forward_ ? tap : 8 - tap][r] =
                  from[r * row_stride + c * channel_stride + h * weight_.axis[1] + w * weight_.axis[2]];
            }
#pragma GCC unroll 3
        for (int w = 0; w < 3; ++w) transform_filter(taps[w], taps[3 + w], taps[6 + w], half + w, 3);
#pragma GCC unroll 4
        for (int h = 0; h < kWindow; ++h)
          transform_filter(half[3 * h], half[3 * h + 1], half[3 * h + 2], whole + h * kWindow, 1);
        for (int p = 0; p < kPoints; ++p) {
          float* at = to + (p * channels_ + c) * rows;
          if (rows == kTileRows)
            std::memcpy(at, &whole[p], sizeof(Rows));
          else
            for (std::int64_t r = 0; r < rows; ++r) at[r] = whole[p][r];
        }
      }
    });
  }

  std::vector<Segment> segments_of(std::int64_t block) const {
    std::vector<Segment> segments;
    const std::int64_t line0 = cut(tiling_.all_lines, tiling_.blocks, block);
    const std::int64_t line1 = cut(tiling_.all_lines, tiling_.blocks, block + 1);
    for (std::int64_t line = line0; line < line1; line += segments.back().lines)
      segments.push_back({line / tiling_.lines, line % tiling_.lines,
                          std::min(line1 - line, tiling_.lines - line % tiling_.lines),
                          (line - line0) * tiling_.across});
    return segments;
  }

  /// Rows of the result in row blocks [first, last), of a block of tiles of a group.
  void run_rows(std::int64_t block, std::int64_t first, std::int64_t last, const float* packed,
                const float* windows) const {
    const std::int64_t group = block / tiling_.blocks;
    const std::vector<Segment> segments = segments_of(block % tiling_.blocks);
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

  /// windows: [point][channel][tile] for channels [first, last).
  void transform_windows(std::int64_t block, std::int64_t first, std::int64_t last, float* windows) const {
    for (const Segment& segment : segments_of(block % tiling_.blocks))
      transform_windows(block / tiling_.blocks, segment, first, last, windows);
  }

  /// Vectors reach over the end of a line of tiles; the next line writes over that.
  void transform_windows(std::int64_t group, const Segment& segment, std::int64_t first, std::int64_t last,
                         float* windows) const {
    FrameLayout layout;
    layout.column_step = 2;
    layout.size = {1, 2 * segment.lines + 2, 2 * tiling_.across + 2};
    layout.pad = {0, pad_[1] - 2 * segment.line, pad_[2]};
    Scratch<float> frame(layout.channel());
    std::fill_n(frame.data(), layout.channel() + kWidth, 0.0f);
    const std::int64_t odd = layout.dealt_columns();
    const float* image = source_.data + segment.image * source_.outer + group * channels_ * source_.inner;
    for (std::int64_t c = first; c < last; ++c) {
      fill_frame(layout, image + c * source_.inner, source_.inner, source_.axis, source_size_, 1, frame.data());
      for (std::int64_t line = 0; line < segment.lines; ++line)
        for (std::int64_t w = 0; w < tiling_.across; w += kWidth) {
          V x[kPoints];
#pragma GCC unroll 4
          for (int i = 0; i < kWindow; ++i) {
            const float* row = frame.data() + (2 * line + i) * layout.row() + w;
            x[kWindow * i] = load(row);
            x[kWindow * i + 1] = load(row + odd);
            x[kWindow * i + 2] = load(row + 1);
            x[kWindow * i + 3] = load(row + odd + 1);
          }
#pragma GCC unroll 4
          for (int i = 0; i < kWindow; ++i) transform_window(x + i, kWindow);
#pragma GCC unroll 4
          for (int i = 0; i < kWindow; ++i) transform_window(x + kWindow * i, 1);
          float* to = windows + c * pitch_ + segment.lane + line * tiling_.across + w;
#pragma GCC unroll 16
          for (int p = 0; p < kPoints; ++p) store(to + p * point_, x[p]);
        }
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

  /// A row's tiles of a segment to where they stand in the plane `to`.
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
  const Tiling tiling_;
  Sizes source_size_, result_size_, pad_;
  std::int64_t rows_, channels_, row_blocks_, pitch_, point_;
};

}  // namespace

bool winograd_pays(const Conv& conv, const ConvShape& s) {
  static const bool forbidden = [] {
    const char* value = std::getenv("NIXIE_WINOGRAD");
    return value && std::string_view(value) == "0";
  }();
  if (forbidden || s.window != Sizes{1, 3, 3} || s.stride != Sizes{1, 1, 1} || s.dilation != Sizes{1, 1, 1} ||
      s.in[0] != 1 || s.pad[0] != 0)
    return false;
  const bool forward = conv.role == ConvRole::output;
  const Sizes& result = forward ? s.out : s.in;
  const Tiling tiling(s, forward);
  // Multiply-adds of lanes that hold results, and what transforms cost beside them.
  constexpr double kWindowCost = 80, kResultCost = 80;
  const auto real = [](std::int64_t count) { return static_cast<double>(count); };
  const double channels = real(s.channels), filters = real(s.filters), lanes = real(tiling.most_tiles());
  const double waste = real(whole_vectors(tiling.most_tiles())) / lanes;
  const double line_waste = real(whole_vectors(tiling.across)) / real(tiling.across);
  const double tiles =
      waste * kPoints * channels * filters + line_waste * (kWindowCost * channels + kResultCost * filters);
  const double pixels = real(result[1] * result[2]) / real(tiling.lines * tiling.across);
  return tiles < 0.9 * 9 * channels * filters * pixels;
}

void run_winograd(const Conv& conv, const ConvShape& shape, const Strided<float>& source, const Strided<float>& weight,
                  const HeadSink& sink, ThreadPool& pool) {
  WinogradConv(conv, shape, source, weight, sink, pool).run();
}

}  // namespace nixie::cpu
