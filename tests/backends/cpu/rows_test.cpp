// The CPU's scans and sorting of operands of every type and layout, along every axis, against the C++ library.
#include <algorithm>
#include <numeric>

#include "nixie/tests/backends/cpu/head.h"

namespace nixie::cpu_test {
namespace {

const Shape kShapes[] = {{1}, {0}, {9}, {5, 130}, {300, 3}, {4, 70, 3}, {2, 0, 3}, {3, 1000}};
constexpr Dtype kTypes[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::i64,
                            Dtype::i32, Dtype::u8,  Dtype::i16, Dtype::u32};

/// Calls `visit(offsets of the elements of a row in a dense array, their values)`.
template <class Visit>
void for_each_row(const Array& x, int axis, const Visit& visit) {
  const Strides dense = x.shape.row_major();
  for_each_position(x.shape.with(axis, std::min<std::int64_t>(1, x.shape[axis])), [&](std::vector<std::int64_t> at) {
    std::vector<std::size_t> offsets;
    std::vector<double> values;
    for (std::int64_t& i = at[static_cast<std::size_t>(axis)] = 0; i < x.shape[axis]; ++i) {
      std::int64_t offset = 0;
      for (std::size_t a = 0; a < at.size(); ++a) offset += at[a] * dense[a];
      offsets.push_back(static_cast<std::size_t>(offset));
      values.push_back(x(at));
    }
    visit(offsets, values);
  });
}

class CpuRows : public testing::TestWithParam<Layout> {};

TEST_P(CpuRows, SortAsTheLibraryDoes) {
  for (const Dtype type : kTypes)
    for (const Shape& shape : kShapes)
      for (int axis = 0; axis < shape.rank(); ++axis)
        for (const bool descending : {false, true}) {
          const Array x(type, shape, GetParam(), 1);  // small numbers: many are equal
          std::vector<double> expected(static_cast<std::size_t>(shape.size()));
          for_each_row(x, axis, [&](const auto& offsets, const auto& values) {
            std::vector<std::size_t> order(values.size());
            std::iota(order.begin(), order.end(), 0);
            std::ranges::stable_sort(order, {}, [&](std::size_t i) { return descending ? -values[i] : values[i]; });
            for (std::size_t i = 0; i < order.size(); ++i) expected[offsets[i]] = static_cast<double>(order[i]);
          });
          expect_same(run_head({ArgSort{axis, descending}, {}, Dtype::i32}, shape, {&x}), expected,
                      fmt::format("argsort {} {} axis {}", type, shape, axis));
        }
}

TEST_P(CpuRows, ScanAsLoopsDo) {
  for (const Dtype type : kTypes)
    for (const Shape& shape : kShapes)
      for (int axis = 0; axis < shape.rank(); ++axis)
        for (const bool reverse : {false, true})
          for (const bool exclusive : {false, true}) {
            const Array x(type, shape, GetParam(), 1);
            std::vector<double> sums(static_cast<std::size_t>(shape.size())), firsts = sums;
            for_each_row(x, axis, [&](auto offsets, auto values) {
              if (reverse) std::ranges::reverse(offsets), std::ranges::reverse(values);
              double sum = 0;
              std::size_t best = 0;
              for (std::size_t i = 0; i < values.size(); ++i) {
                sums[offsets[i]] = exclusive ? sum : sum + values[i];
                sum += values[i];
                // The smallest position wins among equals.
                if (values[i] > values[best] || (reverse && values[i] == values[best])) best = i;
                firsts[offsets[i]] = static_cast<double>(reverse ? values.size() - 1 - best : best);
              }
            });
            const std::string what = fmt::format("scan {} {} axis {}", type, shape, axis);
            expect_same(run_head({Scan{ReduceKind::sum, axis, reverse, exclusive}, {}, type}, shape, {&x}), sums, what);
            if (!exclusive)
              expect_same(run_head({Scan{ReduceKind::argmax, axis, reverse}, {}, Dtype::i32}, shape, {&x}), firsts,
                          what);
          }
}
INSTANTIATE_TEST_SUITE_P(Every, CpuRows, testing::ValuesIn(kLayouts));

}  // namespace
}  // namespace nixie::cpu_test
