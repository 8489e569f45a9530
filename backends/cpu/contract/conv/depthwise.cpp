// Depthwise convolutions with channels as lanes: images are turned to [pixel][channel], so no row is too short for a
// vector, and a filter's gradient needs no sum over lanes.
#include "nixie/backends/cpu/contract/conv/depthwise.h"

#include "nixie/backends/cpu/contract/conv/phase.h"
#include "nixie/backends/cpu/contract/pack.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kMostPixels = 4096;  // of a frame: its lanes stay in the second-level cache
constexpr std::int64_t kParts = 128;
constexpr std::int64_t kUnits = 16;  // parts wanted of a filter's gradient
constexpr int kPixels = 8;           // at a time: they hide the latency of a sum

std::int64_t area(const Sizes& size) { return size[0] * size[1] * size[2]; }

/// to[pixel][lane] of some channels of an image.
template <class T>
void turn_image(const ImageView<T>& view, std::int64_t image, std::int64_t channel, std::int64_t channels,
                const Sizes& size, T* to) {
  const T* from = view.data + image * view.outer + channel * view.inner;
  if (view.axis[2] == 1 && view.axis[1] == size[2] && view.axis[0] == size[1] * size[2])
    return pack_lanes(from, view.inner, std::int64_t{1}, channels, std::int64_t{kLanes<T>}, area(size), to);
  for (std::int64_t d = 0; d < size[0]; ++d)
    for (std::int64_t h = 0; h < size[1]; ++h, to += size[2] * kLanes<T>)
      pack_lanes(from + d * view.axis[0] + h * view.axis[1], view.inner, view.axis[2], channels,
                 std::int64_t{kLanes<T>}, size[2], to);
}

/// Puts a turned image into a turned frame whose padding is zero already.
template <class T>
void frame_image(const FrameLayout& layout, const T* turned, const Sizes& size, T* frame) {
  std::array<std::int64_t, 3> low{}, high{};
  for (std::size_t a = 0; a < 3; ++a) {
    low[a] = std::clamp<std::int64_t>(layout.pad[a], 0, layout.size[a]);
    high[a] = std::clamp(size[a] + layout.pad[a], low[a], layout.size[a]);
  }
  for (std::int64_t d = low[0]; d < high[0]; ++d)
    for (std::int64_t h = low[1]; h < high[1]; ++h) {
      const T* from =
          turned + (((d - layout.pad[0]) * size[1] + h - layout.pad[1]) * size[2] - layout.pad[2]) * kLanes<T>;
      for (std::int64_t w = low[2]; w < high[2]; ++w)
        store(frame + layout.at(d, h, w) * kLanes<T>, load(from + w * kLanes<T>));
    }
}

/// to[i * to_step] = the sum over taps of weights[tap] * from[offsets[tap] + i * kLanes] for neighbouring pixels i.
template <class T, int kCount>
void sum_taps(const T* from, const std::vector<std::int64_t>& offsets, const T* weights, T* to, std::int64_t to_step) {
  Vector<T> sum[kCount] = {};
  for (const std::int64_t offset : offsets) {
    const Vector<T> weight = load(weights);
    weights += kLanes<T>;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sum[i] = multiply_add<T>(weight, load(from + offset + i * kLanes<T>), sum[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) store(to + i * to_step, sum[i]);
}

/// A phase of the result on turned images.
template <class T>
struct TurnedPhase {
  Phase phase;
  std::vector<std::int64_t> offsets;  ///< of its taps in a turned frame
  std::int64_t weights, frame;        ///< starts among a block's packed weights, in the frames

  void run(const T* frame_lanes, const T* packed, const Sizes& size, T* result) const {
    const std::int64_t across = phase.count[2], to_step = phase.step[2] * kLanes<T>;
    for (std::int64_t d = 0; d < phase.count[0]; ++d)
      for (std::int64_t h = 0; h < phase.count[1]; ++h) {
        const T* from = frame_lanes + phase.pixel_offset(d, h) * kLanes<T>;
        const std::int64_t depth = phase.first[0] + d * phase.step[0], line = phase.first[1] + h * phase.step[1];
        T* to = result + ((depth * size[1] + line) * size[2] + phase.first[2]) * kLanes<T>;
        std::int64_t w = 0;
        const auto sum = [&]<int kCount>(std::integral_constant<int, kCount>) {
          for (; w + kCount <= across; w += kCount)
            sum_taps<T, kCount>(from + w * kLanes<T>, offsets, packed, to + w * to_step, to_step);
        };
        sum(std::integral_constant<int, kPixels>{});
        sum(std::integral_constant<int, 4>{});
        sum(std::integral_constant<int, 1>{});
      }
  }
};

template <class T>
class DepthwiseConv {
 public:
  DepthwiseConv(const Conv& conv, const ConvShape& shape, const Strided<T>& source, const Strided<T>& weight)
      : s_(shape), source_(source), weight_(weight), forward_(conv.role == ConvRole::output) {
    source_size_ = forward_ ? s_.in : s_.out;
    result_size_ = forward_ ? s_.out : s_.in;
    for_each_phase(forward_, s_, weight_.axis, [this](Phase phase) { add_phase(std::move(phase)); });
  }

  void run(const HeadSink& sink, ThreadPool& pool) const {
    const std::int64_t blocks = ceil_div(s_.groups, kLanes<T>), units = s_.batch * blocks;
    const std::int64_t pixels = area(result_size_), parts = std::min(units, kParts);
    Scratch<T> packed(blocks * weights_);
    for (std::int64_t block = 0; block < blocks; ++block) pack_weights(block, packed.data() + block * weights_);
    pool.parallel_for(parts, [&](std::int64_t part) {
      Scratch<T> turned(area(source_size_) * kLanes<T>), frames(frames_), result(pixels * kLanes<T>);
      std::fill_n(frames.data(), frames_, T{});
      std::fill_n(result.data(), pixels * kLanes<T>, T{});  // pixels that no tap reaches stay so
      Pieces pieces(sink);
      for (std::int64_t unit = cut(units, parts, part); unit < cut(units, parts, part + 1); ++unit) {
        const std::int64_t image = unit / blocks, block = unit % blocks, channel = block * kLanes<T>;
        const std::int64_t channels = std::min<std::int64_t>(kLanes<T>, s_.groups - channel);
        turn_image(source_, image, channel, channels, source_size_, turned.data());
        for (const TurnedPhase<T>& phase : phases_) {
          if (phase.offsets.empty()) continue;
          frame_image(phase.phase.frame, turned.data(), source_size_, frames.data() + phase.frame);
          phase.run(frames.data() + phase.frame, packed.data() + block * weights_ + phase.weights, result_size_,
                    result.data());
        }
        const std::int64_t first = (image * s_.groups + channel) * pixels;
        transpose(result.data(), std::int64_t{kLanes<T>}, pixels, channels, reinterpret_cast<T*>(sink.result) + first,
                  pixels);
        pieces.add(first, channels * pixels);
      }
      pieces.flush();
    });
  }

 private:
  void add_phase(Phase phase) {
    TurnedPhase<T> turned{{}, {}, weights_, frames_};
    for (const Tap& tap : phase.taps) turned.offsets.push_back(tap.frame * kLanes<T>);
    weights_ += std::ssize(phase.taps) * kLanes<T>;
    if (!phase.taps.empty()) frames_ += phase.frame.channel() * kLanes<T>;
    turned.phase = std::move(phase);
    phases_.push_back(std::move(turned));
  }

  /// [phase][tap][lane]
  void pack_weights(std::int64_t block, T* to) const {
    for (const TurnedPhase<T>& phase : phases_)
      for (const Tap& tap : phase.phase.taps)
        for (std::int64_t lane = 0; lane < kLanes<T>; ++lane) {
          const std::int64_t channel = block * kLanes<T> + lane;
          *to++ = channel < s_.groups ? weight_.data[channel * weight_.outer + tap.weight] : T{};
        }
  }

  const ConvShape& s_;
  const ImageView<T> source_, weight_;
  const bool forward_;
  Sizes source_size_, result_size_;
  std::vector<TurnedPhase<T>> phases_;
  std::int64_t weights_ = 0, frames_ = 0;
};

/// sums[tap] += the products of a line of turned dy and of what kTaps taps meet in a turned frame.
template <class T, int kTaps>
void add_products(const T* dy, std::int64_t count, const T* frame, const std::int64_t* offsets, T* sums) {
  Vector<T> sum[kTaps];
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) sum[t] = load(sums + t * kLanes<T>);
  for (std::int64_t i = 0; i < count; ++i, dy += kLanes<T>, frame += kLanes<T>) {
    const Vector<T> grad = load(dy);
#pragma GCC unroll 9
    for (int t = 0; t < kTaps; ++t) sum[t] = multiply_add<T>(grad, load(frame + offsets[t]), sum[t]);
  }
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) store(sums + t * kLanes<T>, sum[t]);
}

template <class T>
class DepthwiseFilter {
 public:
  DepthwiseFilter(const ConvShape& shape, const Strided<T>& dy, const Strided<T>& x)
      : s_(shape), dy_(dy), x_(x), phase_(output_phase(shape, {0, 0, 0})) {
    for (const Tap& tap : phase_.taps) offsets_.push_back(tap.frame * kLanes<T>);
  }

  void run(const HeadSink& sink, ThreadPool& pool) const {
    const std::int64_t blocks = ceil_div(s_.groups, kLanes<T>), taps = s_.taps(), size = taps * kLanes<T>;
    const std::int64_t images = std::clamp<std::int64_t>(kUnits / blocks, 1, s_.batch);
    Scratch<T> partial(images * blocks * size);
    pool.parallel_for(images * blocks, [&](std::int64_t part) {
      const std::int64_t block = part % blocks, image = part / blocks;
      sum_images(block, cut(s_.batch, images, image), cut(s_.batch, images, image + 1), partial.data() + part * size);
    });
    T* const result = reinterpret_cast<T*>(sink.result);
    for (std::int64_t channel = 0; channel < s_.groups; ++channel)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const T* from = partial.data() + channel / kLanes<T> * size + tap * kLanes<T> + channel % kLanes<T>;
        T sum = *from;
        for (std::int64_t image = 1; image < images; ++image) sum += from[image * blocks * size];
        result[channel * taps + tap] = sum;
      }
    finish_all(sink, s_.groups * taps, pool);
  }

 private:
  /// sums: [tap][lane]
  void sum_images(std::int64_t block, std::int64_t n0, std::int64_t n1, T* sums) const {
    const std::int64_t channel = block * kLanes<T>, channels = std::min<std::int64_t>(kLanes<T>, s_.groups - channel);
    const std::int64_t frame_size = phase_.frame.channel() * kLanes<T>;
    Scratch<T> turned(area(s_.in) * kLanes<T>), frame(frame_size), dy(area(s_.out) * kLanes<T>);
    std::fill_n(frame.data(), frame_size, T{});
    std::fill_n(sums, s_.taps() * kLanes<T>, T{});
    for (std::int64_t n = n0; n < n1; ++n) {
      turn_image(x_, n, channel, channels, s_.in, turned.data());
      frame_image(phase_.frame, turned.data(), s_.in, frame.data());
      turn_image(dy_, n, channel, channels, s_.out, dy.data());
      const T* line = dy.data();
      for (std::int64_t d = 0; d < s_.out[0]; ++d)
        for (std::int64_t h = 0; h < s_.out[1]; ++h, line += s_.out[2] * kLanes<T>)
          add_line(line, frame.data() + phase_.pixel_offset(d, h) * kLanes<T>, sums);
    }
  }

  void add_line(const T* dy, const T* frame, T* sums) const {
    const std::int64_t taps = s_.taps();
    std::int64_t t = 0;
    const auto add = [&]<int kTaps>(std::integral_constant<int, kTaps>) {
      for (; t + kTaps <= taps; t += kTaps)
        add_products<T, kTaps>(dy, s_.out[2], frame, offsets_.data() + t, sums + t * kLanes<T>);
    };
    add(std::integral_constant<int, 9>{});
    add(std::integral_constant<int, 3>{});
    add(std::integral_constant<int, 1>{});
  }

  const ConvShape& s_;
  const ImageView<T> dy_, x_;
  const Phase phase_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace

template <class T>
bool channels_as_lanes(const Conv& conv, const ConvShape& s) {
  if (s.channels != 1 || s.filters != 1 || s.groups < kLanes<T> / 2) return false;
  if (std::max(area(s.in), frame_of_windows(s).channel()) > kMostPixels) return false;
  // Turning images costs as much as the lanes that rows waste; a filter's gradient reads both and turns nothing back.
  if (conv.role == ConvRole::filter_grad) return s.out[2] <= 2 * kLanes<T>;
  return (conv.role == ConvRole::output ? s.out : s.in)[2] < kLanes<T>;
}

template <class T>
void run_depthwise(const Conv& conv, const ConvShape& shape, const Strided<T>& source, const Strided<T>& weight,
                   const HeadSink& sink, ThreadPool& pool) {
  DepthwiseConv<T>(conv, shape, source, weight).run(sink, pool);
}

template <class T>
void run_depthwise_filter(const ConvShape& shape, const Strided<T>& dy, const Strided<T>& x, const HeadSink& sink,
                          ThreadPool& pool) {
  DepthwiseFilter<T>(shape, dy, x).run(sink, pool);
}

#define NIXIE_INSTANTIATE(T)                                                                                           \
  template bool channels_as_lanes<T>(const Conv&, const ConvShape&);                                                   \
  template void run_depthwise<T>(const Conv&, const ConvShape&, const Strided<T>&, const Strided<T>&, const HeadSink&, \
                                 ThreadPool&);                                                                         \
  template void run_depthwise_filter<T>(const ConvShape&, const Strided<T>&, const Strided<T>&, const HeadSink&,       \
                                        ThreadPool&);
NIXIE_INSTANTIATE(float)
NIXIE_INSTANTIATE(double)
NIXIE_INSTANTIATE(Bits)
#undef NIXIE_INSTANTIATE

}  // namespace nixie::cpu
