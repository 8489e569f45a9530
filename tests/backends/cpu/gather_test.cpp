// The CPU's gather and scatter against plain loops, indices out of range included.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "nixie/tests/backends/cpu/head.h"

namespace nixie::cpu_test {
namespace {

struct Case {
  Shape x;
  int axis;
  Shape indices;
};
const Case kCases[] = {{{5, 3}, 0, {7}},      {{4, 6, 5}, 1, {2, 3}}, {{4, 6, 5}, 2, {9}}, {{8}, 0, {}},
                       {{300, 40}, 0, {500}}, {{3, 0, 2}, 1, {4}},    {{3, 4, 2}, 1, {0}}, {{2, 50, 500}, 1, {64}}};

Shape gathered(const Case& c) {
  std::vector<std::int64_t> sizes(c.x.begin(), c.x.begin() + c.axis);
  sizes.insert(sizes.end(), c.indices.begin(), c.indices.end());
  sizes.insert(sizes.end(), c.x.begin() + c.axis + 1, c.x.end());
  return Shape(sizes);
}

/// Calls `visit(position in the gathered array, position in x or nothing)`.
template <class Visit>
void for_each_pair(const Case& c, const Array& indices, const Visit& visit) {
  const std::ptrdiff_t rank = c.indices.rank();
  for_each_position(gathered(c), [&](const std::vector<std::int64_t>& at) {
    const std::vector<std::int64_t> index_at(at.begin() + c.axis, at.begin() + c.axis + rank);
    const std::int64_t index = static_cast<std::int64_t>(indices(index_at));
    std::vector<std::int64_t> from(at.begin(), at.begin() + c.axis);
    from.push_back(index);
    from.insert(from.end(), at.begin() + c.axis + rank, at.end());
    const std::int64_t size = c.x[c.axis], position = index < 0 ? index + size : index;
    from[static_cast<std::size_t>(c.axis)] = position;
    visit(at, position < 0 || position >= size ? std::vector<std::int64_t>{} : from);
  });
}

/// The positions of the indices in the order of their targets.
Array order_of(const Array& indices, std::int64_t size) {
  std::vector<double> targets = indices.values();
  for (double& target : targets) target += target < 0 ? static_cast<double>(size) : 0;
  std::vector<std::size_t> positions(targets.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::ranges::stable_sort(positions, {}, [&](std::size_t i) { return targets[i]; });
  Array order(Dtype::i32, {static_cast<std::int64_t>(targets.size())}, Layout::dense, 0);
  for (std::size_t i = 0; i < positions.size(); ++i)
    order.set(order.element({static_cast<std::int64_t>(i)}), static_cast<double>(positions[i]));
  return order;
}

double reduced(ReduceKind kind, double a, double b) {
  if (kind == ReduceKind::sum) return a + b;
  if (kind == ReduceKind::prod) return a * b;
  return kind == ReduceKind::max ? std::max(a, b) : std::min(a, b);
}

class CpuGatherLayouts : public testing::TestWithParam<Layout> {};

TEST_P(CpuGatherLayouts, EqualPlainLoops) {
  for (const Dtype type : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::i32, Dtype::u8, Dtype::u16})
    for (const Case& c : kCases)
      for (const int beyond : {0, 2}) {  // indices out of range by this much
        const Array x(type, c.x, GetParam(), 1);
        const int size = static_cast<int>(c.x[c.axis]);
        const Array indices(Dtype::i32, c.indices, GetParam(), 2, -size - beyond, std::max(-size, size - 1) + beyond);
        // Integers are computed as i32; a store then brings them to the type.
        const double no_number = is_floating(type) ? std::numeric_limits<double>::quiet_NaN() : 2147483647;
        const Shape y = gathered(c);
        std::vector<double> expected;
        for_each_pair(c, indices,
                      [&](const auto&, const auto& from) { expected.push_back(from.empty() ? no_number : x(from)); });
        expect_same(run_head({Gather{c.axis}, {}, type}, y, {&x, &indices}), expected, "gather " + to_string(c.x));

        const Array updates(type, y, GetParam(), 3);
        const Array order = order_of(indices, c.x[c.axis]);
        const bool real = is_floating(type);
        const std::pair<ReduceKind, double> kinds[] = {{ReduceKind::sum, 0},
                                                       {ReduceKind::prod, 1},
                                                       {ReduceKind::max, real ? -INFINITY : -2147483648.0},
                                                       {ReduceKind::min, real ? INFINITY : 2147483647.0}};
        for (const auto& [kind, of_nothing] : kinds) {
          // Products of many integers wrap around, those of halves are beyond f16.
          if (kind == ReduceKind::prod && c.indices.size() > 20) continue;
          std::vector<double> results(static_cast<std::size_t>(c.x.size()), of_nothing);
          bool any_outside = false;
          for_each_pair(c, indices, [&](const auto& at, const auto& to) {
            if (to.empty()) return void(any_outside = true);
            std::int64_t offset = 0;
            for (std::size_t a = 0; a < to.size(); ++a) offset = offset * c.x[static_cast<int>(a)] + to[a];
            double& result = results[static_cast<std::size_t>(offset)];
            result = reduced(kind, result, updates(at));
          });
          if (any_outside) std::ranges::fill(results, no_number);
          for (const int threads : {1, 7})
            expect_same(run_head({Scatter{c.axis, kind}, {}, type}, c.x, {&updates, &indices, &order}, threads),
                        results, fmt::format("scatter {} {}", to_string(kind), c.x));
        }
      }
}
INSTANTIATE_TEST_SUITE_P(Every, CpuGatherLayouts, testing::ValuesIn(kLayouts));

}  // namespace
}  // namespace nixie::cpu_test
