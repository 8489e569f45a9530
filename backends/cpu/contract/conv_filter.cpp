// Convolution's filter_grad: rows are (channel, tap) pairs read straight from a frame of x, lanes are filters of dy,
// the depth is all pixels. Parts of images are summed in a fixed order.
#include "nixie/backends/cpu/contract/conv.h"
#include "nixie/backends/cpu/contract/pack.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kUnits = 16;              // parts wanted
constexpr std::int64_t kPixelChunk = 192;        // pixels of a panel that stay in the first-level cache
constexpr std::int64_t kPartialBytes = 1 << 25;  // partial sums in memory

template <class T>
class FilterConv {
 public:
  FilterConv(const ConvShape& shape, const Strided<T>& dy, const Strided<T>& x, const HeadSink& sink, ThreadPool& pool)
      : s_(shape), dy_(dy), x_(x), sink_(sink), pool_(pool), layout_(frame_of_windows(shape)) {
    vectors_ = ceil_div(s_.filters, kLanes<T>);
    panels_ = ceil_div(vectors_, kTileVectors);
    pixels_ = s_.out[0] * s_.out[1] * s_.out[2];
    for (std::int64_t t = 0; t < s_.window[0]; ++t)
      for (std::int64_t r = 0; r < s_.window[1]; ++r)
        for (std::int64_t c = 0; c < s_.window[2]; ++c)
          taps_.push_back(layout_.at(t * s_.dilation[0], r * s_.dilation[1], c * s_.dilation[2]));
    const std::int64_t columns = s_.groups * panels_, bytes = group_size() * s_.groups * std::int64_t{sizeof(T)};
    images_ =
        std::clamp<std::int64_t>(std::min(ceil_div(kUnits, columns), kPartialBytes / std::max<std::int64_t>(1, bytes)),
                                 1, std::max<std::int64_t>(1, s_.batch));
    slices_ = std::clamp<std::int64_t>(kUnits / (columns * images_), 1, s_.channels);
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
    if (n0 == n1) std::fill_n(sums, (c1 - c0) * s_.taps() * width, T{});
    Scratch<T> frame(layout_.channel() * (c1 - c0)), lanes(pixels_ * width);
    std::fill_n(frame.data(), layout_.channel() * (c1 - c0), T{});
    for (std::int64_t n = n0; n < n1; ++n) {
      fill_frame(layout_, x_.data + n * x_.outer + (group * s_.channels + c0) * x_.inner, x_.inner, x_.axis, s_.in,
                 c1 - c0, frame.data());
      pack_filters(n, group * s_.filters + lane, std::min(width, s_.filters - lane), width, lanes.data());
      sum_frame(frame.data(), c1 - c0, lanes.data(), width, n > n0, sums);
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

  void sum_frame(const T* frame, std::int64_t channels, const T* lanes, std::int64_t width, bool add, T* sums) const {
    const std::int64_t rows = channels * s_.taps(), tiles = ceil_div(rows, kTileRows);
    const std::int64_t lines = std::clamp<std::int64_t>(kPixelChunk / s_.out[2], 1, s_.out[1]);
    TileArgs<T> tile;
    tile.step = 1;
    tile.jump = s_.stride[1] * layout_.row();
    tile.length = s_.out[2];
    tile.lanes_step = width;
    tile.out_step = width;
    for (std::int64_t d = 0; d < s_.out[0]; ++d) {
      for (std::int64_t h = 0; h < s_.out[1]; h += lines) {
        const T* start = frame + d * s_.stride[0] * layout_.plane() + h * tile.jump;
        tile.runs = std::min(lines, s_.out[1] - h);
        tile.lanes = lanes + (d * s_.out[1] + h) * s_.out[2] * width;
        tile.add = add || d > 0 || h > 0;
        for (std::int64_t t = 0; t < tiles; ++t) {
          const std::int64_t row = cut(rows, tiles, t), count = cut(rows, tiles, t + 1) - row;
          for (std::int64_t r = 0; r < count; ++r)
            tile.rows[r] = start + (row + r) / s_.taps() * layout_.channel() +
                           taps_[static_cast<std::size_t>((row + r) % s_.taps())];
          tile.out = sums + row * width;
          run_tile(static_cast<int>(count), static_cast<int>(width / kLanes<T>), tile);
        }
      }
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
  std::vector<std::int64_t> taps_;
  std::int64_t vectors_, panels_, pixels_, images_, slices_;
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
  FilterConv<T>(shape, dy, x, sink, pool).run();
}

template void run_filter_grad<float>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                     ThreadPool&);
template void run_filter_grad<double>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                      ThreadPool&);
template void run_filter_grad<Bits>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                    ThreadPool&);

}  // namespace nixie::cpu
