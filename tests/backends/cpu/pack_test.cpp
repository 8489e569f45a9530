// Panels of weights and pixels as tiles read them: every layout of the source, and nothing written behind the panel.
#include "nixie/backends/cpu/contract/pack.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {
namespace {

constexpr float kUntouched = -1;
constexpr std::int64_t kBehind = 64;

TEST(CpuPack, PanelsOfAnyLayout) {
  constexpr std::int64_t kMost = 3 * kLanes<float>;
  for (std::int64_t lanes = 1; lanes <= kMost; ++lanes)
    for (const std::int64_t depth : {1, 3, 9, 16, 37})
      for (const bool whole_vectors : {false, true})
        for (const auto& [lane_stride, depth_stride] : {std::pair<std::int64_t, std::int64_t>{1, kMost},
                                                        {depth, 1},
                                                        {depth + 5, 1},
                                                        {9, 9 * kMost},
                                                        {1, -kMost}}) {
          const std::int64_t width =
              whole_vectors ? (lanes + kLanes<float> - 1) / kLanes<float> * kLanes<float> : lanes;
          std::vector<float> from(static_cast<std::size_t>(2 * 9 * kMost * 40));
          std::iota(from.begin(), from.end(), 0.0f);
          const float* origin = from.data() + from.size() / 2;
          std::vector<float> panel(static_cast<std::size_t>(width * depth + kBehind), kUntouched);
          pack_lanes(origin, lane_stride, depth_stride, lanes, width, depth, panel.data());
          for (std::int64_t i = 0; i < std::ssize(panel); ++i) {
            const std::int64_t k = i / width, lane = i % width;
            const float expected = k >= depth      ? kUntouched
                                   : lane >= lanes ? 0
                                                   : origin[lane * lane_stride + k * depth_stride];
            ASSERT_EQ(panel[static_cast<std::size_t>(i)], expected)
                << lanes << " lanes of " << width << ", depth " << depth << ", strides " << lane_stride << " and "
                << depth_stride << ", element " << i;
          }
        }
}

}  // namespace
}  // namespace nixie::cpu
