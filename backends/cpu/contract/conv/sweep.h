// A phase ready to run on an image's frame, and the three ways to sum it up: with filters as the lanes, with pixels as
// the lanes, packed, and with pixels in place.
#pragma once

#include <numeric>

#include "nixie/backends/cpu/contract/conv/phase.h"
#include "nixie/backends/cpu/contract/pack.h"

namespace nixie::cpu {

inline constexpr std::int64_t kSweepDepth = 128;   // (channel, tap) pairs of a panel that stay in the first-level cache
inline constexpr std::int64_t kSweepPixels = 512;  // pixels whose sums stay in the second-level cache
inline constexpr std::int64_t kBlockPanels = 6;    // panels of pixels of a block: long runs of each channel
inline constexpr std::int64_t kBlockSums = 1 << 17;  // sums of a block that stay in the second-level cache
inline constexpr int kSweepLines = 4;                // lines of pixels at a time: they hide the latency of a sum

/// How one vector of pixels is read from a frame: one load where they are neighbours, blended loads where a row ends.
template <class T>
struct PixelVector {
  using Mask = decltype(Vector<T>{} == Vector<T>{});
  struct Segment {
    std::int64_t offset;
    Mask mask;
  };
  std::int64_t offset = 0;
  std::vector<Segment> more;
};

/// The pixels of a phase in order, cut into vectors.
template <class T>
std::vector<PixelVector<T>> pixel_vectors(const Phase& phase) {
  constexpr std::int64_t kWidth = kLanes<T>;
  std::vector<PixelVector<T>> vectors;
  std::int64_t pixel = 0;
  for_each_in(phase.count, [&](std::int64_t d, std::int64_t h, std::int64_t w) {
    const std::int64_t lane = pixel++ % kWidth;
    const std::int64_t offset = phase.pixel_offset(d, h) + w - lane;
    if (lane == 0) vectors.push_back({offset, {}});
    PixelVector<T>& vector = vectors.back();
    const std::int64_t last = vector.more.empty() ? vector.offset : vector.more.back().offset;
    using Segment = typename PixelVector<T>::Segment;
    if (offset != last) vector.more.push_back(Segment{offset, typename PixelVector<T>::Mask{}});
    if (!vector.more.empty()) vector.more.back().mask[lane] = -1;
  });
  return vectors;
}

/// to[k * width] = the vector at from + offsets[k], for k < depth.
template <class T>
void pack_pixels(const PixelVector<T>& pixels, const T* frame, const std::int64_t* offsets, std::int64_t depth, T* to,
                 std::int64_t width) {
  const T* from = frame + pixels.offset;
  if (pixels.more.empty()) {
    for (std::int64_t k = 0; k < depth; ++k) store(to + k * width, load(from + offsets[k]));
  } else if (pixels.more.size() == 1) {
    const auto [offset, mask] = pixels.more[0];
    for (std::int64_t k = 0; k < depth; ++k)
      store(to + k * width, mask ? load(frame + offset + offsets[k]) : load(from + offsets[k]));
  } else {
    for (std::int64_t k = 0; k < depth; ++k) {
      Vector<T> value = load(from + offsets[k]);
      for (const auto& segment : pixels.more) value = segment.mask ? load(frame + segment.offset + offsets[k]) : value;
      store(to + k * width, value);
    }
  }
}

/// A phase made ready to run: where to read, and the weights packed for tiles.
template <class T>
struct Sweep {
  Phase phase;
  std::vector<std::int64_t> offsets;    ///< in the frame, per (channel, tap)
  std::vector<PixelVector<T>> vectors;  ///< pixels as lanes
  std::vector<std::int64_t> pixels;     ///< pixels as rows: offsets in the frame
  std::int64_t weights = 0;             ///< start in the packed weights
  std::int64_t frame = 0;               ///< start in a part's frames
  bool in_place = false;                ///< the frame is the image in memory
  std::int64_t depth() const { return static_cast<std::int64_t>(offsets.size()); }
};

/// `count` vectors of neighbouring pixels from `from` on, in panels of [depth][width]: each channel's in one run.
template <class T>
void pack_runs(const T* from, const std::int64_t* offsets, std::int64_t depth, std::int64_t count, T* to) {
  const std::int64_t panels = ceil_div(count, kTileVectors);
  std::array<std::int64_t, kBlockPanels + 1> first{};
  for (std::int64_t panel = 0; panel <= panels; ++panel)
    first[static_cast<std::size_t>(panel)] = cut(count, panels, panel);
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* run = from + offsets[k];
    for (std::size_t panel = 0; panel < static_cast<std::size_t>(panels); ++panel) {
      const std::int64_t vectors = first[panel + 1] - first[panel];
      T* at = to + (first[panel] * depth + k * vectors) * kLanes<T>;
      for (std::int64_t v = 0; v < vectors; ++v, run += kLanes<T>) store(at + v * kLanes<T>, load(run));
    }
  }
}

/// Whether a panel of channels this many elements apart stays in the first-level cache without packing: its lines must
/// not meet in a few sets.
template <class T>
bool stays_where_it_lies(std::int64_t channel) {
  constexpr std::int64_t kLine = 64, kSets = 64, kMostShared = 4;
  const std::int64_t bytes = channel * static_cast<std::int64_t>(sizeof(T));
  return bytes % kLine != 0 || std::gcd(bytes / kLine, kSets) <= kMostShared;
}

/// Asks for the runs of a block piece by piece while another is multiplied: they are apart, so that no processor
/// foresees them.
template <class T>
class Ahead {
 public:
  /// In `times` pieces.
  Ahead(const T* from, const std::int64_t* offsets, std::int64_t depth, std::int64_t vectors, std::int64_t times)
      : from_(from), offsets_(offsets), vectors_(vectors), left_(depth * vectors), each_(ceil_div(left_, times)) {}
  void ask() {
    for (std::int64_t i = std::min(each_, left_); i > 0; --i, --left_) {
      __builtin_prefetch(from_ + *offsets_ + at_ * kLanes<T>, 0, 2);
      if (++at_ == vectors_) at_ = 0, ++offsets_;
    }
  }

 private:
  const T* from_;
  const std::int64_t* offsets_;
  std::int64_t vectors_, left_, each_, at_ = 0;
};

/// The destination of one image's sums.
template <class T>
struct PixelRows {
  T* out;  ///< of row 0, pixel 0
  std::int64_t step;
  bool streams;
};

/// Pixels as lanes: out[row][pixel] for the rows of one block after another, each packed as [depth][rows]. Channels of
/// an image are apart, so a block of pixels is read from each in one long run, and written so: its sums are made aside.
/// `next`: where all pixels of a channel are contiguous in memory, the image to be read after this one; else null.
/// Such channels are packed only where they cannot be read in place.
template <class T>
void sweep_pixel_lanes(const Sweep<T>& sweep, const std::vector<std::int64_t>& block_rows, const T* weights,
                       const T* frame, const T* next, const PixelRows<T>& to) {
  const bool in_runs = next != nullptr;
  const std::int64_t channel = sweep.phase.frame.channel();
  const bool in_place = in_runs && stays_where_it_lies<T>(channel);
  const std::int64_t rows = std::accumulate(block_rows.begin(), block_rows.end(), std::int64_t{0});
  const std::int64_t vectors = std::ssize(sweep.vectors), pixels = sweep.phase.pixels();
  const std::int64_t chunks = ceil_div(sweep.depth(), kSweepDepth), most = ceil_div(sweep.depth(), chunks);
  const std::int64_t fitting = std::clamp(kBlockSums / (rows * kTileLanes<T>), std::int64_t{1}, kBlockPanels);
  const std::int64_t blocks = ceil_div(vectors, fitting * kTileVectors);
  const std::int64_t widest = ceil_div(vectors, blocks) * kLanes<T>, step = widest + kLanes<T>;
  Scratch<T> lanes(most * (in_runs ? widest : kTileLanes<T>)), sums(rows * step);
  TileArgs<T> tile;
  tile.out_step = step;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = cut(vectors, blocks, block), last = cut(vectors, blocks, block + 1);
    const std::int64_t count = last - first, panels = ceil_div(count, kTileVectors), pixel = first * kLanes<T>;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t k = cut(sweep.depth(), chunks, chunk), depth = cut(sweep.depth(), chunks, chunk + 1) - k;
      const std::int64_t* offsets = sweep.offsets.data() + k;
      if (in_runs && !in_place) pack_runs(frame + pixel, offsets, depth, count, lanes.data());
      Ahead<T> ahead(block + 1 < blocks ? frame + last * kLanes<T> : next, offsets, in_runs ? depth : 0,
                     cut(vectors, blocks, (block + 1) % blocks + 1) - cut(vectors, blocks, (block + 1) % blocks),
                     panels * std::ssize(block_rows));
      tile.length = depth;
      tile.add = chunk > 0;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t v0 = cut(count, panels, panel), some = cut(count, panels, panel + 1) - v0;
        tile.lanes_step = in_place ? channel : some * kLanes<T>;
        tile.lanes = in_place  ? frame + pixel + v0 * kLanes<T> + *offsets
                     : in_runs ? lanes.data() + v0 * kLanes<T> * depth
                               : lanes.data();
        for (std::int64_t v = 0; v < some && !in_runs; ++v)
          pack_pixels(sweep.vectors[static_cast<std::size_t>(first + v0 + v)], frame, offsets, depth,
                      lanes.data() + v * kLanes<T>, tile.lanes_step);
        tile.out = sums.data() + v0 * kLanes<T>;
        std::int64_t row = 0;
        for (const std::int64_t block_size : block_rows) {
          const T* block_weights = weights + row * sweep.depth() + k * block_size;
          for (std::int64_t r = 0; r < block_size; ++r) tile.rows[r] = block_weights + r;
          tile.step = block_size;
          ahead.ask();
          run_tile(static_cast<int>(block_size), static_cast<int>(some), tile);
          tile.out += block_size * step;
          row += block_size;
        }
      }
    }
    const std::int64_t used = std::min(count * kLanes<T>, pixels - pixel);
    for (std::int64_t r = 0; r < rows; ++r) {
      T* at = to.out + r * to.step + pixel;
      to.streams ? stream_row(sums.data() + r * step, used, at) : copy_row(sums.data() + r * step, used, at);
    }
  }
}

/// One vector of kCount lines of pixels: `from` and `out` of the first, lines `frame_line` and `out_line` apart.
template <class T, int kCount>
void sweep_lines(const Sweep<T>& sweep, const T* weights, std::int64_t rows, const T* from, std::int64_t frame_line,
                 T* out, std::int64_t out_line, std::int64_t used) {
  Vector<T> sum[kCount] = {};
  const std::int64_t depth = sweep.depth();
  for (std::int64_t k = 0; k < depth; ++k) {
    const Vector<T> weight = broadcast(weights[k * rows]);
    const T* at = from + sweep.offsets[static_cast<std::size_t>(k)];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) sum[i] = multiply_add<T>(weight, load(at + i * frame_line), sum[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) store_some(sum[i], used, out + i * out_line);
}

/// Pixels as lanes, read in place: out[row][pixel] for a few rows, packed as [depth][rows]. `next`: `size`
/// elements that the next frame is made of.
template <class T>
void sweep_frame_lines(const Sweep<T>& sweep, std::int64_t rows, const T* weights, const T* frame, const T* next,
                       std::int64_t size, T* out) {
  const auto [depths, heights, width] = sweep.phase.count;
  const std::int64_t line = sweep.phase.pixel_offset(0, 1), start = 0;
  Ahead<T> ahead(next, &start, 1, ceil_div(size, kLanes<T>),
                 rows * depths * ceil_div(width, kLanes<T>) * std::max<std::int64_t>(1, heights / kSweepLines));
  for (std::int64_t row = 0; row < rows; ++row, ++weights)
    for (std::int64_t d = 0; d < depths; ++d, out += heights * width) {
      const T* plane = frame + sweep.phase.pixel_offset(d, 0);
      std::int64_t h = 0;
      const auto sweep_some = [&]<int kCount>(std::integral_constant<int, kCount>) {
        for (; h + kCount <= heights; h += kCount)
          for (std::int64_t w = 0; w < width; w += kLanes<T>) {
            ahead.ask();
            sweep_lines<T, kCount>(sweep, weights, rows, plane + h * line + w, line, out + h * width + w, width,
                                   width - w);
          }
      };
      sweep_some(std::integral_constant<int, kSweepLines>{});
      sweep_some(std::integral_constant<int, 1>{});
    }
}

/// Filters as lanes: out[lane][pixel] for `used` of a panel's lanes, packed as [depth][width].
template <class T>
void sweep_filter_lanes(const Sweep<T>& sweep, std::int64_t width, std::int64_t used, const T* weights, const T* frame,
                        T* out, std::int64_t out_step) {
  const std::int64_t pixels = sweep.phase.pixels(), chunks = ceil_div(sweep.depth(), kSweepDepth);
  const std::int64_t blocks = ceil_div(pixels, kSweepPixels);
  Scratch<T> sums(ceil_div(pixels, blocks) * width);
  TileArgs<T> tile;
  tile.lanes_step = tile.out_step = width;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = cut(pixels, blocks, block), count = cut(pixels, blocks, block + 1) - first;
    const std::int64_t tiles = ceil_div(count, kTileRows);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t k = cut(sweep.depth(), chunks, chunk);
      tile.length = cut(sweep.depth(), chunks, chunk + 1) - k;
      tile.offsets = sweep.offsets.data() + k;
      tile.lanes = weights + k * width;
      tile.add = chunk > 0;
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t pixel = cut(count, tiles, t), rows = cut(count, tiles, t + 1) - pixel;
        for (std::int64_t r = 0; r < rows; ++r)
          tile.rows[r] = frame + sweep.pixels[static_cast<std::size_t>(first + pixel + r)];
        tile.out = sums.data() + pixel * width;
        run_tile(static_cast<int>(rows), static_cast<int>(width / kLanes<T>), tile);
      }
    }
    transpose(sums.data(), width, count, used, out + first, out_step);
  }
}

}  // namespace nixie::cpu
