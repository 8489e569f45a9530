// Convolution's filter_grad: rows are (channel, tap) pairs read straight from a frame of x, lanes are filters of dy,
// the depth is all pixels. Where a group has few filters, as in depthwise layers, the lanes are pixels. Parts of images
// are summed in a fixed order.
#include <numeric>

#include "nixie/backends/cpu/contract/conv/depthwise.h"
#include "nixie/backends/cpu/contract/conv/phase.h"
#include "nixie/backends/cpu/contract/pack.h"
#include "nixie/backends/cpu/contract/winograd/winograd.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kUnits = 16;              // parts wanted
constexpr std::int64_t kPixelChunk = 192;        // pixels of a panel that stay in the first-level cache
constexpr std::int64_t kImagesChunk = 1024;      // pixels of a panel that stay in the second-level cache
constexpr std::int64_t kPartialBytes = 1 << 25;  // partial sums in memory
constexpr std::int64_t kLineFilters = 2;         // filters that are too few for lanes

/// Offsets of the window's positions in a channel of its frame.
std::vector<std::int64_t> tap_offsets(const ConvShape& s, const FrameLayout& layout) {
  std::vector<std::int64_t> taps;
  for_each_in(s.window, [&](std::int64_t t, std::int64_t r, std::int64_t c) {
    taps.push_back(layout.at(t * s.dilation[0], r * s.dilation[1], c * s.dilation[2]));
  });
  return taps;
}

template <class T>
class FilterConv {
 public:
  FilterConv(const ConvShape& shape, const Strided<T>& dy, const Strided<T>& x, bool winograd, const HeadSink& sink,
             ThreadPool& pool)
      : s_(shape),
        dy_(dy),
        x_(x),
        sink_(sink),
        pool_(pool),
        layout_(frame_of_windows(shape)),
        in_place_(x_.is_dense(shape.groups * shape.channels, shape.in) && layout_.is_image(shape.in)),
        winograd_(winograd) {
    const std::vector<std::int64_t> taps = tap_offsets(s_, layout_);
    for (std::int64_t c = 0; c < s_.channels; ++c)
      for (const std::int64_t tap : taps) row_offsets_.push_back(c * layout_.channel() + tap);
    vectors_ = ceil_div(s_.filters, kLanes<T>);
    panels_ = ceil_div(vectors_, kTileVectors);
    pixels_ = s_.out[0] * s_.out[1] * s_.out[2];
    const std::int64_t columns = s_.groups * panels_, bytes = group_size() * s_.groups * std::int64_t{sizeof(T)};
    images_ =
        std::clamp<std::int64_t>(std::min(ceil_div(kUnits, columns), kPartialBytes / std::max<std::int64_t>(1, bytes)),
                                 1, std::max<std::int64_t>(1, s_.batch));
    slices_ = std::clamp<std::int64_t>(kUnits / (columns * images_), 1, s_.channels);
    joined_ = s_.stride[1] * layout_.row() == s_.out[2];
    const bool planes = in_place_ && joined_ && s_.out[0] == 1;
    together_ = planes ? std::clamp<std::int64_t>(kImagesChunk / pixels_, 1, std::max<std::int64_t>(1, s_.batch)) : 1;
  }

  void run() {
    Scratch<T> partial(group_size() * s_.groups * images_);
    pool_.parallel_for(images_ * s_.groups * panels_ * slices_, [&](std::int64_t part) {
      const std::int64_t slice = part % slices_, panel = part / slices_ % panels_;
      const std::int64_t group = part / (slices_ * panels_) % s_.groups,
                         images = part / (slices_ * panels_ * s_.groups);
      sum_images(images, group, panel, cut(s_.channels, slices_, slice), cut(s_.channels, slices_, slice + 1),
                 partial.data() + (images * s_.groups + group) * group_size());
    });
    combine(partial.data());
    finish_all(sink_, s_.groups * s_.filters * depth(), pool_);
  }

 private:
  std::int64_t depth() const { return s_.channels * s_.taps(); }
  std::int64_t group_size() const { return vectors_ * kLanes<T> * depth(); }
  std::int64_t first_lane(std::int64_t panel) const { return cut(vectors_, panels_, panel) * kLanes<T>; }

  /// sums: [panel][channel][tap][lane]
  void sum_images(std::int64_t part, std::int64_t group, std::int64_t panel, std::int64_t c0, std::int64_t c1,
                  T* sums) const {
    const std::int64_t lane = first_lane(panel), width = first_lane(panel + 1) - lane;
    sums += lane * depth() + c0 * s_.taps() * width;
    const std::int64_t n0 = cut(s_.batch, images_, part), n1 = cut(s_.batch, images_, part + 1);
    if constexpr (std::is_same_v<T, float>)
      if (winograd_) {
        const std::int64_t filter = group * s_.filters + lane, filters = std::min(width, s_.filters - lane);
        const FilterPart whole{filter, filters, group * s_.channels + c0, c1 - c0, n0, n1};
        return sum_winograd_filters(s_, dy_, x_, whole, sums);
      }
    if (n0 == n1) std::fill_n(sums, (c1 - c0) * s_.taps() * width, T{});
    const std::int64_t frame_size = in_place_ ? 0 : layout_.channel() * (c1 - c0);
    Scratch<T> frame(frame_size), lanes(together_ * pixels_ * width);
    std::fill_n(frame.data(), frame_size, T{});
    for (std::int64_t n = n0; n < n1; n += together_) {
      const std::int64_t images = std::min(together_, n1 - n);
      const T* image = x_.data + n * x_.outer + (group * s_.channels + c0) * x_.inner;
      if (!in_place_) fill_frame(layout_, image, x_.inner, x_.axis, s_.in, c1 - c0, frame.data());
      for (std::int64_t i = 0; i < images; ++i)
        pack_filters(n + i, group * s_.filters + lane, std::min(width, s_.filters - lane), width,
                     lanes.data() + i * pixels_ * width);
      if (together_ > 1)
        sum_images_at_once(image, images, c1 - c0, lanes.data(), width, n > n0, sums);
      else
        sum_frame(in_place_ ? image : frame.data(), c1 - c0, lanes.data(), width, n > n0, sums);
    }
  }

  /// to[pixel][lane], the lanes being filters.
  void pack_filters(std::int64_t n, std::int64_t filter, std::int64_t used, std::int64_t width, T* to) const {
    const T* from = dy_.data + n * dy_.outer + filter * dy_.inner;
    const bool dense = dy_.axis[2] == 1 && dy_.axis[1] == s_.out[2] && dy_.axis[0] == s_.out[1] * s_.out[2];
    if (dense || pixels_ == 1) return pack_lanes(from, dy_.inner, std::int64_t{1}, used, width, pixels_, to);
    for (std::int64_t d = 0; d < s_.out[0]; ++d)
      for (std::int64_t h = 0; h < s_.out[1]; ++h, to += s_.out[2] * width)
        pack_lanes(from + d * dy_.axis[0] + h * dy_.axis[1], dy_.inner, dy_.axis[2], used, width, s_.out[2], to);
  }

  TileArgs<T> tiles_of(std::int64_t width) const {
    TileArgs<T> tile;
    tile.step = 1;
    tile.lanes_step = tile.out_step = width;
    return tile;
  }

  /// Small images read in place: their planes are the runs of one sum.
  void sum_images_at_once(const T* first, std::int64_t images, std::int64_t channels, const T* lanes,
                          std::int64_t width, bool add, T* sums) const {
    TileArgs<T> tile = tiles_of(width);
    tile.jump = x_.outer;
    tile.runs = images;
    tile.length = pixels_;
    tile.lanes = lanes;
    tile.add = add;
    run_tiles(tile, channels * s_.taps(), first, sums);
  }

  void sum_frame(const T* frame, std::int64_t channels, const T* lanes, std::int64_t width, bool add, T* sums) const {
    const std::int64_t lines = std::clamp<std::int64_t>(kPixelChunk / s_.out[2], 1, s_.out[1]);
    const std::int64_t jump = s_.stride[1] * layout_.row(), plane = s_.stride[0] * layout_.plane();
    TileArgs<T> tile = tiles_of(width);
    tile.jump = jump;
    for (std::int64_t d = 0; d < s_.out[0]; ++d)
      for (std::int64_t h = 0; h < s_.out[1]; h += lines) {
        const std::int64_t count = std::min(lines, s_.out[1] - h);
        tile.runs = joined_ ? 1 : count;
        tile.length = joined_ ? count * s_.out[2] : s_.out[2];
        tile.lanes = lanes + (d * s_.out[1] + h) * s_.out[2] * width;
        tile.add = add || d > 0 || h > 0;
        if (in_place_) prefetch_lines(frame + d * plane + (h + count) * jump, channels, count * jump);
        run_tiles(tile, channels * s_.taps(), frame + d * plane + h * jump, sums);
      }
  }

  /// Prefetches the next lines of an image: its channels are apart.
  void prefetch_lines(const T* from, std::int64_t channels, std::int64_t length) const {
    for (std::int64_t c = 0; c < channels; ++c, from += layout_.channel())
      for (std::int64_t i = 0; i < length; i += kLanes<T>) __builtin_prefetch(from + i);
  }

  void run_tiles(TileArgs<T>& tile, std::int64_t rows, const T* start, T* sums) const {
    const std::int64_t tiles = ceil_div(rows, kTileRows), width = tile.out_step;
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t row = cut(rows, tiles, t), count = cut(rows, tiles, t + 1) - row;
      for (std::int64_t r = 0; r < count; ++r) tile.rows[r] = start + row_offsets_[static_cast<std::size_t>(row + r)];
      tile.out = sums + row * width;
      run_tile(static_cast<int>(count), static_cast<int>(width / kLanes<T>), tile);
    }
  }

  /// Adds the parts in the order of the images, and turns [panel][depth][lane] into [filter][depth].
  void combine(const T* partial) const {
    constexpr std::int64_t kBlock = 64;
    const std::int64_t blocks = ceil_div(depth(), kBlock), image_size = group_size() * s_.groups;
    pool_.parallel_for(s_.groups * panels_ * blocks, [&](std::int64_t part) {
      const std::int64_t block = part % blocks, panel = part / blocks % panels_, group = part / (blocks * panels_);
      const std::int64_t lane = first_lane(panel), width = first_lane(panel + 1) - lane;
      const std::int64_t used = std::min(width, s_.filters - lane);
      const std::int64_t k = block * kBlock, count = std::min(kBlock, depth() - k);
      const T* from = partial + group * group_size() + lane * depth() + k * width;
      T sums[kBlock * kTileLanes<T>];
      std::copy_n(from, count * width, sums);
      for (std::int64_t i = 1; i < images_; ++i)
        for (std::int64_t j = 0; j < count * width; ++j) sums[j] += from[i * image_size + j];
      T* to = reinterpret_cast<T*>(sink_.result) + (group * s_.filters + lane) * depth() + k;
      transpose(sums, width, count, used, to, depth());
    });
  }

  const ConvShape& s_;
  const ImageView<T> dy_, x_;
  const HeadSink& sink_;
  ThreadPool& pool_;
  const FrameLayout layout_;
  std::vector<std::int64_t> row_offsets_;  ///< in a frame, per (channel, tap)
  const bool in_place_;
  const bool winograd_;
  bool joined_;  ///< lines follow one another in the frame as they do in dy
  std::int64_t vectors_, panels_, pixels_, images_, slices_;
  std::int64_t together_;  ///< images that are summed at once
};

/// sums[tap][lane] += dy[pixel] * frame[pixel + tap] over a line of `count` pixels, for kTaps taps.
template <class T, int kTaps>
void add_line(const T* dy, std::int64_t count, const T* frame, const std::int64_t* taps, T* sums) {
  constexpr std::int64_t kWidth = kLanes<T>;
  Vector<T> sum[kTaps];
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) sum[t] = load(sums + t * kWidth);
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Vector<T> grad = load(dy + i);
#pragma GCC unroll 9
    for (int t = 0; t < kTaps; ++t) sum[t] = multiply_add<T>(grad, load(frame + taps[t] + i), sum[t]);
  }
  if (i < count) {
    // Lanes behind the line's end hold other pixels, infinite ones perhaps: both factors are zero there.
    T edge[kWidth] = {};
    decltype(Vector<T>{} == Vector<T>{}) inside{};
    for (std::int64_t lane = 0; lane < count - i; ++lane) {
      edge[lane] = dy[i + lane];
      inside[lane] = -1;
    }
    const Vector<T> grad = load(edge);
#pragma GCC unroll 9
    for (int t = 0; t < kTaps; ++t)
      sum[t] = multiply_add<T>(grad, inside ? load(frame + taps[t] + i) : Vector<T>{}, sum[t]);
  }
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) store(sums + t * kWidth, sum[t]);
}

/// Few filters in a group: each (filter, channel) is a sum over lines of dy and of a frame of x.
template <class T>
class LineFilterConv {
 public:
  LineFilterConv(const ConvShape& shape, const Strided<T>& dy, const Strided<T>& x, const HeadSink& sink,
                 ThreadPool& pool)
      : s_(shape),
        dy_(dy),
        x_(x),
        sink_(sink),
        pool_(pool),
        layout_(frame_of_windows(shape)),
        taps_(tap_offsets(shape, layout_)) {}

  void run() {
    const std::int64_t images = std::clamp<std::int64_t>(kUnits / s_.groups, 1, s_.batch),
                       size = s_.groups * group_size();
    T* const result = reinterpret_cast<T*>(sink_.result);
    Scratch<T> partial(images > 1 ? images * size : 0);
    pool_.parallel_for(images * s_.groups, [&](std::int64_t part) {
      const std::int64_t image = part / s_.groups, group = part % s_.groups;
      sum_group(group, cut(s_.batch, images, image), cut(s_.batch, images, image + 1),
                (images > 1 ? partial.data() + image * size : result) + group * group_size());
    });
    for (std::int64_t i = 0; images > 1 && i < size; ++i) {
      T sum = partial.data()[i];
      for (std::int64_t image = 1; image < images; ++image) sum += partial.data()[image * size + i];
      result[i] = sum;
    }
    finish_all(sink_, size, pool_);
  }

 private:
  std::int64_t group_size() const { return s_.filters * s_.channels * s_.taps(); }

  /// to: [filter][channel][tap]
  void sum_group(std::int64_t group, std::int64_t n0, std::int64_t n1, T* to) const {
    Scratch<T> frame(layout_.channel()), line(s_.out[2]), sums(s_.filters * s_.taps() * kLanes<T>);
    std::fill_n(frame.data(), layout_.channel() + kLanes<T>, T{});
    for (std::int64_t c = 0; c < s_.channels; ++c) {
      std::fill_n(sums.data(), s_.filters * s_.taps() * kLanes<T>, T{});
      for (std::int64_t n = n0; n < n1; ++n) {
        fill_frame(layout_, x_.data + n * x_.outer + (group * s_.channels + c) * x_.inner, x_.inner, x_.axis, s_.in, 1,
                   frame.data());
        for (std::int64_t f = 0; f < s_.filters; ++f)
          add_plane(dy_.data + n * dy_.outer + (group * s_.filters + f) * dy_.inner, frame.data(), line.data(),
                    sums.data() + f * s_.taps() * kLanes<T>);
      }
      for (std::int64_t f = 0; f < s_.filters; ++f)
        for (std::int64_t t = 0; t < s_.taps(); ++t) {
          const T* lanes = sums.data() + (f * s_.taps() + t) * kLanes<T>;
          to[(f * s_.channels + c) * s_.taps() + t] = std::accumulate(lanes, lanes + kLanes<T>, T{});
        }
    }
  }

  void add_plane(const T* dy, const T* frame, T* line, T* sums) const {
    for (std::int64_t d = 0; d < s_.out[0]; ++d)
      for (std::int64_t h = 0; h < s_.out[1]; ++h) {
        const T* from = dy + d * dy_.axis[0] + h * dy_.axis[1];
        if (dy_.axis[2] != 1) {
          for (std::int64_t w = 0; w < s_.out[2]; ++w) line[w] = from[w * dy_.axis[2]];
          from = line;
        }
        add_taps(from, frame + d * s_.stride[0] * layout_.plane() + h * s_.stride[1] * layout_.row(), sums);
      }
  }

  void add_taps(const T* dy, const T* frame, T* sums) const {
    const std::int64_t count = s_.taps();
    for (std::int64_t t = 0; t < count;) {
      const std::int64_t* taps = taps_.data() + t;
      T* to = sums + t * kLanes<T>;
      if (count - t >= 9)
        add_line<T, 9>(dy, s_.out[2], frame, taps, to), t += 9;
      else if (count - t >= 3)
        add_line<T, 3>(dy, s_.out[2], frame, taps, to), t += 3;
      else
        add_line<T, 1>(dy, s_.out[2], frame, taps, to), t += 1;
    }
  }

  const ConvShape& s_;
  const ImageView<T> dy_, x_;
  const HeadSink& sink_;
  ThreadPool& pool_;
  const FrameLayout layout_;
  const std::vector<std::int64_t> taps_;
};

}  // namespace

template <class T>
void run_filter_grad(const Conv& conv, std::span<const BoundOperand> operands, const Shape& domain,
                     const HeadSink& sink, ThreadPool& pool) {
  const Strided<T> dy(operands[0], pool), x(operands[1], pool);
  if (dy.shape().size() == 0) {  // a sum of nothing
    std::fill_n(reinterpret_cast<T*>(sink.result), domain.size(), T{});
    return finish_all(sink, domain.size(), pool);
  }
  const ConvShape shape(conv, x.shape(), domain, dy.shape());
  if (channels_as_lanes<T>(conv, shape))
    run_depthwise_filter<T>(shape, dy, x, sink, pool);
  else if (shape.filters <= kLineFilters)
    LineFilterConv<T>(shape, dy, x, sink, pool).run();
  else
    FilterConv<T>(shape, dy, x,
                  std::is_same_v<T, float> && allows_winograd(conv, operands[0].dtype) && winograd_filter_pays(shape),
                  sink, pool)
        .run();
}

template void run_filter_grad<float>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                     ThreadPool&);
template void run_filter_grad<double>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                      ThreadPool&);
template void run_filter_grad<Bits>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                    ThreadPool&);

}  // namespace nixie::cpu
