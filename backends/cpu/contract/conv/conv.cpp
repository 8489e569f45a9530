// Convolution's output and input_grad, image by image over its frame (a padded copy). With enough filters, filters are
// the lanes, and pixels are broadcast from the frame. Otherwise pixels are the lanes: packed panel by panel or, if too
// few filters would use a packed panel, read from the frame in place.
#include "nixie/backends/cpu/contract/conv/depthwise.h"
#include "nixie/backends/cpu/contract/conv/seen_pixels.h"
#include "nixie/backends/cpu/contract/conv/sweep.h"
#include "nixie/backends/cpu/contract/winograd/winograd.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kUnits = 16;    // parts wanted where there are few images
constexpr std::int64_t kLineRows = 2;  // filters that do not repay a packed panel

/// The output and input_grad roles alike: `rows` channels of the result are sums over (channels, taps) of the source.
/// Rows come in blocks: tiles where pixels are lanes, panels where filters are.
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
    dense_ = source_.is_dense(s_.groups * channels_, source_size_);
    area_ = result_size_[0] * result_size_[1] * result_size_[2];
    vectors_ = ceil_div(rows_, kLanes<T>);
    lines_ = rows_ <= kLineRows;
    filter_lanes_ = !lines_ && filters_as_lanes();
    streams_ = !sink.finished && s_.batch * s_.groups * rows_ * area_ * std::int64_t{sizeof(T)} > kStreamedBytes;
    blocks_ = filter_lanes_ ? ceil_div(vectors_, kTileVectors) : ceil_div(rows_, kTileRows);
  }

  void run() {
    build_sweeps();
    Scratch<T> packed(packed_size_ * s_.groups);
    pack_weights(packed.data());
    const std::int64_t images = s_.batch * s_.groups;
    const std::int64_t splits = std::clamp<std::int64_t>(kUnits / images, 1, blocks_);
    const std::int64_t units = images * splits, parts = std::min<std::int64_t>(units, 8 * kUnits);
    pool_.parallel_for(parts, [&](std::int64_t part) {
      Pieces pieces(sink_);
      const T* last = image_of((cut(units, parts, part + 1) - 1) / splits);
      const bool copies = !std::all_of(sweeps_.begin(), sweeps_.end(),
                                       [&](const Sweep<T>& sweep) { return reads_in_place(sweep, last); });
      // Each phase has a frame of its own, so that padding stays zero from image to image.
      Scratch<T> frames(copies ? frames_size_ : 0);
      if (copies) std::fill_n(frames.data(), frames_size_ + kLanes<T>, T{});
      for (std::int64_t unit = cut(units, parts, part); unit < cut(units, parts, part + 1); ++unit) {
        const std::int64_t image = unit / splits, split = unit % splits;
        const std::int64_t first = cut(blocks_, splits, split), last = cut(blocks_, splits, split + 1);
        run_image(image / s_.groups, image % s_.groups, first, last, packed.data(), frames.data());
        pieces.add((image * rows_ + first_row(first)) * area_, rows_of(first, last) * area_);
      }
      pieces.flush();
      if (streams_) end_streams();
    });
  }

 private:
  /// Weighs cycles per vector of the result: multiply-adds at half a cycle each and what surrounds them.
  bool filters_as_lanes() const {
    constexpr double kPack = 6, kTurn = 24;  // to pack a vector of pixels; to sum aside and transpose a vector
    const auto whole = [](std::int64_t count) { return static_cast<double>(ceil_div(count, kLanes<T>) * kLanes<T>); };
    std::int64_t pixels = area_;  // of a phase
    double taps = static_cast<double>(s_.taps());
    for (std::size_t a = 0; a < 3 && !forward_; ++a) {
      pixels = pixels / s_.in[a] * ceil_div(s_.in[a], s_.stride[a]);
      taps /= static_cast<double>(std::min(s_.stride[a], s_.window[a]));
    }
    const double rows = static_cast<double>(rows_), area = static_cast<double>(pixels);
    const double depth = static_cast<double>(channels_) * taps;
    return whole(rows_) / rows * (0.5 * depth + kTurn) <= whole(pixels) / area * depth * (0.5 + kPack / rows);
  }

  /// The first row of a block among the packed rows, those that only fill a vector included.
  std::int64_t packed_row(std::int64_t block) const {
    return filter_lanes_ ? cut(vectors_, blocks_, block) * kLanes<T> : cut(rows_, blocks_, block);
  }
  std::int64_t first_row(std::int64_t block) const { return std::min(rows_, packed_row(block)); }
  std::int64_t rows_of(std::int64_t first, std::int64_t last) const { return first_row(last) - first_row(first); }

  void build_sweeps() {
    for_each_phase(forward_, s_, weight_.axis, [this](Phase phase) { add_sweep(std::move(phase)); });
  }

  void add_sweep(Phase phase) {
    Sweep<T> sweep;
    sweep.weights = packed_size_;
    sweep.in_place = dense_ && phase.frame.is_image(source_size_);
    sweep.frame = frames_size_;
    if (!sweep.in_place || !filter_lanes_) frames_size_ += phase.frame.channel() * channels_;
    for (std::int64_t c = 0; c < channels_; ++c)
      for (const Tap& tap : phase.taps) sweep.offsets.push_back(c * phase.frame.channel() + tap.frame);
    if (!filter_lanes_ && !lines_) sweep.vectors = pixel_vectors<T>(phase);
    if (filter_lanes_)
      for_each_in(phase.count, [&](std::int64_t d, std::int64_t h, std::int64_t w) {
        sweep.pixels.push_back(phase.pixel_offset(d, h) + w);
      });
    sweep.phase = std::move(phase);
    packed_size_ += packed_row(blocks_) * sweep.depth();
    sweeps_.push_back(std::move(sweep));
  }

  /// [group][sweep][block][depth][rows of the block]
  void pack_weights(T* packed) const {
    pool_.parallel_for(s_.groups * blocks_, [&](std::int64_t part) {
      const std::int64_t group = part / blocks_, block = part % blocks_;
      const std::int64_t rows = rows_of(block, block + 1), width = packed_row(block + 1) - packed_row(block);
      const std::int64_t row_stride = forward_ ? weight_.outer : weight_.inner;
      const std::int64_t channel_stride = forward_ ? weight_.inner : weight_.outer;
      const T* from = weight_.data + group * s_.filters * weight_.outer + first_row(block) * row_stride;
      for (const Sweep<T>& sweep : sweeps_) {
        T* to = packed + group * packed_size_ + sweep.weights + packed_row(block) * sweep.depth();
        const bool in_order = forward_ && channel_stride == s_.taps() && weight_.axis[2] == 1 &&
                              weight_.axis[1] == s_.window[2] && weight_.axis[0] == s_.window[1] * s_.window[2];
        if (in_order) {
          pack_lanes(from, row_stride, std::int64_t{1}, rows, width, sweep.depth(), to);
          continue;
        }
        if (row_stride == 1 && sweep.phase.taps.size() == 1) {
          pack_lanes(from + sweep.phase.taps[0].weight, row_stride, channel_stride, rows, width, channels_, to);
          continue;
        }
        for (std::int64_t c = 0; c < channels_; ++c) {
          prefetch_rows(from + c * channel_stride, channel_stride, row_stride, rows);
          for (const Tap& tap : sweep.phase.taps) {
            for (std::int64_t r = 0; r < rows; ++r) to[r] = from[r * row_stride + c * channel_stride + tap.weight];
            std::fill(to + rows, to + width, T{});
            to += width;
          }
        }
      }
    });
  }

  const T* image_of(std::int64_t image) const {
    return source_.data + image / s_.groups * source_.outer + image % s_.groups * channels_ * source_.inner;
  }

  void run_image(std::int64_t n, std::int64_t group, std::int64_t first, std::int64_t last, const T* packed,
                 T* frames) const {
    const T* image = image_of(n * s_.groups + group);
    T* const rows = reinterpret_cast<T*>(sink_.result) + ((n * s_.groups + group) * rows_ + first_row(first)) * area_;
    // Rows that are written bit by bit are streamed when they are whole.
    const std::int64_t size = rows_of(first, last) * area_;
    const bool aside = streams_ && (lines_ || sweeps_.size() > 1) && size <= kBlockSums;
    Scratch<T> whole(aside ? size : 0);
    T* const result = aside ? whole.data() : rows;
    for (std::size_t i = 0, end = 0; i < sweeps_.size(); i = end) {
      const auto shares_lines = [&](const Sweep<T>& sweep) { return sweep.phase.shares_lines(sweeps_[i].phase); };
      while (end < sweeps_.size() && shares_lines(sweeps_[end])) ++end;
      run_lines({sweeps_.data() + i, end - i}, image, group, first, last, packed, frames, result);
    }
    if (aside) stream_row(result, size, rows);
  }

  /// Phases that share the lines of a result.
  void run_lines(std::span<const Sweep<T>> sweeps, const T* image, std::int64_t group, std::int64_t first,
                 std::int64_t last, const T* packed, T* frames, T* result) const {
    const std::int64_t rows = rows_of(first, last), lines = rows * sweeps[0].phase.count[0] * sweeps[0].phase.count[1];
    const bool direct = sweeps[0].phase.pixels() == area_ && sweeps[0].depth() > 0;
    Scratch<T> pixels(direct ? 0 : lines * result_size_[2]);
    std::vector<const T*> columns(static_cast<std::size_t>(sweeps[0].phase.step[2]), nullptr);
    T* to = direct ? result : pixels.data();
    for (const Sweep<T>& sweep : sweeps) {
      if (sweep.depth() == 0) continue;
      const T* frame = image;
      if (!reads_in_place(sweep, image)) {
        T* own = frames + sweep.frame;
        fill_frame(sweep.phase.frame, image, source_.inner, source_.axis, source_size_, channels_, own);
        frame = own;
      }
      run_frame(sweep, first, last, packed + group * packed_size_ + sweep.weights, frame, image,
                PixelRows<T>{to, sweep.phase.pixels(), direct && streams_});
      columns[static_cast<std::size_t>(sweep.phase.first[2])] = to;
      to += rows * sweep.phase.pixels();
    }
    if (!direct) deal_lines(sweeps[0].phase, columns, rows, result_size_, result);
  }

  /// Vectors of pixels may reach behind the image, which only the next one makes harmless.
  bool reads_in_place(const Sweep<T>& sweep, const T* image) const {
    const T* end = source_.data + s_.batch * source_.outer;
    return sweep.in_place && (filter_lanes_ || image + channels_ * source_.inner + kLanes<T> <= end);
  }

  /// out[row][pixel] for the rows of blocks [first, last).
  void run_frame(const Sweep<T>& sweep, std::int64_t first, std::int64_t last, const T* weights, const T* frame,
                 const T* image, const PixelRows<T>& to) const {
    const bool in_place = frame == image;
    if (filter_lanes_) {
      for (std::int64_t b = first; b < last; ++b)
        sweep_filter_lanes(sweep, packed_row(b + 1) - packed_row(b), rows_of(b, b + 1),
                           weights + packed_row(b) * sweep.depth(), frame, to.out + rows_of(first, b) * to.step,
                           to.step);
      return;
    }
    if (lines_) {
      const std::int64_t size = channels_ * source_.inner;
      const bool asks = dense_ && &sweep == sweeps_.data();
      return sweep_frame_lines(sweep, rows_of(first, last), weights, frame, image + size, asks ? size : 0, to.out);
    }
    std::vector<std::int64_t> block_rows;
    for (std::int64_t b = first; b < last; ++b) block_rows.push_back(rows_of(b, b + 1));
    const bool in_runs =
        in_place && sweep.phase.pixels() == sweep.phase.frame.channel();  // no window passes a row's end
    const T* next = in_runs ? frame + channels_ * source_.inner : nullptr;
    sweep_pixel_lanes(sweep, block_rows, weights + packed_row(first) * sweep.depth(), frame, next, to);
  }

  const ConvShape& s_;
  const ImageView<T> source_, weight_;
  const HeadSink& sink_;
  ThreadPool& pool_;
  bool forward_, dense_, lines_, filter_lanes_, streams_;
  std::int64_t rows_, channels_, area_, vectors_, blocks_, packed_size_ = 0, frames_size_ = 0;
  Sizes source_size_, result_size_;
  std::vector<Sweep<T>> sweeps_;
};

}  // namespace

template <class T>
void run_conv(const Conv& conv, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool) {
  const bool filters = conv.role == ConvRole::filter_grad;
  if (conv.role != ConvRole::input_grad && passes_pixels_over(conv, filters ? domain : operands[1].shape))
    return over_seen_pixels<T>(
        conv, operands, filters ? 1 : 0, filters ? operands[0].shape : domain, pool,
        [&](const Conv& plain, const auto& seen) { run_conv<T>(plain, seen, domain, sink, pool); });
  if (filters) return run_filter_grad<T>(conv, operands, domain, sink, pool);
  const Strided<T> source(operands[0], pool), weight(operands[1], pool);
  const bool forward = conv.role == ConvRole::output;
  const ConvShape shape(conv, forward ? source.shape() : domain, weight.shape(), forward ? domain : source.shape());
  if (channels_as_lanes<T>(conv, shape)) return run_depthwise<T>(conv, shape, source, weight, sink, pool);
  if constexpr (std::is_same_v<T, float>)
    if (allows_winograd(conv, operands[0].dtype) && winograd_pays(conv, shape))
      return run_winograd(conv, shape, source, weight, sink, pool);
  DataConv<T>(conv, shape, source, weight, sink, pool).run();
}

template void run_conv<float>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_conv<double>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_conv<Bits>(const Conv&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);

}  // namespace nixie::cpu
