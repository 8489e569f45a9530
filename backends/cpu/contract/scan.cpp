// Scans along an axis, several neighbouring rows at once, each in its order.
#include <array>

#include "nixie/backends/cpu/contract/fold.h"
#include "nixie/backends/cpu/contract/operand.h"
#include "nixie/backends/cpu/contract/rows.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kColumns = 64;  // rows that are folded side by side where their elements are neighbours
constexpr std::int64_t kPartElements = 16384;

// For each row folds its elements with take(fold, element, position), and calls store(fold, offset in the result) after
// each or, in an exclusive scan, before it.
template <class X, class Fold, class Take, class Store>
void scan_rows(const Scan& scan, const Strided<X>& x, const Fold& nothing, const Take& take, const Store& store,
               ThreadPool& pool) {
  const Shape& shape = x.shape();
  const Strides dense = shape.row_major();
  const Rows rows(shape, scan.axis);
  const auto axis = static_cast<std::size_t>(scan.axis);
  const std::int64_t size = shape[scan.axis], count = rows.count();
  const std::int64_t step = x.strides()[axis], out_step = dense[axis];
  const auto visit = [&](Fold& fold, std::int64_t i, const X* from, std::int64_t to) {
    const std::int64_t position = scan.reverse ? size - 1 - i : i;
    if (scan.exclusive) store(fold, to + position * out_step);
    take(fold, from[position * step], position);
    if (!scan.exclusive) store(fold, to + position * out_step);
  };
  // Rows whose elements are neighbours are folded side by side, others one after the other.
  const std::int64_t columns = out_step > 1 ? kColumns : 1, groups = ceil_div(count, columns);
  const std::int64_t parts =
      std::clamp<std::int64_t>(shape.size() / kPartElements, 1, std::max<std::int64_t>(groups, 1));
  pool.parallel_for(parts, [&](std::int64_t part) {
    for (std::int64_t group = cut(groups, parts, part); group < cut(groups, parts, part + 1); ++group) {
      const std::int64_t first = group * columns;
      if (columns == 1) {
        Fold fold = nothing;
        const X* const from = x.data() + rows.offset(first, x.strides());
        const std::int64_t to = rows.offset(first, dense);
        for (std::int64_t i = 0; i < size; ++i) visit(fold, i, from, to);
        continue;
      }
      const auto taken = static_cast<std::size_t>(std::min(columns, count - first));
      std::array<Fold, kColumns> folds;
      std::array<const X*, kColumns> from{};
      std::array<std::int64_t, kColumns> to{};
      folds.fill(nothing);
      for (std::size_t c = 0; c < taken; ++c) {
        from[c] = x.data() + rows.offset(first + static_cast<std::int64_t>(c), x.strides());
        to[c] = rows.offset(first + static_cast<std::int64_t>(c), dense);
      }
      for (std::int64_t i = 0; i < size; ++i)
        for (std::size_t c = 0; c < taken; ++c) visit(folds[c], i, from[c], to[c]);
    }
  });
}

// Positions of extremes.
template <bool largest>
void scan_best(const Scan& scan, const BoundOperand& operand, std::int32_t* out, ThreadPool& pool) {
  visit_compute_dtype(operand.dtype, [&]<class Element>(Element) {
    using T = std::conditional_t<std::is_same_v<Element, std::int32_t>, Bits,
                                 std::conditional_t<std::is_same_v<Element, std::int64_t>, WideBits, Element>>;
    using Fold = BestFold<T, largest>;
    scan_rows(
        scan, Strided<T>(operand, pool), Fold{},
        [](Fold& fold, T value, std::int64_t position) { fold.add(value, position); },
        [&](const Fold& fold, std::int64_t at) { out[at] = static_cast<std::int32_t>(fold.value); }, pool);
  });
}

}  // namespace

template <class T>
void run_scan(const Scan& scan, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool) {
  if (gives_position(scan.kind)) {
    auto* const out = reinterpret_cast<std::int32_t*>(sink.result);
    if (scan.kind == ReduceKind::argmax)
      scan_best<true>(scan, operands[0], out, pool);
    else
      scan_best<false>(scan, operands[0], out, pool);
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;  // long sums keep their digits
    T* const out = reinterpret_cast<T*>(sink.result);
    visit_fold<Wide>(scan.kind, [&]<class Fold>(Fold nothing) {
      scan_rows(
          scan, Strided<T>(operands[0], pool), nothing,
          [](Fold& fold, T value, std::int64_t) { fold.add(static_cast<Wide>(value)); },
          [&](const Fold& fold, std::int64_t at) { out[at] = static_cast<T>(fold.value); }, pool);
    });
  }
  finish_all(sink, domain.size(), pool);
}

template void run_scan<float>(const Scan&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_scan<double>(const Scan&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_scan<Bits>(const Scan&, std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_scan<WideBits>(const Scan&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                 ThreadPool&);

}  // namespace nixie::cpu
