// Converts operands that do not have the compute type, once and densely; calls the contraction of a head.
#include "nixie/backends/cpu/contract/operand.h"

#include <array>

namespace nixie::cpu {
namespace {

/// Calls `row(offset)` for rows [first, last) of a strided array: all axes but the last, in row-major order.
template <class Row>
void for_each_row(const Shape& shape, const Strides& strides, std::int64_t first, std::int64_t last, const Row& row) {
  const int outer = std::max(0, shape.rank() - 1);
  for (std::int64_t i = first; i < last; ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = outer - 1; axis >= 0; --axis) {
      const std::int64_t size = shape.sizes()[static_cast<std::size_t>(axis)];
      offset += rest % size * strides[static_cast<std::size_t>(axis)];
      rest /= size;
    }
    row(i, offset);
  }
}

}  // namespace

void convert_operand(const BoundOperand& from, Dtype type, std::byte* to, ThreadPool& pool) {
  const std::int64_t size = from.shape.size();
  if (size == 0) return;
  const std::int64_t length = from.shape.rank() == 0 ? 1 : from.shape[-1], rows = size / length;
  const std::int64_t step = from.shape.rank() == 0 ? 0 : from.strides.back();
  const std::int64_t parts = std::min(rows, ceil_div(size, 65536));
  visit_dtype(from.dtype, [&]<class From>(From) {
    visit_compute_dtype(type, [&]<class To>(To) {
      pool.parallel_for(parts, [&](std::int64_t part) {
        for_each_row(from.shape, from.strides, cut(rows, parts, part), cut(rows, parts, part + 1),
                     [&](std::int64_t row, std::int64_t offset) {
                       const From* source = reinterpret_cast<const From*>(from.data) + offset;
                       To* target = reinterpret_cast<To*>(to) + row * length;
                       for (std::int64_t i = 0; i < length; ++i) target[i] = convert<To>(source[i * step]);
                     });
      });
    });
  });
}

void run_head(const Head& head, const Shape& domain, std::span<const BoundOperand> operands, const HeadSink& sink,
              ThreadPool& pool) {
  if (domain.size() == 0) return;
  const auto run = [&]<class T>(T) {
    std::visit(overloaded{
                   [&](const Matmul&) { run_matmul<T>(operands, domain, sink, pool); },
                   [&](const Conv& conv) { run_conv<T>(conv, operands, domain, sink, pool); },
                   [&](const RoundedProduct& op) { run_rounded_product(op, operands, domain, sink, pool); },
                   [&](const Pool& op) {
                     run_pool<std::conditional_t<std::is_same_v<T, Bits>, std::int32_t, T>>(op, operands, domain, sink,
                                                                                            pool);
                   },
                   [&](const Gather& gather) { run_gather<T>(gather, operands, domain, sink, pool); },
                   [&](const Scatter& scatter) { run_scatter<T>(scatter, operands, domain, sink, pool); },
                   [&](const Scan& scan) { run_scan<T>(scan, operands, domain, sink, pool); },
                   [&](const ArgSort& sort) { run_argsort(sort, operands, domain, sink, pool); },
                   [&](const Collective& op) { run_collective<T>(op, operands, domain, sink, pool); },
               },
               head.op);
  };
  const auto run_wide = [&] {
    const auto refuse = [] { fail(Fault::usage, "cpu: products, pooling and positions are not computed in i64"); };
    std::visit(overloaded{
                   [&](const Matmul&) { refuse(); },
                   [&](const Conv&) { refuse(); },
                   [&](const RoundedProduct&) { refuse(); },
                   [&](const Pool&) { refuse(); },
                   [&](const Gather& gather) { run_gather<WideBits>(gather, operands, domain, sink, pool); },
                   [&](const Scatter& scatter) { run_scatter<WideBits>(scatter, operands, domain, sink, pool); },
                   [&](const Scan& scan) { run_scan<WideBits>(scan, operands, domain, sink, pool); },
                   [&](const ArgSort&) { refuse(); },
                   [&](const Collective& op) { run_collective<WideBits>(op, operands, domain, sink, pool); },
               },
               head.op);
  };
  const Dtype type = compute_dtype(head.dtype);
  if (type == Dtype::i64) return run_wide();
  if (type == Dtype::f64) return run(double{});
  if (type == Dtype::f32) return run(float{});
  run(Bits{});
}

}  // namespace nixie::cpu
