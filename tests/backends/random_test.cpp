// Random numbers: published Philox vectors, independence of streams, and normals against double precision.
#include "nixie/core/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "nixie/core/base/box_muller.h"

namespace nixie {
namespace {

TEST(Philox, KnownAnswers) {
  // Random123's kat_vectors, philox4x32 with 10 rounds.
  struct Row {
    std::array<std::uint32_t, 4> counter;
    std::array<std::uint32_t, 2> key;
    std::array<std::uint32_t, 4> out;
  };
  const Row rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Row& row : rows)
    EXPECT_EQ(philox(row.counter, row.key[0] | static_cast<std::uint64_t>(row.key[1]) << 32), row.out);
}

TEST(RandomStream, DependsOnSeedAndPurpose) {
  std::set<std::uint64_t> streams;
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    for (const char* purpose : {"", "a", "b", "features.0/dropout", "features.1/dropout"})
      streams.insert(random_stream(seed, purpose));
  EXPECT_EQ(streams.size(), 500u);
  EXPECT_EQ(random_stream(7, "init"), random_stream(7, "init"));
}

// Distance in units of the last place of the exact value.
double ulps(float got, double exact) {
  const double magnitude = std::max(std::abs(exact), 0x1p-126);
  return std::abs(got - exact) / std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

TEST(Normals, RadiusMatchesDouble) {
  double worst = 0;
  for (std::uint32_t k = 0; k < (1u << 24); k += k < 4096 || k > (1u << 24) - 4096 ? 1 : 61) {
    const double u = (k + 1.0) * 0x1p-24;
    worst = std::max(worst, ulps(box_muller_radius(k << 8 | 0xab), std::sqrt(-2 * std::log(u))));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(box_muller_radius(0xffffffff), 0);
}

TEST(Normals, DirectionMatchesDouble) {
  double worst = 0;
  for (std::uint32_t k = 0; k < (1u << 24); k += 61) {
    const Direction d = box_muller_direction(k << 8);
    const std::int64_t quarter = std::llround(k * 0x1p-22);  // reduce first: double's pi is not exact either
    const double rest = 2 * std::numbers::pi * (k - quarter * 0x1p22) * 0x1p-24;
    const double c = std::cos(rest), s = std::sin(rest);
    const double cosines[] = {c, -s, -c, s}, sines[] = {s, c, -s, -c};
    worst = std::max({worst, ulps(d.cosine, cosines[quarter % 4]), ulps(d.sine, sines[quarter % 4])});
  }
  EXPECT_LT(worst, 2.0);
}

TEST(Normals, Moments) {
  double sum[5] = {0, 0, 0, 0, 0};
  const int blocks = 500000;
  const std::uint64_t key = random_stream(1, "moments");
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const auto words = philox({i, 0, 3, 0}, key);
    for (int half = 0; half < 4; half += 2) {
      const auto pair = normals_from(words[static_cast<std::size_t>(half)], words[static_cast<std::size_t>(half) + 1]);
      for (double x : pair) {
        double power = 1;
        for (double& s : sum) s += power, power *= x;
      }
    }
  }
  const double n = sum[0];
  ASSERT_EQ(n, 4.0 * blocks);
  // Four standard errors of each moment of a standard normal.
  EXPECT_NEAR(sum[1] / n, 0, 4 * std::sqrt(1 / n));
  EXPECT_NEAR(sum[2] / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(sum[3] / n, 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(sum[4] / n, 3, 4 * std::sqrt(96 / n));
}

TEST(Uniforms, MomentsAndRange) {
  double sum = 0, squares = 0;
  const int blocks = 250000;
  for (std::uint32_t i = 0; i < blocks; ++i)
    for (std::uint32_t word : philox({i, 0, 0, 0}, random_stream(2, "uniform"))) {
      const float u = uniform_from(word);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      sum += u, squares += u * u;
    }
  const double n = 4.0 * blocks;
  EXPECT_NEAR(sum / n, 0.5, 4 * std::sqrt(1 / 12.0 / n));
  EXPECT_NEAR(squares / n, 1 / 3.0, 4 * std::sqrt(4 / 45.0 / n));
  EXPECT_EQ(uniform_from(0xffffffff), 1 - 0x1p-24f);
}

}  // namespace
}  // namespace nixie
