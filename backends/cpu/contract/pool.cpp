// Pooling: each row of the output meets each position of its window in turn, so the lanes of a row work side by side.
#include <array>
#include <vector>

#include "nixie/backends/cpu/contract/operand.h"

namespace nixie::cpu {
namespace {

constexpr int kAxes = 4;  // channels, depth, height, width: pooled axes, those absent of size 1
using Extents = std::array<std::int64_t, kAxes>;
struct Range {
  std::int64_t low, high;
};

/// Windows over the four axes of each image.
struct Windows {
  std::int64_t batch;
  Extents in, out, window, stride, pad;
  std::int64_t window_size() const { return window[0] * window[1] * window[2] * window[3]; }
  std::int64_t out_size() const { return out[0] * out[1] * out[2] * out[3]; }
  /// Where the window of output `o` begins.
  std::int64_t start(int axis, std::int64_t o) const {
    const auto a = static_cast<std::size_t>(axis);
    return o * stride[a] - pad[a];
  }
  /// Positions of the window of output `o` that lie inside the input.
  Range inside(int axis, std::int64_t o) const {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t begin = start(axis, o);
    return {std::max<std::int64_t>(0, -begin), std::min(window[a], in[a] - begin)};
  }
  /// Columns of the output whose window's column `i` lies inside the input.
  Range columns(std::int64_t i) const {
    const std::int64_t low = std::max<std::int64_t>(0, pad[3] - i), high = in[3] - 1 + pad[3] - i;
    return {ceil_div(low, stride[3]), high < 0 ? 0 : std::min(out[3], high / stride[3] + 1)};
  }
};

Extents four_axes(const Shape& shape, std::int64_t batch_axes) {
  Extents extents{1, 1, 1, 1};
  const int spatial = shape.rank() - static_cast<int>(batch_axes) - 1;
  extents[0] = shape[static_cast<int>(batch_axes)];
  for (int i = 0; i < spatial; ++i) extents[static_cast<std::size_t>(kAxes - spatial + i)] = shape[2 + i];
  return extents;
}

/// A per-axis option of the op (channels, then spatial) on the four axes.
Extents four_options(const std::vector<int>& values, std::int64_t absent) {
  Extents extents{values[0], absent, absent, absent};
  const std::size_t spatial = values.size() - 1;
  for (std::size_t i = 0; i < spatial; ++i) extents[kAxes - spatial + i] = values[1 + i];
  return extents;
}

Windows windows_of(const Pool& op, const Shape& in, const Shape& out) {
  return {in[0],
          four_axes(in, 1),
          four_axes(out, 1),
          four_options(op.window, 1),
          four_options(op.stride, 1),
          four_options(op.pad, 0)};
}

/// An operand's strides on the batch and the four axes.
template <class T>
struct View {
  explicit View(const Strided<T>& operand) : data(operand.data()), batch(operand.stride(0)), axis{} {
    const int spatial = operand.shape().rank() - 2;
    axis[0] = operand.stride(1);
    for (int i = 0; i < spatial; ++i) axis[static_cast<std::size_t>(kAxes - spatial + i)] = operand.stride(2 + i);
  }
  /// The first element of a row along the width.
  const T* row(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h) const {
    return data + n * batch + c * axis[0] + d * axis[1] + h * axis[2];
  }
  const T* data;
  std::int64_t batch;
  Extents axis;
};

/// One output row: image, channel, depth and height.
struct Row {
  std::int64_t n, c, d, h;
};

/// Calls `visit(row, flat)` for the output rows of units [first, last), a unit being the planes of one channel.
template <class Visit>
void for_each_row(const Windows& w, std::int64_t first, std::int64_t last, const Visit& visit) {
  for (std::int64_t unit = first; unit < last; ++unit)
    for (std::int64_t d = 0; d < w.out[1]; ++d)
      for (std::int64_t h = 0; h < w.out[2]; ++h)
        visit(Row{unit / w.out[0], unit % w.out[0], d, h}, ((unit * w.out[1] + d) * w.out[2] + h) * w.out[3]);
}

/// Calls `visit(c, d, h, position)` for the input rows under an output row's window, with the window position of their
/// first column.
template <class Visit>
void for_each_input_row(const Windows& w, const Row& row, const Visit& visit) {
  const Range channels = w.inside(0, row.c), depths = w.inside(1, row.d), heights = w.inside(2, row.h);
  for (std::int64_t c = channels.low; c < channels.high; ++c)
    for (std::int64_t d = depths.low; d < depths.high; ++d)
      for (std::int64_t h = heights.low; h < heights.high; ++h)
        visit(w.start(0, row.c) + c, w.start(1, row.d) + d, w.start(2, row.h) + h,
              ((c * w.window[1] + d) * w.window[2] + h) * w.window[3]);
}

/// Runs `function(std::integral_constant or std::int64_t step)`: steps of 1 and 2 are worth their own loops.
template <class Function>
void with_step(std::int64_t step, const Function& function) {
  if (step == 1) return function(std::integral_constant<std::int64_t, 1>{});
  if (step == 2) return function(std::integral_constant<std::int64_t, 2>{});
  function(step);
}

template <class T>
T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

/// One window position of a row of maxima: NaN wins, and among equals the first.
template <bool kIndex, class T, class Step>
void meet(const T* x, Step step, std::int64_t count, std::int32_t position, T* best, std::int32_t* index) {
  for (std::int64_t q = 0; q < count; ++q) {
    const T value = x[q * step], old = best[q];
    const bool wins = !(value <= old) & (old == old);
    best[q] = wins ? value : old;
    if constexpr (kIndex) index[q] = wins ? position : index[q];
  }
}

template <bool kIndex, class T>
void max_row(const Windows& w, const View<T>& x, const Row& row, T* best, std::int32_t* index) {
  std::fill(best, best + w.out[3], lowest<T>());
  if constexpr (kIndex) std::fill(index, index + w.out[3], 0);
  bool first = true;
  for_each_input_row(w, row, [&](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t position) {
    if constexpr (kIndex) {
      // All of a window may be -infinity: its first position inside the input is the maximum's.
      for (std::int64_t q = 0; first && q < w.out[3]; ++q) {
        const Range inside = w.inside(3, q);
        if (inside.low < inside.high) index[q] = static_cast<std::int32_t>(position + inside.low);
      }
      first = false;
    }
    const T* from = x.row(row.n, c, d, h);
    for (std::int64_t i = 0; i < w.window[3]; ++i) {
      const Range columns = w.columns(i);
      if (columns.low >= columns.high) continue;
      with_step(w.stride[3] * x.axis[3], [&](auto step) {
        meet<kIndex>(from + w.start(3, columns.low) * x.axis[3] + i * x.axis[3], step, columns.high - columns.low,
                     static_cast<std::int32_t>(position + i), best + columns.low, kIndex ? index + columns.low : index);
      });
    }
  });
}

/// 1 / (positions averaged) for each column of an output row.
template <class T>
void fill_scale(const Windows& w, const Row& row, bool count_pad, std::vector<T>& scale) {
  std::int64_t rows = 0;
  for_each_input_row(w, row, [&](auto...) { ++rows; });
  for (std::int64_t q = 0; q < w.out[3]; ++q) {
    const Range inside = w.inside(3, q);
    const std::int64_t count = count_pad ? w.window_size() : rows * std::max<std::int64_t>(0, inside.high - inside.low);
    scale[static_cast<std::size_t>(q)] = static_cast<T>(std::max<std::int64_t>(1, count));
  }
}

template <class T>
void average_row(const Windows& w, const View<T>& x, const Row& row, const std::vector<T>& scale, T* out) {
  std::fill(out, out + w.out[3], T{});
  for_each_input_row(w, row, [&](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t) {
    const T* from = x.row(row.n, c, d, h);
    for (std::int64_t i = 0; i < w.window[3]; ++i) {
      const auto [low, high] = w.columns(i);
      const T* first = from + (w.start(3, low) + i) * x.axis[3];
      with_step(w.stride[3] * x.axis[3], [&, low = low, high = high](auto step) {
        for (std::int64_t q = low; q < high; ++q) out[q] += first[(q - low) * step];
      });
    }
  });
  for (std::int64_t q = 0; q < w.out[3]; ++q) out[q] /= scale[static_cast<std::size_t>(q)];
}

/// Spreads a row of dy over the dense image dx it was averaged from.
template <class T>
void spread_row(const Windows& w, const View<T>& dy, const Row& row, const std::vector<T>& scale, T* dx) {
  const T* from = dy.row(row.n, row.c, row.d, row.h);
  for_each_input_row(w, row, [&](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t) {
    T* to = dx + ((c * w.in[1] + d) * w.in[2] + h) * w.in[3];
    for (std::int64_t i = 0; i < w.window[3]; ++i) {
      const auto [low, high] = w.columns(i);
      for (std::int64_t q = low; q < high; ++q)
        to[w.start(3, q) + i] += from[q * dy.axis[3]] / scale[static_cast<std::size_t>(q)];
    }
  });
}

/// The rows of an index operand, u8 or i32 as they lie.
class Indices {
 public:
  Indices(const BoundOperand& operand, ThreadPool& pool) {
    if (operand.dtype == Dtype::u8) {
      narrow_.emplace(operand, pool);
      narrow_view_.emplace(*narrow_);
    } else {
      wide_.emplace(operand, pool);
      wide_view_.emplace(*wide_);
    }
  }
  /// One output row, widened into `to`.
  void read(const Row& row, std::vector<std::int32_t>& to) const {
    if (narrow_view_)
      read(*narrow_view_, row, to);
    else
      read(*wide_view_, row, to);
  }

 private:
  template <class T>
  static void read(const View<T>& view, const Row& row, std::vector<std::int32_t>& to) {
    const T* from = view.row(row.n, row.c, row.d, row.h);
    const std::int64_t count = static_cast<std::int64_t>(to.size()), step = view.axis[3];
    std::int32_t* const out = to.data();
    if (step == 1)
      for (std::int64_t q = 0; q < count; ++q) out[q] = from[q];
    else
      for (std::int64_t q = 0; q < count; ++q) out[q] = from[q * step];
  }
  std::optional<Strided<std::uint8_t>> narrow_;
  std::optional<Strided<std::int32_t>> wide_;
  std::optional<View<std::uint8_t>> narrow_view_;
  std::optional<View<std::int32_t>> wide_view_;
};

/// Where the maximum an index names lies: an offset from the image, or none when it names padding.
class Maxima {
 public:
  Maxima(const Windows& windows, const Extents& strides) : w_(windows), strides_(strides) {
    for (std::int64_t p = 0; p < w_.window_size(); ++p) {
      Extents at{};
      std::int64_t rest = p;
      for (std::size_t a = kAxes; a-- > 0; rest /= w_.window[a]) at[a] = rest % w_.window[a];
      places_.push_back(at);
      offsets_.push_back(at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]);
    }
    // Windows of columns [first_, last_) need no look at the image's edges.
    first_ = ceil_div(w_.pad[3], w_.stride[3]);
    const std::int64_t room = w_.in[3] + w_.pad[3] - w_.window[3];
    last_ = room < 0 ? 0 : std::min(w_.out[3], room / w_.stride[3] + 1);
  }
  /// Calls `visit(q, offset)` for the columns of a row of indices that name a place inside the input.
  template <class Visit>
  void for_each(const Row& row, const std::int32_t* index, const Visit& visit) const {
    const Extents begin{w_.start(0, row.c), w_.start(1, row.d), w_.start(2, row.h), w_.start(3, 0)};
    bool rows_inside = true;
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < kAxes; ++a) {
      rows_inside &= a == 3 || (begin[a] >= 0 && begin[a] + w_.window[a] <= w_.in[a]);
      offset += begin[a] * strides_[a];
    }
    const std::int64_t first = rows_inside ? std::min(first_, w_.out[3]) : w_.out[3];
    const std::int64_t last = std::max(first, last_);
    const std::int64_t step = w_.stride[3] * strides_[3], count = w_.window_size();
    const std::int64_t* const offsets = offsets_.data();
    for (std::int64_t q = 0; q < first; ++q) look(begin, index[q], q, visit);
    for (std::int64_t q = first; q < last; ++q)
      if (index[q] >= 0 && index[q] < count) visit(q, offset + q * step + offsets[index[q]]);
    for (std::int64_t q = last; q < w_.out[3]; ++q) look(begin, index[q], q, visit);
  }

 private:
  template <class Visit>
  void look(const Extents& begin, std::int32_t index, std::int64_t q, const Visit& visit) const {
    if (index < 0 || index >= static_cast<std::int64_t>(places_.size())) return;
    const Extents& place = places_[static_cast<std::size_t>(index)];
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < kAxes; ++a) {
      const std::int64_t at = begin[a] + (a == 3 ? q * w_.stride[3] : 0) + place[a];
      if (at < 0 || at >= w_.in[a]) return;
      offset += at * strides_[a];
    }
    visit(q, offset);
  }

  const Windows& w_;
  const Extents strides_;
  std::vector<Extents> places_;
  std::vector<std::int64_t> offsets_;
  std::int64_t first_, last_;
};

/// Runs `unit(first, last)` over units of output, cut by their work, and tells the sink `unit_size` elements for each.
template <class Units>
void for_each_units(const HeadSink& sink, ThreadPool& pool, std::int64_t units, std::int64_t unit_size,
                    std::int64_t unit_work, const Units& run) {
  const std::int64_t parts = std::clamp<std::int64_t>(units * unit_work / 32768, 1, std::min<std::int64_t>(units, 64));
  pool.parallel_for(parts, [&](std::int64_t part) {
    Pieces pieces(sink);
    for (std::int64_t unit = cut(units, parts, part); unit < cut(units, parts, part + 1); ++unit) {
      run(unit, unit + 1);
      pieces.add(unit * unit_size, unit_size);
    }
    pieces.flush();
  });
}

template <class T>
void run_max_or_average(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain,
                        const HeadSink& sink, ThreadPool& pool) {
  const Strided<T> x(operands[0], pool);
  const View<T> view(x);
  const Windows w = windows_of(op, x.shape(), domain);
  const std::int64_t unit = w.out_size() / w.out[0];
  for_each_units(sink, pool, w.batch * w.out[0], unit, unit * w.window_size(), [&](std::int64_t from, std::int64_t to) {
    std::vector<T> scratch(static_cast<std::size_t>(w.out[3]));
    for_each_row(w, from, to, [&](const Row& row, std::int64_t flat) {
      if (op.role == PoolRole::index) {
        max_row<true>(w, view, row, scratch.data(), reinterpret_cast<std::int32_t*>(sink.result) + flat);
      } else if (op.kind == PoolKind::max) {
        max_row<false>(w, view, row, reinterpret_cast<T*>(sink.result) + flat, nullptr);
      } else {
        fill_scale(w, row, op.count_pad, scratch);
        average_row(w, view, row, scratch, reinterpret_cast<T*>(sink.result) + flat);
      }
    });
  });
}

template <class T>
void run_input_grad(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                    ThreadPool& pool) {
  const Strided<T> dy(operands[0], pool);
  const View<T> view(dy);
  const Windows w = windows_of(op, domain, dy.shape());
  std::optional<Indices> index;
  if (op.kind == PoolKind::max) index.emplace(operands[1], pool);
  const std::int64_t area = w.in[1] * w.in[2] * w.in[3];
  const Maxima maxima(w, {area, w.in[2] * w.in[3], w.in[3], 1});
  // Windows over channels share inputs between channels: then an image is what one worker sums alone.
  const bool per_channel = w.window[0] == 1 && w.stride[0] == 1 && w.pad[0] == 0;
  const std::int64_t channels = per_channel ? 1 : w.in[0], out_channels = per_channel ? 1 : w.out[0];
  const std::int64_t units = w.batch * w.in[0] / channels, unit = channels * area;
  for_each_units(sink, pool, units, unit, unit * 4, [&](std::int64_t from, std::int64_t to) {
    std::vector<T> scale(static_cast<std::size_t>(w.out[3]));
    std::vector<std::int32_t> indices(static_cast<std::size_t>(w.out[3]));
    T* const first = reinterpret_cast<T*>(sink.result) + from * unit;
    std::fill(first, first + (to - from) * unit, T{});
    for_each_row(w, from * out_channels, to * out_channels, [&](const Row& row, std::int64_t) {
      T* dx = reinterpret_cast<T*>(sink.result) + row.n * w.in[0] * area;
      if (op.kind == PoolKind::average) {
        fill_scale(w, row, op.count_pad, scale);
        spread_row(w, view, row, scale, dx);
        return;
      }
      const T* grad = view.row(row.n, row.c, row.d, row.h);
      index->read(row, indices);
      maxima.for_each(row, indices.data(), [&](std::int64_t q, std::int64_t at) { dx[at] += grad[q * view.axis[3]]; });
    });
  });
}

template <class T>
void run_pool_gather(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                     ThreadPool& pool) {
  const Strided<T> v(operands[0], pool);
  const View<T> view(v);
  const Indices index(operands[1], pool);
  const Windows w = windows_of(op, v.shape(), domain);
  const Maxima maxima(w, view.axis);
  const std::int64_t unit = w.out_size() / w.out[0];
  for_each_units(sink, pool, w.batch * w.out[0], unit, unit * 4, [&](std::int64_t from, std::int64_t to) {
    std::vector<std::int32_t> indices(static_cast<std::size_t>(w.out[3]));
    for_each_row(w, from, to, [&](const Row& row, std::int64_t flat) {
      T* out = reinterpret_cast<T*>(sink.result) + flat;
      std::fill(out, out + w.out[3], T{});
      index.read(row, indices);
      maxima.for_each(row, indices.data(),
                      [&](std::int64_t q, std::int64_t at) { out[q] = view.row(row.n, 0, 0, 0)[at]; });
    });
  });
}

}  // namespace

template <class T>
void run_pool(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool) {
  switch (op.role) {
    case PoolRole::output:
      return run_max_or_average<T>(op, operands, domain, sink, pool);
    case PoolRole::index:  // the result's type is the index's; the values decide how to compare
      switch (compute_dtype(operands[0].dtype)) {
        case Dtype::f64:
          return run_max_or_average<double>(op, operands, domain, sink, pool);
        case Dtype::f32:
          return run_max_or_average<float>(op, operands, domain, sink, pool);
        default:
          return run_max_or_average<std::int32_t>(op, operands, domain, sink, pool);
      }
    case PoolRole::input_grad:
      return run_input_grad<T>(op, operands, domain, sink, pool);
    case PoolRole::gather:
      return run_pool_gather<T>(op, operands, domain, sink, pool);
  }
}

template void run_pool<float>(const Pool&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_pool<double>(const Pool&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_pool<std::int32_t>(const Pool&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                     ThreadPool&);

}  // namespace nixie::cpu
