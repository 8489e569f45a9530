// The CPU's pooling in its four roles against plain loops: overlapping, padded and clipped windows, over channels too.
#include <cmath>
#include <limits>

#include "nixie/tests/backends/cpu/head.h"

namespace nixie::cpu_test {
namespace {

struct Case {
  Shape x;
  std::vector<int> window, stride, pad;
  bool ceil = false;
  std::vector<int> dilation = {};

  std::int64_t step(std::size_t a) const { return dilation.empty() ? 1 : dilation[a]; }
  Shape y() const {
    std::vector<std::int64_t> sizes{x[0]};
    for (std::size_t a = 0; a < window.size(); ++a) {
      const std::int64_t room = x[static_cast<int>(a) + 1] + 2 * pad[a] - step(a) * (window[a] - 1) - 1;
      sizes.push_back((ceil ? (room + stride[a] - 1) / stride[a] : room / stride[a]) + 1);
    }
    return Shape(sizes);
  }
  Shape window_shape() const { return Shape(std::vector<std::int64_t>(window.begin(), window.end())); }
};

const Case kCases[] = {
    {{2, 3, 8, 8}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}},
    {{2, 3, 28, 33}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}},
    {{2, 5, 13, 27}, {1, 3, 3}, {1, 2, 2}, {0, 0, 0}},
    {{2, 3, 14, 14}, {1, 3, 3}, {1, 2, 2}, {0, 0, 0}, true},
    {{2, 3, 14, 15}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, true},
    {{1, 2, 9, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {{2, 3, 11, 75}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},  // rows of more than two vectors
    {{2, 2, 6, 50}, {1, 2, 7}, {1, 1, 3}, {0, 1, 2}, true},
    {{3, 7, 7, 6}, {1, 2, 2}, {1, 2, 2}, {0, 1, 0}},  // 16 planes fill vectors, 21 do not
    {{1, 2, 40, 40}, {1, 40, 40}, {1, 40, 40}, {0, 0, 0}},
    {{1, 2, 9, 7}, {1, 5, 4}, {1, 3, 5}, {0, 2, 1}},
    {{2, 8, 5, 5}, {3, 1, 1}, {1, 1, 1}, {1, 0, 0}},  // across channels
    {{2, 9, 6, 6}, {2, 3, 2}, {2, 2, 2}, {0, 1, 0}},
    {{1, 1, 20, 20}, {1, 17, 17}, {1, 1, 1}, {0, 0, 0}},  // more than 256 positions
    {{3, 4, 19}, {1, 4}, {1, 3}, {0, 1}},
    {{2, 2, 5, 6, 7}, {1, 2, 3, 2}, {1, 2, 1, 2}, {0, 0, 1, 1}},
    {{1, 1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {{2, 2, 4, 4}, {1, 4, 4}, {1, 1, 1}, {0, 0, 0}},
    {{0, 2, 4, 4}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}},
    {{2, 3, 11, 75}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, false, {1, 2, 3}},  // dilated, in long rows
    {{2, 3, 12, 9}, {1, 2, 3}, {1, 1, 1}, {0, 2, 3}, false, {1, 5, 3}},   // and in short ones
    {{3, 4, 41}, {1, 4}, {1, 3}, {0, 5}, true, {1, 4}},
    {{2, 2, 7, 6, 9}, {1, 2, 3, 2}, {1, 2, 1, 2}, {0, 1, 2, 1}, false, {1, 3, 2, 2}},
};

/// The results of plain loops for one case.
struct Expected {
  std::vector<double> max, index, average, gather, max_grad, average_grad;
};

Expected reference(const Case& c, const Array& x, const Array& dy, bool count_pad) {
  Expected e;
  const Shape y = c.y(), window = c.window_shape();
  e.max_grad.resize(static_cast<std::size_t>(x.shape.size()));
  e.average_grad = e.max_grad;
  const auto flat = [&](const std::vector<std::int64_t>& at) {
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < at.size(); ++a) offset = offset * x.shape[static_cast<int>(a)] + at[a];
    return static_cast<std::size_t>(offset);
  };
  for_each_position(y, [&](const std::vector<std::int64_t>& at) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    std::int64_t index = -1, position = -1;
    std::vector<std::size_t> members;
    std::vector<std::int64_t> best_at;
    for_each_position(window, [&](const std::vector<std::int64_t>& in_window) {
      ++position;
      std::vector<std::int64_t> from = at;
      for (std::size_t a = 0; a < in_window.size(); ++a) {
        from[a + 1] = at[a + 1] * c.stride[a] - c.pad[a] + in_window[a] * c.step(a);
        if (from[a + 1] < 0 || from[a + 1] >= x.shape[static_cast<int>(a) + 1]) return;
      }
      const double value = x(from);
      if (index < 0 || value > best || (value != value && best == best)) best = value, index = position, best_at = from;
      sum += value;
      members.push_back(flat(from));
    });
    const double count = static_cast<double>(count_pad ? window.size() : static_cast<std::int64_t>(members.size()));
    e.max.push_back(best);
    e.index.push_back(static_cast<double>(index));
    e.average.push_back(sum / count);
    e.gather.push_back(x(best_at));
    e.max_grad[flat(best_at)] += dy(at);
    for (const std::size_t member : members) e.average_grad[member] += dy(at) / count;
  });
  return e;
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5) << what << " at " << i;
}

void expect_roles(const Case& c, Dtype type, Layout layout, bool count_pad) {
  const Array x(type, c.x, layout, 1), dy(type, c.y(), layout, 2);
  const Expected e = reference(c, x, dy, count_pad);
  const Dtype index_type = c.window_shape().size() > 256 ? Dtype::i32 : Dtype::u8;
  const auto head = [&](PoolKind kind, PoolRole role) {
    return Head{Pool{kind, role, c.window, c.stride, c.pad, count_pad, c.dilation},
                {},
                role == PoolRole::index ? index_type : type};
  };
  const std::string what = to_string(c.x) + " windows " + to_string(c.window_shape());
  expect_same(run_head(head(PoolKind::max, PoolRole::output), c.y(), {&x}), e.max, "max " + what);
  expect_same(run_head(head(PoolKind::max, PoolRole::index), c.y(), {&x}), e.index, "index " + what);
  Array index(index_type, c.y(), Layout::dense, 3);
  for (std::size_t i = 0; i < e.index.size(); ++i) index.set(index.origin + static_cast<std::int64_t>(i), e.index[i]);
  expect_same(run_head(head(PoolKind::max, PoolRole::gather), c.y(), {&x, &index}), e.gather, "gather " + what);
  expect_same(run_head(head(PoolKind::max, PoolRole::input_grad), c.x, {&dy, &index}), e.max_grad, "max grad " + what);
  if (!is_floating(type)) return;
  expect_near(run_head(head(PoolKind::average, PoolRole::output), c.y(), {&x}), e.average, "average " + what);
  expect_near(run_head(head(PoolKind::average, PoolRole::input_grad), c.x, {&dy}), e.average_grad,
              "average grad " + what);
}

class CpuPoolLayouts : public testing::TestWithParam<Layout> {};
TEST_P(CpuPoolLayouts, RolesEqualPlainLoops) {
  for (const Case& c : kCases)
    for (const bool count_pad : {false, true}) expect_roles(c, Dtype::f32, GetParam(), count_pad);
}
INSTANTIATE_TEST_SUITE_P(Every, CpuPoolLayouts, testing::ValuesIn(kLayouts));

TEST(CpuPool, EveryType) {
  for (const Dtype type : {Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::i8, Dtype::i16})
    for (const Case& c : kCases) expect_roles(c, type, Layout::dense, false);
}

TEST(CpuPool, NanWinsAndInfinityIsFound) {
  const double nan = NAN, inf = std::numeric_limits<double>::infinity();
  for (int layout = 0; layout < 2; ++layout) {
    const Case c{{1, 1, 2, 42}, {1, 2, 2}, {1, 2, 2}, {0, 0, layout}};  // with and without a padded column
    Array x(Dtype::f32, c.x, Layout::dense, 4), dy(Dtype::f32, c.y(), Layout::dense, 5);
    for (std::int64_t i = 0; i < 84; ++i) x.set(x.origin + i, i % 7 == 0 ? nan : i % 5 == 0 ? -inf : i % 11 ? 1 : inf);
    for (std::int64_t i = 0; i < 8; ++i) x.set(x.origin + i % 4 + i / 4 * 42, -inf);
    const Expected e = reference(c, x, dy, false);
    expect_same(
        run_head({Pool{PoolKind::max, PoolRole::output, c.window, c.stride, c.pad}, {}, Dtype::f32}, c.y(), {&x}),
        e.max, "max");
    expect_same(run_head({Pool{PoolKind::max, PoolRole::index, c.window, c.stride, c.pad}, {}, Dtype::u8}, c.y(), {&x}),
                e.index, "index");
  }
}

TEST(CpuPool, AWindowOfPaddingAlone) {
  // Strides past the input leave the last window nothing to see.
  const Shape x{1, 1, 1, 2}, y{1, 1, 1, 3};
  const Array values(Dtype::f32, x, Layout::dense, 6), dy(Dtype::f32, y, Layout::dense, 7);
  const auto pool = [](PoolKind kind, PoolRole role) {
    return Pool{kind, role, {1, 1, 2}, {1, 1, 2}, {0, 0, 0}, false};
  };
  EXPECT_EQ(run_head({pool(PoolKind::max, PoolRole::output), {}, Dtype::f32}, y, {&values})[2],
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(run_head({pool(PoolKind::average, PoolRole::output), {}, Dtype::f32}, y, {&values})[2], 0);
  Array index(Dtype::u8, y, Layout::dense, 8);
  for (std::int64_t i = 0; i < 3; ++i) index.set(index.origin + i, 200);  // names no place
  const std::vector<double> zeros(2, 0.0);
  expect_same(run_head({pool(PoolKind::max, PoolRole::input_grad), {}, Dtype::f32}, x, {&dy, &index}), zeros, "grad");
}

}  // namespace
}  // namespace nixie::cpu_test
