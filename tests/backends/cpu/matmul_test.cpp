// The CPU's matmul against plain loops: sizes from 0 to many tiles, every layout and type, any number of threads.
#include <cmath>

#include "nixie/tests/backends/cpu/head.h"

namespace nixie::cpu_test {
namespace {

struct Case {
  Shape batch;
  std::int64_t m, k, n;
};
Shape join(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> sizes = batch.sizes();
  sizes.insert(sizes.end(), {rows, columns});
  return Shape(sizes);
}

const Case kCases[] = {{{}, 1, 1, 1},     {{}, 3, 5, 7},      {{}, 17, 33, 49},     {{}, 1, 300, 70},
                       {{}, 70, 300, 1},  {{}, 64, 0, 5},     {{}, 0, 4, 3},        {{}, 130, 129, 97},
                       {{}, 9, 9000, 11}, {{2}, 4, 3, 5},     {{3, 2}, 16, 20, 48}, {{0}, 2, 2, 2},
                       {{40}, 5, 6, 17},  {{}, 300, 40, 200}, {{}, 16, 300, 500}};

class CpuMatmulLayouts : public testing::TestWithParam<std::tuple<Layout, Layout>> {};

TEST_P(CpuMatmulLayouts, EqualPlainLoops) {
  const auto [left, right] = GetParam();
  for (const Case& c : kCases) {
    const Array a(Dtype::f32, join(c.batch, c.m, c.k), left, 1), b(Dtype::f32, join(c.batch, c.k, c.n), right, 2);
    const Shape domain = join(c.batch, c.m, c.n);
    expect_same(run_head({Matmul{}, {}, Dtype::f32}, domain, {&a, &b}), plain_sums(Matmul{}, a, b, domain),
                to_string(domain));
  }
}
INSTANTIATE_TEST_SUITE_P(Every, CpuMatmulLayouts,
                         testing::Combine(testing::ValuesIn(kLayouts), testing::ValuesIn(kLayouts)));

TEST(CpuMatmul, EveryType) {
  for (const Dtype type : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::i8})
    for (const Layout layout : kLayouts) {
      const Array a(type, {2, 19, 37}, layout, 3), b(type, {2, 37, 53}, Layout::dense, 4);
      const Shape domain{2, 19, 53};
      expect_same(run_head({Matmul{}, {}, type}, domain, {&a, &b}), plain_sums(Matmul{}, a, b, domain),
                  std::string(to_string(type)));
    }
}

TEST(CpuMatmul, SameBitsForAnyNumberOfThreads) {
  for (const auto& [m, k, n] : {std::tuple{32, 9000, 24}, {16, 1000, 2000}, {500, 64, 300}, {200, 200, 200}}) {
    Array a(Dtype::f32, {m, k}, Layout::dense, 5), b(Dtype::f32, {k, n}, Layout::dense, 6);
    for (std::int64_t i = 0; i < a.shape.size(); ++i) a.set(a.origin + i, std::sin(static_cast<double>(i)));
    const Shape domain{m, n};
    const std::vector<double> one = run_head({Matmul{}, {}, Dtype::f32}, domain, {&a, &b}, 1);
    for (const int threads : {2, 5, 16})
      expect_same(run_head({Matmul{}, {}, Dtype::f32}, domain, {&a, &b}, threads), one, to_string(domain));
    const std::vector<double> expected = plain_sums(Matmul{}, a, b, domain);
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], expected[i], 2e-6 * std::sqrt(k) * 10);
  }
}

TEST(CpuMatmul, NanSpreadsToItsRowAlone) {
  Array a(Dtype::f32, {20, 30}, Layout::dense, 7), b(Dtype::f32, {30, 40}, Layout::dense, 8);
  a.set(a.element({3, 5}), NAN);
  const Shape domain{20, 40};
  expect_same(run_head({Matmul{}, {}, Dtype::f32}, domain, {&a, &b}), plain_sums(Matmul{}, a, b, domain), "NaN");
}

}  // namespace
}  // namespace nixie::cpu_test
