// Sweeps: the loops of a convolution over one phase of its result, with pixels or filters as the lanes of vectors.
#pragma once

#include <algorithm>
#include <vector>

#include "nixie/backends/cpu/contract/conv_phase.h"
#include "nixie/backends/cpu/contract/pack.h"
#include "nixie/backends/cpu/contract/scratch.h"

namespace nixie::cpu {

inline constexpr std::int64_t kDepthChunk = 128;  // (channel, tap) pairs of a panel that stay in the first-level cache
inline constexpr std::int64_t kPixelBlock = 512;  // pixels whose sums stay in the second-level cache
inline constexpr int kLines = 4;                  // lines of pixels at a time: they hide the latency of a sum

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

/// to[k * width] = the vector at from + offsets[k], for k < depth. Channels lie far apart, so that no processor
/// foresees the next panel's reads: those of neighbouring pixels are asked for here, to arrive while this panel is
/// multiplied.
template <class T>
void pack_pixels(const PixelVector<T>& pixels, const T* frame, const std::int64_t* offsets, std::int64_t depth, T* to,
                 std::int64_t width) {
  const T* from = frame + pixels.offset;
  if (pixels.more.empty()) {
    for (std::int64_t k = 0; k < depth; ++k) {
      __builtin_prefetch(from + offsets[k] + width);
      store(to + k * width, load(from + offsets[k]));
    }
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
  bool in_place = false;                ///< the frame is the image as it lies in memory
  std::int64_t depth() const { return static_cast<std::int64_t>(offsets.size()); }
};

/// A tile whose last lanes may lie outside the result.
template <class T>
void run_edge_tile(int rows, std::int64_t width, std::int64_t used, TileArgs<T> tile) {
  const int vectors = static_cast<int>(width / kLanes<T>);
  if (used == width) return run_tile(rows, vectors, tile);
  T edge[kTileRows * kTileLanes<T>];
  T* const out = tile.out;
  const std::int64_t out_step = tile.out_step;
  const bool add = tile.add;
  tile.out = edge, tile.out_step = width, tile.add = false;
  run_tile(rows, vectors, tile);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < used; ++i)
      out[r * out_step + i] = edge[r * width + i] + (add ? out[r * out_step + i] : T{});
}

/// Pixels as lanes: out[row][pixel] for the rows of one block after another, each packed as [depth][rows].
template <class T>
void sweep_pixel_lanes(const Sweep<T>& sweep, const std::vector<std::int64_t>& block_rows, const T* weights,
                       const T* frame, T* out, std::int64_t out_step) {
  const std::int64_t vectors = static_cast<std::int64_t>(sweep.vectors.size());
  const std::int64_t panels = ceil_div(vectors, kTileVectors), chunks = ceil_div(sweep.depth(), kDepthChunk);
  Scratch<T> lanes(ceil_div(sweep.depth(), chunks) * kTileLanes<T>);
  TileArgs<T> tile;
  tile.out_step = out_step;
  tile.lanes = lanes.data();
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t k = cut(sweep.depth(), chunks, chunk), depth = cut(sweep.depth(), chunks, chunk + 1) - k;
    tile.length = depth;
    tile.add = chunk > 0;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const std::int64_t v0 = cut(vectors, panels, panel), pixel = v0 * kLanes<T>;
      const std::int64_t width = (cut(vectors, panels, panel + 1) - v0) * kLanes<T>;
      for (std::int64_t v = 0; v * kLanes<T> < width; ++v)
        pack_pixels(sweep.vectors[static_cast<std::size_t>(v0 + v)], frame, sweep.offsets.data() + k, depth,
                    lanes.data() + v * kLanes<T>, width);
      tile.lanes_step = width;
      std::int64_t row = 0;
      for (const std::int64_t rows : block_rows) {
        for (std::int64_t r = 0; r < rows; ++r) tile.rows[r] = weights + row * sweep.depth() + k * rows + r;
        tile.step = rows;
        tile.out = out + row * out_step + pixel;
        run_edge_tile(static_cast<int>(rows), width, std::min(width, sweep.phase.pixels() - pixel), tile);
        row += rows;
      }
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
  for (int i = 0; i < kCount; ++i) {
    if (used >= kLanes<T>) {
      store(out + i * out_line, sum[i]);
    } else {
      T edge[kLanes<T>];
      store(edge, sum[i]);
      std::copy_n(edge, used, out + i * out_line);
    }
  }
}

/// Pixels as lanes, read where they lie: out[row][pixel] for a few rows, packed as [depth][rows].
template <class T>
void sweep_frame_lines(const Sweep<T>& sweep, std::int64_t rows, const T* weights, const T* frame, T* out) {
  const auto [depths, heights, width] = sweep.phase.count;
  const std::int64_t line = sweep.phase.pixel_offset(0, 1);
  for (std::int64_t row = 0; row < rows; ++row, ++weights)
    for (std::int64_t d = 0; d < depths; ++d, out += heights * width) {
      const T* plane = frame + sweep.phase.pixel_offset(d, 0);
      for (std::int64_t w = 0; w < width; w += kLanes<T>) {
        std::int64_t h = 0;
        for (; h + kLines <= heights; h += kLines)
          sweep_lines<T, kLines>(sweep, weights, rows, plane + h * line + w, line, out + h * width + w, width,
                                 width - w);
        for (; h < heights; ++h)
          sweep_lines<T, 1>(sweep, weights, rows, plane + h * line + w, line, out + h * width + w, width, width - w);
      }
    }
}

/// Filters as lanes: out[lane][pixel] for `used` of a panel's lanes, packed as [depth][width].
template <class T>
void sweep_filter_lanes(const Sweep<T>& sweep, std::int64_t width, std::int64_t used, const T* weights, const T* frame,
                        T* out, std::int64_t out_step) {
  const std::int64_t pixels = sweep.phase.pixels(), chunks = ceil_div(sweep.depth(), kDepthChunk);
  const std::int64_t blocks = ceil_div(pixels, kPixelBlock);
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
