// The CPU's convolution in its three roles against plain loops: spatial ranks, strides, pads, dilations, groups.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "nixie/backends/cpu/contract/conv/conv.h"
#include "nixie/tests/backends/cpu/head.h"

namespace nixie::cpu_test {
namespace {

struct Case {
  std::int64_t batch, channels, filters;
  std::vector<std::int64_t> in, window;
  std::vector<int> stride, pad, dilation;
  int groups;

  std::int64_t out(std::size_t a) const {
    return (in[a] + 2 * pad[a] - dilation[a] * (window[a] - 1) - 1) / stride[a] + 1;
  }
  Shape shape(std::int64_t first, std::int64_t second, std::vector<std::int64_t> sizes) const {
    sizes.insert(sizes.begin(), {first, second});
    return Shape(sizes);
  }
  Shape x() const { return shape(batch, channels, in); }
  Shape w() const { return shape(filters, channels / groups, window); }
  Shape y() const {
    std::vector<std::int64_t> sizes;
    for (std::size_t a = 0; a < in.size(); ++a) sizes.push_back(out(a));
    return shape(batch, filters, sizes);
  }
};

const Case kCases[] = {
    {2, 3, 4, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 1, 32, {28, 28}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},
    {1, 20, 36, {9, 9}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},
    {2, 3, 17, {35, 39}, {11, 11}, {4, 4}, {2, 2}, {1, 1}, 1},
    {1, 5, 6, {13, 11}, {3, 2}, {2, 3}, {1, 0}, {2, 1}, 1},
    {2, 6, 9, {10, 7}, {3, 3}, {1, 2}, {2, 1}, {1, 2}, 3},
    {2, 8, 8, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 8},   // depthwise
    {2, 4, 12, {12, 12}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 4},  // depthwise, 3 filters a channel
    {3, 9, 9, {23, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 9},   // depthwise, rows of several vectors
    {3, 9, 9, {23, 37}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 9},   // the same with a stride
    {2, 37, 37, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 37},  // depthwise, channels as lanes
    {2, 19, 19, {11, 9}, {3, 3}, {2, 1}, {1, 2}, {1, 2}, 19},
    {3, 16, 16, {9, 10}, {2, 2}, {3, 3}, {0, 0}, {1, 1}, 16},
    {2, 20, 20, {5, 6, 7}, {2, 3, 3}, {1, 2, 1}, {1, 1, 0}, {1, 1, 1}, 20},
    {2, 3, 6, {5, 9, 40}, {2, 5, 5}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, 3},
    {3, 20, 24, {6, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 2},  // images read in place
    {3, 40, 8, {4, 8}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {3, 5, 24, {12, 10}, {5, 5}, {1, 1}, {0, 0}, {1, 1}, 1},    // the same, rows ending in a window
    {2, 140, 24, {33, 31}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},  // several blocks of pixels
    {2, 2, 24, {150, 151}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},  // a result of more than 4 MiB
    {2, 16, 24, {7, 7}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1},     // the stride passes inputs over
    {3, 10, 36, {9, 40}, {1, 1}, {3, 2}, {0, 0}, {1, 1}, 2},
    {2, 4, 6, {5, 6, 7}, {1, 1, 1}, {1, 2, 3}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 12, 20, {12, 33}, {3, 4}, {2, 2}, {1, 1}, {1, 1}, 1},  // lines of two phases, of odd and even length
    {2, 12, 20, {12, 34}, {4, 3}, {1, 2}, {1, 2}, {1, 1}, 1},
    {1, 6, 20, {34, 12}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 1},
    {2, 5, 7, {4, 5}, {2, 2}, {3, 3}, {0, 0}, {1, 1}, 1},
    {2, 3, 5, {4, 4}, {2, 2}, {1, 1}, {3, 3}, {1, 1}, 1},  // pad beyond the window
    {20, 4, 5, {6}, {3}, {1}, {1}, {1}, 1},
    {2, 4, 6, {50}, {4}, {3}, {2}, {2}, 2},
    {2, 3, 5, {5, 6, 7}, {3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, 1},
    {1, 4, 4, {6, 5, 9}, {2, 3, 3}, {2, 1, 3}, {1, 1, 2}, {1, 2, 1}, 2},
    {2, 3, 4, {3, 3}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1},  // one output pixel
    // In Winograd's tiles: lines that end inside a tile, blocks of several images, groups, any padding.
    {3, 24, 40, {13, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 17, 33, {57, 70}, {3, 3}, {1, 1}, {0, 2}, {1, 1}, 1},
    {9, 64, 40, {7, 7}, {3, 3}, {1, 1}, {3, 1}, {1, 1}, 2},
    {2, 300, 24, {8, 8}, {3, 3}, {1, 1}, {2, 0}, {1, 1}, 1},
    {1, 90, 20, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},  // several chunks of depth
    {2, 2, 100, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {0, 2, 3, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
};

/// The convolution in each of its roles: its operands, and the shape of its result.
struct Roles {
  Conv op;
  Shape result;
  const Array *first, *second;
};
std::vector<Roles> roles_of(const Case& c, const Array& x, const Array& w, const Array& dy, Math math = Math::fp32) {
  const auto op = [&](ConvRole role) { return Conv{role, c.stride, c.pad, c.dilation, c.groups, math}; };
  return {{op(ConvRole::output), c.y(), &x, &w},
          {op(ConvRole::input_grad), c.x(), &dy, &w},
          {op(ConvRole::filter_grad), c.w(), &dy, &x}};
}

void expect_roles(const Case& c, Dtype type, Layout layout, int threads) {
  const Array x(type, c.x(), layout, 1), w(type, c.w(), layout, 2), dy(type, c.y(), layout, 3);
  for (const auto& [op, result, first, second] : roles_of(c, x, w, dy))
    expect_same(run_head({op, {}, type}, result, {first, second}, threads), plain_sums(op, *first, *second, result),
                fmt::format("role {} {} {}", static_cast<int>(op.role), to_string(c.x()), to_string(c.w())));
}

class CpuConvLayouts : public testing::TestWithParam<Layout> {};
TEST_P(CpuConvLayouts, RolesEqualPlainLoops) {
  for (const Case& c : kCases) expect_roles(c, Dtype::f32, GetParam(), 2);
}
INSTANTIATE_TEST_SUITE_P(Every, CpuConvLayouts, testing::ValuesIn(kLayouts));

// Else every image is copied, which no result shows.
TEST(CpuConv, DenseImagesAreKnown) {
  cpu::ThreadPool pool(1);
  for (const std::vector<std::int64_t>& size : {std::vector<std::int64_t>{9}, {5, 7}, {4, 5, 7}}) {
    std::vector<std::int64_t> sizes{2, 3};
    sizes.insert(sizes.end(), size.begin(), size.end());
    const Shape shape(sizes);
    cpu::Sizes three{1, 1, 1};
    std::copy(size.rbegin(), size.rend(), three.rbegin());
    const std::vector<float> numbers(static_cast<std::size_t>(2 * shape.size()));
    const auto dense_with = [&](const Strides& strides) {
      const cpu::BoundOperand operand{reinterpret_cast<const std::byte*>(numbers.data()), Dtype::f32, shape, strides};
      return cpu::ImageView<float>(cpu::Strided<float>(operand, pool)).is_dense(3, three);
    };
    Strides strides = shape.row_major();
    EXPECT_TRUE(dense_with(strides)) << to_string(shape);
    strides[0] += 1;
    EXPECT_FALSE(dense_with(strides)) << to_string(shape);
  }
}

TEST(CpuConv, EveryType) {
  for (const Dtype type : {Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::i8})
    for (const Case& c : {kCases[0], kCases[5], kCases[6], kCases[11], kCases[19], kCases[21]})
      expect_roles(c, type, Layout::gaps, 2);
}

void expect_same_bits(const Case& c) {
  Array x(Dtype::f32, c.x(), Layout::dense, 1), w(Dtype::f32, c.w(), Layout::dense, 2);
  Array dy(Dtype::f32, c.y(), Layout::dense, 3);
  for (std::int64_t i = 0; i < w.shape.size(); ++i) w.set(w.origin + i, std::sin(static_cast<double>(i)));
  for (std::int64_t i = 0; i < x.shape.size(); ++i) x.set(x.origin + i, std::cos(static_cast<double>(i)));
  for (const auto& [op, result, first, second] : roles_of(c, x, w, dy)) {
    const Head head{op, {}, Dtype::f32};
    const std::vector<double> one = run_head(head, result, {first, second}, 1);
    for (const int threads : {2, 5, 16}) expect_same(run_head(head, result, {first, second}, threads), one, "threads");
  }
}

TEST(CpuConv, SameBitsForAnyNumberOfThreads) {
  const Case cases[] = {{5, 20, 40, {15, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
                        {3, 64, 80, {14, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},  // Winograd's tiles
                        {5, 12, 12, {15, 15}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 12},
                        {5, 24, 24, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 24},
                        {7, 40, 50, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1}};
  for (const Case& c : cases) expect_same_bits(c);
}

// Tiles of 2x2 err as plain sums do, for operands that are no whole numbers.
TEST(CpuConv, WinogradsTilesAreAsExactAsFloats) {
  const Case c{2, 128, 48, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
  Array x(Dtype::f32, c.x(), Layout::dense, 1), w(Dtype::f32, c.w(), Layout::dense, 2);
  Array dy(Dtype::f32, c.y(), Layout::dense, 3);
  for (Array* array : {&x, &w, &dy})
    for (std::int64_t i = 0; i < array->shape.size(); ++i)
      array->set(array->origin + i, std::sin(static_cast<double>(i * i % 9973)));
  for (const auto& [op, result, first, second] : roles_of(c, x, w, dy)) {
    const std::vector<double> actual = run_head({op, {}, Dtype::f32}, result, {first, second}),
                              expected = plain_sums(op, *first, *second, result);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
      size += expected[i] * expected[i];
    }
    EXPECT_LT(std::sqrt(error / size), 1e-6) << static_cast<int>(op.role);
  }
}

// Each result is a sum of its own products, however large its neighbours are: an error of at most 8 sqrt(n) 2^-24 of
// the sum of their sizes, and an exact zero where all of them are zero.
TEST(CpuConv, IeeeSumsItsOwnProducts) {
  const Case c{2, 64, 64, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
  Array x(Dtype::f32, c.x(), Layout::dense, 1), w(Dtype::f32, c.w(), Layout::dense, 2);
  Array dy(Dtype::f32, c.y(), Layout::dense, 3);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (Array* array : {&x, &w, &dy})
    for (std::int64_t i = 0; i < array->shape.size(); ++i)
      array->set(array->origin + i, random() % 8 == 0 ? normal(random) * std::exp(4 * normal(random)) : 0);
  const auto magnitudes = [](const Array& array) {
    Array sizes = array;
    const std::vector<double> values = array.values();
    for (std::size_t i = 0; i < values.size(); ++i)
      sizes.set(sizes.origin + static_cast<std::int64_t>(i), std::abs(values[i]));
    return sizes;
  };
  for (const auto& [op, result, first, second] : roles_of(c, x, w, dy, Math::ieee)) {
    const std::vector<double> actual = run_head({op, {}, Dtype::f32}, result, {first, second}),
                              sum = plain_sums(op, *first, *second, result),
                              size = plain_sums(op, magnitudes(*first), magnitudes(*second), result);
    const double terms = op.role == ConvRole::filter_grad ? 2 * 14 * 14 : 64 * 9;
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_LE(std::abs(actual[i] - sum[i]), 8 * std::sqrt(terms) * 0x1p-24 * size[i])
          << static_cast<int>(op.role) << " at " << i;
  }
}

}  // namespace
}  // namespace nixie::cpu_test
