// Gather copies the rows that indices name, scatter reduces them. Negative indices count from the end; an index
// out of range gives NaN (of integers the largest number).
#include <limits>
#include <numeric>
#include <vector>

#include "nixie/backends/cpu/contract/fold.h"
#include "nixie/backends/cpu/contract/operand.h"

namespace nixie::cpu {
namespace {

/// A strided operand walked as [outer, index position, inner], each of the three a run of axes.
class Blocks {
 public:
  template <class T>
  Blocks(const Strided<T>& operand, int axis, int axes)
      : outer_(offsets(operand, 0, axis)),
        middle_(offsets(operand, axis, axis + axes)),
        inner_(offsets(operand, axis + axes, operand.shape().rank())) {
    for (std::size_t i = 0; i < inner_.size(); ++i) dense_ &= inner_[i] == static_cast<std::int64_t>(i);
  }
  std::int64_t outer() const { return static_cast<std::int64_t>(outer_.size()); }
  std::int64_t middle() const { return static_cast<std::int64_t>(middle_.size()); }
  std::int64_t inner() const { return static_cast<std::int64_t>(inner_.size()); }
  std::int64_t start(std::int64_t outer, std::int64_t middle) const {
    return outer_[static_cast<std::size_t>(outer)] + middle_[static_cast<std::size_t>(middle)];
  }
  std::int64_t offset(std::int64_t inner) const { return dense_ ? inner : inner_[static_cast<std::size_t>(inner)]; }
  bool dense() const { return dense_; }

 private:
  /// Offsets of the positions of axes [first, last) in row-major order.
  template <class T>
  static std::vector<std::int64_t> offsets(const Strided<T>& operand, int first, int last) {
    std::vector<std::int64_t> result{0};
    for (int axis = first; axis < last; ++axis) {
      std::vector<std::int64_t> longer;
      const std::int64_t size = operand.size(axis), stride = operand.stride(axis);
      for (const std::int64_t offset : result)
        for (std::int64_t i = 0; i < size; ++i) longer.push_back(offset + i * stride);
      result = std::move(longer);
    }
    return result;
  }

  std::vector<std::int64_t> outer_, middle_, inner_;
  bool dense_ = true;
};

/// The indices in row-major order, negative ones as positions; kOutside where one is out of range for `size`.
constexpr std::int64_t kOutside = -1;
std::vector<std::int64_t> read_indices(const BoundOperand& operand, std::int64_t size, ThreadPool& pool) {
  const Strided<std::int32_t> indices(operand, pool);
  const Blocks walk(indices, 0, 0);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < walk.inner(); ++i) {
    const std::int64_t index = indices.data()[walk.offset(i)], position = index < 0 ? index + size : index;
    values.push_back(position >= 0 && position < size ? position : kOutside);
  }
  return values;
}

/// The result of an index out of range: NaN, or the largest integer, which stores saturate to their type's.
template <class T>
T no_number() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::quiet_NaN();
  else
    return static_cast<T>(std::numeric_limits<std::make_signed_t<T>>::max());
}

constexpr std::int64_t kPartElements = 16384;

}  // namespace

template <class T>
void run_gather(const Gather& gather, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                ThreadPool& pool) {
  const Strided<T> x(operands[0], pool);
  const Blocks from(x, gather.axis, 1);
  const std::vector<std::int64_t> indices = read_indices(operands[1], from.middle(), pool);
  const std::int64_t count = static_cast<std::int64_t>(indices.size()), inner = from.inner();
  const std::int64_t rows = from.outer() * count;
  const std::int64_t parts = std::clamp<std::int64_t>(domain.size() / kPartElements, 1, rows);
  pool.parallel_for(parts, [&](std::int64_t part) {
    Pieces pieces(sink);
    for (std::int64_t row = cut(rows, parts, part); row < cut(rows, parts, part + 1); ++row) {
      T* out = reinterpret_cast<T*>(sink.result) + row * inner;
      const std::int64_t index = indices[static_cast<std::size_t>(row % count)];
      if (index == kOutside) {
        std::fill(out, out + inner, no_number<T>());
      } else {
        const T* source = x.data() + from.start(row / count, index);
        if (from.dense())
          std::copy_n(source, inner, out);
        else
          for (std::int64_t i = 0; i < inner; ++i) out[i] = source[from.offset(i)];
      }
      pieces.add(row * inner, inner);
    }
    pieces.flush();
  });
}

template <class T>
void run_scatter(const Scatter& scatter, std::span<const BoundOperand> operands, const Shape& domain,
                 const HeadSink& sink, ThreadPool& pool) {
  const Strided<T> updates(operands[0], pool);
  const std::int64_t targets = domain[scatter.axis];
  const std::vector<std::int64_t> indices = read_indices(operands[1], targets, pool);
  const std::vector<std::int64_t> order = read_indices(operands[2], operands[2].shape.size(), pool);
  const bool all_inside = std::find(indices.begin(), indices.end(), kOutside) == indices.end();
  // order[first[t]] to order[first[t + 1]] are the updates of target t.
  std::vector<std::int64_t> first(static_cast<std::size_t>(targets) + 1);
  for (const std::int64_t index : indices)
    if (index != kOutside) ++first[static_cast<std::size_t>(index) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());

  const Blocks from(updates, scatter.axis, operands[1].shape.rank());
  const std::int64_t inner = from.inner(), rows = from.outer() * targets;
  const std::int64_t parts = std::clamp<std::int64_t>(domain.size() / kPartElements, 1, rows);
  visit_fold<T>(scatter.kind, [&](auto nothing) {
    // A part owns target rows, so each is folded in the order of its updates.
    pool.parallel_for(parts, [&](std::int64_t part) {
      const std::int64_t begin = cut(rows, parts, part), end = cut(rows, parts, part + 1);
      T* const out = reinterpret_cast<T*>(sink.result);
      std::fill(out + begin * inner, out + end * inner, all_inside ? nothing.value : no_number<T>());
      for (std::int64_t row = begin; all_inside && row < end; ++row) {
        const auto target = static_cast<std::size_t>(row % targets);
        for (std::int64_t i = first[target]; i < first[target + 1]; ++i) {
          const T* source = updates.data() + from.start(row / targets, order[static_cast<std::size_t>(i)]);
          for (std::int64_t j = 0; j < inner; ++j) {
            auto fold = nothing;
            fold.value = out[row * inner + j];
            fold.add(source[from.offset(j)]);
            out[row * inner + j] = fold.value;
          }
        }
      }
      if (sink.finished) sink.finished(begin * inner, (end - begin) * inner);
    });
  });
}

template void run_gather<float>(const Gather&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                ThreadPool&);
template void run_gather<double>(const Gather&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                 ThreadPool&);
template void run_gather<Bits>(const Gather&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                               ThreadPool&);
template void run_gather<WideBits>(const Gather&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                   ThreadPool&);
template void run_scatter<float>(const Scatter&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                 ThreadPool&);
template void run_scatter<double>(const Scatter&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                  ThreadPool&);
template void run_scatter<Bits>(const Scatter&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                ThreadPool&);
template void run_scatter<WideBits>(const Scatter&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                    ThreadPool&);

}  // namespace nixie::cpu
