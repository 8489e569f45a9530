// Pooling: for each position of the window one pass over a row of the output, so that the row is processed as vectors;
// over blocks of whole planes where rows are short.
#include "nixie/backends/cpu/contract/max_rows.h"
#include "nixie/backends/cpu/contract/pool_blocks.h"

namespace nixie::cpu {
namespace {

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
void average_row(const Windows& w, const PooledView<T>& x, const Row& row, const std::vector<T>& scale, T* out) {
  std::fill(out, out + w.out[3], T{});
  for_each_input_row(w, row, [&](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t) {
    const T* from = x.row(row.n, c, d, h);
    for (std::int64_t i = 0; i < w.window[3]; ++i) {
      const auto [low, high] = w.columns(i);
      const T* first = from + w.place(3, low, i) * x.axis[3];
      with_step(w.stride[3] * x.axis[3], [&, low = low, high = high](auto step) {
        for (std::int64_t q = low; q < high; ++q) out[q] += first[(q - low) * step];
      });
    }
  });
  for (std::int64_t q = 0; q < w.out[3]; ++q) out[q] /= scale[static_cast<std::size_t>(q)];
}

/// Spreads a row of dy over the dense image dx it was averaged from.
template <class T>
void spread_row(const Windows& w, const PooledView<T>& dy, const Row& row, const std::vector<T>& scale, T* dx) {
  const T* from = dy.row(row.n, row.c, row.d, row.h);
  for_each_input_row(w, row, [&](std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t) {
    T* to = dx + ((c * w.in[1] + d) * w.in[2] + h) * w.in[3];
    for (std::int64_t i = 0; i < w.window[3]; ++i) {
      const auto [low, high] = w.columns(i);
      for (std::int64_t q = low; q < high; ++q)
        to[w.place(3, q, i)] += from[q * dy.axis[3]] / scale[static_cast<std::size_t>(q)];
    }
  });
}

/// The rows of an index operand, u8 or i32.
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
  static void read(const PooledView<T>& view, const Row& row, std::vector<std::int32_t>& to) {
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
  std::optional<PooledView<std::uint8_t>> narrow_view_;
  std::optional<PooledView<std::int32_t>> wide_view_;
};

/// The places of the maxima that indices name: offsets from the image; none for padding.
class Maxima {
 public:
  Maxima(const Windows& windows, const Extents& strides) : w_(windows), strides_(strides) {
    for (std::int64_t p = 0; p < w_.window_size(); ++p) {
      Extents at{};
      std::int64_t rest = p;
      for (std::size_t a = kAxes; a-- > 0; rest /= w_.window[a]) at[a] = rest % w_.window[a] * w_.dilation[a];
      places_.push_back(at);
      offsets_.push_back(at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3]);
    }
    // Windows of columns [first_, last_) need no look at the image's edges.
    first_ = ceil_div(w_.pad[3], w_.stride[3]);
    const std::int64_t room = w_.in[3] + w_.pad[3] - w_.extent(3);
    last_ = room < 0 ? 0 : std::min(w_.out[3], room / w_.stride[3] + 1);
  }
  /// Calls `visit(q, offset)` for the columns of a row of indices that name a place inside the input.
  template <class Visit>
  void for_each(const Row& row, const std::int32_t* index, const Visit& visit) const {
    const Extents begin{w_.start(0, row.c), w_.start(1, row.d), w_.start(2, row.h), w_.start(3, 0)};
    bool rows_inside = true;
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < kAxes; ++a) {
      rows_inside &= a == 3 || (begin[a] >= 0 && begin[a] + w_.extent(a) <= w_.in[a]);
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

/// Runs `unit(first, last)` over units of output, `together` at a time, cut by their work, and tells the sink
/// `unit_size` elements for each.
template <class Units>
void for_each_units(const HeadSink& sink, ThreadPool& pool, std::int64_t units, std::int64_t together,
                    std::int64_t unit_size, std::int64_t unit_work, const Units& run) {
  const std::int64_t groups = ceil_div(units, together);
  const std::int64_t parts = std::clamp<std::int64_t>(units * unit_work / 32768, 1, std::min<std::int64_t>(groups, 64));
  pool.parallel_for(parts, [&](std::int64_t part) {
    Pieces pieces(sink);
    for (std::int64_t group = cut(groups, parts, part); group < cut(groups, parts, part + 1); ++group) {
      const std::int64_t first = group * together, last = std::min(units, first + together);
      run(first, last);
      pieces.add(first * unit_size, (last - first) * unit_size);
    }
    pieces.flush();
  });
}

template <class T>
void run_max_or_average(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain,
                        const HeadSink& sink, ThreadPool& pool) {
  const Strided<T> x(operands[0], pool);
  const PooledView<T> view(x);
  const Windows w = windows_of(op, x.shape(), domain);
  const std::int64_t unit = w.out_size() / w.out[0], units = w.batch * w.out[0], work = unit * w.window_size();
  if (PoolBlocks<T>::suits(w, view)) {
    const PoolBlocks<T> blocks(w, view);
    return for_each_units(sink, pool, units, blocks.planes(), unit, work, [&](std::int64_t from, std::int64_t to) {
      const T* const first = view.row(from / w.out[0], from % w.out[0], 0, 0);
      T* const out = reinterpret_cast<T*>(sink.result) + from * unit;
      if (op.kind == PoolKind::average)
        blocks.mean(first, to - from, op.count_pad, out);
      else if (op.role == PoolRole::index)
        blocks.argmax(first, to - from, reinterpret_cast<std::int32_t*>(sink.result) + from * unit);
      else
        blocks.max(first, to - from, out);
    });
  }
  for_each_units(sink, pool, units, 1, unit, work, [&](std::int64_t from, std::int64_t to) {
    if (op.kind == PoolKind::max) {
      MaxRows<T> rows(w, view);
      return for_each_row(w, from, to, [&](const Row& row, std::int64_t flat) {
        if (op.role == PoolRole::index)
          rows.find(row, reinterpret_cast<std::int32_t*>(sink.result) + flat);
        else
          rows.take(row, reinterpret_cast<T*>(sink.result) + flat);
      });
    }
    std::vector<T> scale(static_cast<std::size_t>(w.out[3]));
    for_each_row(w, from, to, [&](const Row& row, std::int64_t flat) {
      fill_scale(w, row, op.count_pad, scale);
      average_row(w, view, row, scale, reinterpret_cast<T*>(sink.result) + flat);
    });
  });
}

template <class T>
void run_input_grad(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                    ThreadPool& pool) {
  const Strided<T> dy(operands[0], pool);
  const PooledView<T> view(dy);
  const Windows w = windows_of(op, domain, dy.shape());
  std::optional<Indices> index;
  if (op.kind == PoolKind::max) index.emplace(operands[1], pool);
  const std::int64_t area = w.in[1] * w.in[2] * w.in[3];
  const Maxima maxima(w, {area, w.in[2] * w.in[3], w.in[3], 1});
  // Windows over channels share inputs between channels: then an image is what one worker sums alone.
  const bool per_channel = w.window[0] == 1 && w.stride[0] == 1 && w.pad[0] == 0;
  const std::int64_t channels = per_channel ? 1 : w.in[0], out_channels = per_channel ? 1 : w.out[0];
  const std::int64_t units = w.batch * w.in[0] / channels, unit = channels * area;
  for_each_units(sink, pool, units, 1, unit, unit * 4, [&](std::int64_t from, std::int64_t to) {
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
  const PooledView<T> view(v);
  const Indices index(operands[1], pool);
  const Windows w = windows_of(op, v.shape(), domain);
  const Maxima maxima(w, view.axis);
  const std::int64_t unit = w.out_size() / w.out[0];
  for_each_units(sink, pool, w.batch * w.out[0], 1, unit, unit * 4, [&](std::int64_t from, std::int64_t to) {
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
        default:  // no op pools i64
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
