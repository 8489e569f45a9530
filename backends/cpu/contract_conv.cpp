// Convolution's output and input_grad: per image a frame, per panel of pixels its taps packed, then register tiles with
// the filters' weights as rows.
#include "backends/cpu/contract_conv.h"

#include "backends/cpu/contract_pack.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kDepthChunk = 200;   // taps of a panel of pixels that stay in the first-level cache
constexpr std::int64_t kPackRows = 14;      // rows whose tiles take as long as packing their pixels
constexpr std::int64_t kBlockVectors = 24;  // vectors of pixels finished at a time where rows are cut apart
constexpr std::int64_t kUnits = 16;         // parts wanted where there are few images

Sizes three(const std::vector<int>& values, std::int64_t absent) {
  Sizes sizes{absent, absent, absent};
  std::copy(values.begin(), values.end(), sizes.end() - static_cast<std::ptrdiff_t>(values.size()));
  return sizes;
}

Sizes spatial_sizes(const Shape& shape) {
  Sizes sizes{1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(), sizes.end() - (shape.rank() - 2));
  return sizes;
}

struct Tap {
  std::int64_t frame;   ///< offset in a channel of the frame
  std::int64_t weight;  ///< offset in a filter's channel
};

/// Pixels of the result whose windows meet the same taps: all of them for the output, those of equal remainder modulo
/// the stride for the input's gradient.
struct Phase {
  FrameLayout frame;
  std::vector<Tap> taps;
  Sizes count;        ///< pixels
  Sizes pixel_step;   ///< planes and rows of the frame from pixel to pixel
  Sizes first, step;  ///< of the pixels in the result
  std::int64_t pixels() const { return lines() * count[2]; }
  std::int64_t lines() const { return count[0] * count[1]; }
};

/// Calls `visit(d, h, w)` over a box.
template <class Visit>
void for_each_in(const Sizes& sizes, const Visit& visit) {
  for (std::int64_t d = 0; d < sizes[0]; ++d)
    for (std::int64_t h = 0; h < sizes[1]; ++h)
      for (std::int64_t w = 0; w < sizes[2]; ++w) visit(d, h, w);
}

Phase output_phase(const ConvShape& s, const Sizes& weight_strides) {
  Phase phase{frame_of_windows(s), {}, s.out, {s.stride[0], s.stride[1], 1}, {0, 0, 0}, {1, 1, 1}};
  for_each_in(s.window, [&](std::int64_t t, std::int64_t r, std::int64_t c) {
    phase.taps.push_back({phase.frame.at(t * s.dilation[0], r * s.dilation[1], c * s.dilation[2]),
                          t * weight_strides[0] + r * weight_strides[1] + c * weight_strides[2]});
  });
  return phase;
}

/// One axis of an input_grad phase: pixel j stands at first + j * stride and reads dy at base + j - taps[i].shift.
struct PhaseAxis {
  PhaseAxis(std::int64_t in, std::int64_t window, std::int64_t stride, std::int64_t pad, std::int64_t dilation,
            std::int64_t remainder) {
    first = ((remainder - pad) % stride + stride) % stride;
    count = first < in ? (in - 1 - first) / stride + 1 : 0;
    base = (first + pad - remainder) / stride;
    for (std::int64_t i = 0; i < window; ++i)
      if (i * dilation % stride == remainder) taps.push_back({i, (i * dilation - remainder) / stride});
  }
  std::int64_t widest() const { return taps.back().second; }
  std::int64_t narrowest() const { return taps.front().second; }
  std::int64_t first, count, base;
  std::vector<std::pair<std::int64_t, std::int64_t>> taps;  // window position, shift: both ascending
};

Phase input_grad_phase(const ConvShape& s, const Sizes& weight_strides, const Sizes& remainder) {
  Phase phase;
  phase.pixel_step = {1, 1, 1};
  phase.step = s.stride;
  std::vector<PhaseAxis> axes;
  bool empty = false;
  for (std::size_t a = 0; a < 3; ++a) {
    axes.emplace_back(s.in[a], s.window[a], s.stride[a], s.pad[a], s.dilation[a], remainder[a]);
    const PhaseAxis& axis = axes.back();
    phase.first[a] = axis.first;
    phase.count[a] = axis.count;
    empty |= axis.taps.empty();
  }
  if (empty || phase.pixels() == 0) return phase;
  for (std::size_t a = 0; a < 3; ++a) {
    phase.frame.size[a] = axes[a].count + axes[a].widest() - axes[a].narrowest();
    phase.frame.pad[a] = axes[a].widest() - axes[a].base;
  }
  for (const auto& [t, t_shift] : axes[0].taps)
    for (const auto& [r, r_shift] : axes[1].taps)
      for (const auto& [c, c_shift] : axes[2].taps)
        phase.taps.push_back(
            {phase.frame.at(axes[0].widest() - t_shift, axes[1].widest() - r_shift, axes[2].widest() - c_shift),
             t * weight_strides[0] + r * weight_strides[1] + c * weight_strides[2]});
  return phase;
}

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

/// The pixels of a phase in order, cut into vectors; each row by itself where `by_rows`.
template <class T>
std::vector<PixelVector<T>> pixel_vectors(const Phase& phase, bool by_rows) {
  constexpr std::int64_t kWidth = kLanes<T>;
  std::vector<PixelVector<T>> vectors;
  std::int64_t pixel = 0;
  for_each_in(phase.count, [&](std::int64_t d, std::int64_t h, std::int64_t w) {
    if (by_rows && w == 0) pixel = 0;
    const std::int64_t lane = pixel++ % kWidth;
    const std::int64_t offset =
        d * phase.pixel_step[0] * phase.frame.plane() + h * phase.pixel_step[1] * phase.frame.row() + w - lane;
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
  std::vector<PixelVector<T>> vectors;
  std::vector<std::int64_t> offsets;  ///< in the frame, per (channel, tap)
  std::int64_t weights = 0;           ///< start in the packed weights
  /// Rows of pixels start at whole vectors, which are then read where they lie; else pixels are packed.
  bool by_rows = false;
  std::int64_t depth() const { return static_cast<std::int64_t>(offsets.size()); }
};

/// The output and input_grad roles alike: `rows` channels of the result are sums over (channels, taps) of the source.
template <class T>
class DataConv {
 public:
  DataConv(const Conv& conv, const ConvShape& shape, const Strided<T>& source, const Strided<T>& weight,
           const HeadSink& sink, ThreadPool& pool)
      : s_(shape), source_(source), weight_(weight), sink_(sink), pool_(pool) {
    forward_ = conv.role == ConvRole::output;
    rows_ = forward_ ? s_.filters : s_.channels;
    channels_ = forward_ ? s_.channels : s_.filters;
    source_size_ = forward_ ? s_.in : s_.out;
    result_size_ = forward_ ? s_.out : s_.in;
    area_ = result_size_[0] * result_size_[1] * result_size_[2];
    tiles_ = ceil_div(rows_, kTileRows);
  }

  void run() {
    build_sweeps();
    Scratch<T> packed(packed_size_ * s_.groups);
    pack_weights(packed.data());
    const std::int64_t images = s_.batch * s_.groups;
    const std::int64_t splits = std::clamp<std::int64_t>(kUnits / images, 1, ceil_div(tiles_, 4));
    const std::int64_t units = images * splits, parts = std::min<std::int64_t>(units, 8 * kUnits);
    pool_.parallel_for(parts, [&](std::int64_t part) {
      Pieces pieces(sink_);
      for (std::int64_t unit = cut(units, parts, part); unit < cut(units, parts, part + 1); ++unit) {
        const std::int64_t image = unit / splits, split = unit % splits;
        const std::int64_t first = cut(tiles_, splits, split), last = cut(tiles_, splits, split + 1);
        run_image(image / s_.groups, image % s_.groups, first, last, packed.data());
        const std::int64_t row = first_row(first);
        pieces.add((image * rows_ + row) * area_, (first_row(last) - row) * area_);
      }
      pieces.flush();
    });
  }

 private:
  std::int64_t first_row(std::int64_t tile) const { return cut(rows_, tiles_, tile); }

  void build_sweeps() {
    if (forward_) {
      add_sweep(output_phase(s_, weight_.axis));
    } else {
      for_each_in(s_.stride, [&](std::int64_t d, std::int64_t h, std::int64_t w) {
        Phase phase = input_grad_phase(s_, weight_.axis, {d, h, w});
        if (phase.pixels() > 0) add_sweep(std::move(phase));
      });
    }
  }

  void add_sweep(Phase phase) {
    Sweep<T> sweep;
    sweep.weights = packed_size_;
    for (std::int64_t c = 0; c < channels_; ++c)
      for (const Tap& tap : phase.taps) sweep.offsets.push_back(c * phase.frame.channel() + tap.frame);
    if (!phase.taps.empty()) {
      // Vectors cut at the ends of rows need no packing but are not all full.
      const std::int64_t lines = phase.count[0] * phase.count[1];
      const std::int64_t row_vectors = lines * ceil_div(phase.count[2], kLanes<T>);
      sweep.by_rows = row_vectors * rows_ <= ceil_div(phase.pixels(), kLanes<T>) * (rows_ + kPackRows);
      sweep.vectors = pixel_vectors<T>(phase, sweep.by_rows);
    }
    sweep.phase = std::move(phase);
    packed_size_ += rows_ * sweep.depth();
    sweeps_.push_back(std::move(sweep));
  }

  /// [group][sweep][tile][depth][rows of the tile]
  void pack_weights(T* packed) const {
    pool_.parallel_for(s_.groups * tiles_, [&](std::int64_t part) {
      const std::int64_t group = part / tiles_, tile = part % tiles_;
      const std::int64_t first = first_row(tile), rows = first_row(tile + 1) - first;
      const std::int64_t row_stride = forward_ ? weight_.outer : weight_.inner;
      const std::int64_t channel_stride = forward_ ? weight_.inner : weight_.outer;
      const T* from = weight_.data + group * s_.filters * weight_.outer + first * row_stride;
      for (const Sweep<T>& sweep : sweeps_) {
        T* to = packed + group * packed_size_ + sweep.weights + first * sweep.depth();
        for (std::int64_t c = 0; c < channels_; ++c)
          for (const Tap& tap : sweep.phase.taps)
            for (std::int64_t r = 0; r < rows; ++r) *to++ = from[r * row_stride + c * channel_stride + tap.weight];
      }
    });
  }

  void run_image(std::int64_t n, std::int64_t group, std::int64_t tile0, std::int64_t tile1, const T* packed) const {
    const T* image = source_.data + n * source_.outer + group * channels_ * source_.inner;
    const std::int64_t first = first_row(tile0), rows = first_row(tile1) - first;
    T* result = reinterpret_cast<T*>(sink_.result) + ((n * s_.groups + group) * rows_ + first) * area_;
    for (const Sweep<T>& sweep : sweeps_) {
      const Phase& phase = sweep.phase;
      if (sweep.depth() == 0) {
        scatter(phase, nullptr, 0, 0, 0, phase.lines(), result, rows);
        continue;
      }
      const std::int64_t frame_size = phase.frame.channel() * channels_;
      Scratch<T> frame(frame_size);
      std::fill_n(frame.data(), frame_size + kLanes<T>, T{});
      fill_frame(phase.frame, image, source_.inner, source_.axis, source_size_, channels_, frame.data());
      run_frame(sweep, tile0, tile1, packed + group * packed_size_ + sweep.weights, frame.data(), result);
    }
  }

  void run_frame(const Sweep<T>& sweep, std::int64_t tile0, std::int64_t tile1, const T* weights, const T* frame,
                 T* result) const {
    const Phase& phase = sweep.phase;
    const std::int64_t vectors = static_cast<std::int64_t>(sweep.vectors.size()), lines = phase.lines();
    const std::int64_t line_vectors = ceil_div(phase.count[2], kLanes<T>);
    const std::int64_t line = sweep.by_rows ? line_vectors * kLanes<T> : phase.count[2];
    if (phase.step == Sizes{1, 1, 1} && phase.pixels() == area_ && line == phase.count[2])
      return run_panels(sweep, tile0, tile1, 0, vectors, weights, frame, result, area_);
    const std::int64_t rows = first_row(tile1) - first_row(tile0);
    const std::int64_t height = sweep.by_rows ? std::max<std::int64_t>(1, kBlockVectors / line_vectors) : lines;
    const std::int64_t step = (sweep.by_rows ? height * line_vectors : vectors) * kLanes<T>;
    Scratch<T> pixels(rows * step);
    for (std::int64_t first = 0; first < lines; first += height) {
      const std::int64_t last = std::min(lines, first + height);
      run_panels(sweep, tile0, tile1, sweep.by_rows ? first * line_vectors : 0,
                 sweep.by_rows ? last * line_vectors : vectors, weights, frame, pixels.data(), step);
      scatter(phase, pixels.data(), step, line, first, last, result, rows);
    }
  }

  /// out[row - first row][pixel - first pixel] for vectors [first, last) of pixels, rows `out_step` apart.
  void run_panels(const Sweep<T>& sweep, std::int64_t tile0, std::int64_t tile1, std::int64_t first, std::int64_t last,
                  const T* weights, const T* frame, T* out, std::int64_t out_step) const {
    const std::int64_t panels = ceil_div(last - first, kTileVectors), chunks = ceil_div(sweep.depth(), kDepthChunk);
    const std::int64_t pixels = sweep.by_rows ? (last - first) * kLanes<T> : sweep.phase.pixels();
    Scratch<T> lanes(sweep.by_rows ? 0 : ceil_div(sweep.depth(), chunks) * kTileLanes<T>);
    TileArgs<T> tile;
    tile.out_step = out_step;
    tile.lanes = lanes.data();
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t k = cut(sweep.depth(), chunks, chunk), depth = cut(sweep.depth(), chunks, chunk + 1) - k;
      tile.length = depth;
      tile.add = chunk > 0;
      if (sweep.by_rows) tile.offsets = sweep.offsets.data() + k;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t v0 = cut(last - first, panels, panel);
        const std::int64_t width = (cut(last - first, panels, panel + 1) - v0) * kLanes<T>;
        for (std::int64_t v = 0; v * kLanes<T> < width; ++v) {
          const PixelVector<T>& vector = sweep.vectors[static_cast<std::size_t>(first + v0 + v)];
          if (sweep.by_rows)
            tile.vectors[v] = frame + vector.offset;
          else
            pack_pixels(vector, frame, sweep.offsets.data() + k, depth, lanes.data() + v * kLanes<T>, width);
        }
        tile.lanes_step = width;
        const std::int64_t used = std::min(width, pixels - v0 * kLanes<T>);
        for (std::int64_t t = tile0; t < tile1; ++t) {
          const std::int64_t row = first_row(t), rows = first_row(t + 1) - row;
          for (std::int64_t r = 0; r < rows; ++r) tile.rows[r] = weights + row * sweep.depth() + k * rows + r;
          tile.step = rows;
          tile.out = out + (row - first_row(tile0)) * out_step + v0 * kLanes<T>;
          run_edge_tile(static_cast<int>(rows), width, used, tile);
        }
      }
    }
  }

  /// A tile whose last lanes may lie outside the result.
  static void run_edge_tile(int rows, std::int64_t width, std::int64_t used, TileArgs<T> tile) {
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

  /// Puts lines [first, last) of a phase's pixels (zeros for null) where they stand in the result.
  void scatter(const Phase& phase, const T* pixels, std::int64_t pixels_step, std::int64_t line, std::int64_t first,
               std::int64_t last, T* result, std::int64_t rows) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t d = i / phase.count[1], h = i % phase.count[1];
        const T* from = pixels ? pixels + r * pixels_step + (i - first) * line : nullptr;
        T* to = result + r * area_ + (phase.first[0] + d * phase.step[0]) * result_size_[1] * result_size_[2] +
                (phase.first[1] + h * phase.step[1]) * result_size_[2] + phase.first[2];
        if (from && phase.step[2] == 1)
          copy_row(from, phase.count[2], to);
        else
          for (std::int64_t w = 0; w < phase.count[2]; ++w) to[w * phase.step[2]] = from ? from[w] : T{};
      }
    }
  }

  const ConvShape& s_;
  const ImageView<T> source_, weight_;
  const HeadSink& sink_;
  ThreadPool& pool_;
  bool forward_;
  std::int64_t rows_, channels_, area_, tiles_, packed_size_ = 0;
  Sizes source_size_, result_size_;
  std::vector<Sweep<T>> sweeps_;
};

}  // namespace

ConvShape::ConvShape(const Conv& conv, const Shape& x, const Shape& w, const Shape& y)
    : batch(x[0]),
      groups(conv.groups),
      channels(w[1]),
      filters(w[0] / conv.groups),
      in(spatial_sizes(x)),
      out(spatial_sizes(y)),
      window(spatial_sizes(w)),
      stride(three(conv.stride, 1)),
      pad(three(conv.pad, 0)),
      dilation(three(conv.dilation, 1)) {}

FrameLayout frame_of_windows(const ConvShape& shape) {
  FrameLayout layout;
  layout.pad = shape.pad;
  layout.column_step = shape.stride[2];
  for (std::size_t a = 0; a < 3; ++a)
    layout.size[a] = (shape.out[a] - 1) * shape.stride[a] + (shape.window[a] - 1) * shape.dilation[a] + 1;
  return layout;
}

template <class T>
void run_conv(const Conv& conv, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool) {
  if (conv.role == ConvRole::filter_grad) return run_filter_grad<T>(conv, operands, domain, sink, pool);
  const Strided<T> source(operands[0], pool), weight(operands[1], pool);
  const bool forward = conv.role == ConvRole::output;
  const ConvShape shape(conv, forward ? source.shape() : domain, weight.shape(), forward ? domain : source.shape());
  DataConv<T>(conv, shape, source, weight, sink, pool).run();
}

template void run_conv<float>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_conv<double>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_conv<Bits>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);

}  // namespace nixie::cpu
