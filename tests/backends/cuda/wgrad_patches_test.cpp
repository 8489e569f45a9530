// Patches of filter gradients: every tap meets every pixel's gradient exactly once, at the place where the copy engine
// put the pixel that belongs to it; what is chosen fits registers and shared memory.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/conv/wgrad_patches.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/hopper_cases.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie::cuda {
namespace {

// A pixel of images or of gradients; outside of them all are zeros.
struct Pixel {
  int image = 0, h = 0, w = 0;
  auto operator<=>(const Pixel&) const = default;
};

// The contents of a box of {images, columns, rows} from `first` on, as the copy engine fills it: images fastest.
std::vector<Pixel> box_at(const Pixel& first, int images, int columns, int rows) {
  std::vector<Pixel> places;
  for (int h = 0; h < rows; ++h)
    for (int w = 0; w < columns; ++w)
      for (int image = 0; image < images; ++image) places.push_back({first.image + image, first.h + h, first.w + w});
  return places;
}

struct Sizes {
  int images, p, q, pad_h, pad_w;
};

// Goes through all terms of all products as the tensor cores do: groups of 8 neighbouring places, a pitch apart in the
// patch and side by side in the gradients.
void expect_every_term_once(const WgradPatch& patch, const Sizes& sizes, int patches) {
  std::map<std::pair<int, Pixel>, int> seen;  // tap and gradient
  for (int tile = 0; tile < patch.tiles(); ++tile)
    for (int i = 0; i < patches; ++i) {
      const auto corner = patch.corner(i, sizes.p, sizes.q);
      const auto tap0 = patch.tap(tile, 0, 0);
      const std::vector<Pixel> gradients =
          box_at({corner.image, corner.h, corner.w}, patch.together, patch.wide(), patch.high);
      const std::vector<Pixel> pixels = box_at({corner.image, corner.h + tap0.h * patch.dilation_h - sizes.pad_h,
                                                corner.w + tap0.w * patch.dilation_w - sizes.pad_w},
                                               patch.together, patch.columns(), patch.rows());
      ASSERT_EQ(std::ssize(gradients), 8 * patch.high);
      ASSERT_EQ(std::ssize(pixels), patch.places());
      for (int line = 0; line < patch.lines; ++line)
        for (int in_run = 0; in_run < patch.run; ++in_run)
          for (int term = 0; term < 8 * patch.high; ++term) {
            const int place =
                line * patch.line_step() + in_run * patch.run_step() + term / 8 * patch.pitch() + term % 8;
            ASSERT_LT(place, patch.places());
            const Pixel& at = gradients[static_cast<std::size_t>(term)];
            const auto tap = patch.tap(tile, line, in_run);
            if (!patch.has(tap) || at.image >= sizes.images || at.h >= sizes.p || at.w >= sizes.q) continue;
            const Pixel expected{at.image, at.h + tap.h * patch.dilation_h - sizes.pad_h,
                                 at.w + tap.w * patch.dilation_w - sizes.pad_w};
            ASSERT_EQ(pixels[static_cast<std::size_t>(place)], expected) << "tap " << tap.h << ' ' << tap.w;
            ++seen[{tap.h * patch.taps_w + tap.w, at}];
          }
    }
  EXPECT_EQ(std::ssize(seen), std::ptrdiff_t{1} * patch.taps_h * patch.taps_w * sizes.images * sizes.p * sizes.q);
  for (const auto& [term, times] : seen) ASSERT_EQ(times, 1) << "tap " << term.first;
}

ConvProblem gradient(int images, int channels, int size_h, int size_w, int filters, int r, int s,
                     std::array<int, 2> pad, std::array<int, 2> dilation = {1, 1}, int groups = 1) {
  ConvProblem conv{.role = ConvRole::filter_grad,
                   .images = images,
                   .channels = channels,
                   .height = size_h,
                   .width = size_w,
                   .filters = filters,
                   .r = r,
                   .s = s,
                   .groups = groups};
  conv.stride = {1, 1}, conv.pad = pad, conv.dilation = dilation;
  conv.p = size_h + 2 * pad[0] - dilation[0] * (r - 1), conv.q = size_w + 2 * pad[1] - dilation[1] * (s - 1);
  return conv;
}

// Squares, odd sizes, windows of all shapes, dilations, groups.
std::vector<ConvProblem> problems() {
  return {gradient(128, 64, 56, 56, 64, 3, 3, {1, 1}),       gradient(64, 64, 224, 224, 64, 3, 3, {1, 1}),
          gradient(128, 128, 28, 28, 128, 3, 3, {1, 1}),     gradient(128, 256, 14, 14, 256, 3, 3, {1, 1}),
          gradient(128, 512, 7, 7, 512, 3, 3, {1, 1}),       gradient(3, 96, 19, 23, 192, 5, 5, {2, 2}),
          gradient(5, 128, 17, 17, 128, 1, 7, {0, 3}),       gradient(5, 128, 17, 17, 192, 7, 1, {3, 0}),
          gradient(7, 32, 13, 13, 128, 3, 3, {1, 1}),        gradient(2, 16, 31, 9, 48, 3, 3, {0, 1}),
          gradient(3, 72, 21, 20, 40, 3, 3, {2, 4}, {2, 4}), gradient(9, 512, 12, 12, 256, 3, 3, {1, 1}, {1, 1}, 2),
          gradient(16, 128, 28, 28, 32, 3, 3, {1, 1}),       gradient(1, 24, 5, 6, 8, 2, 4, {0, 0})};
}

TEST(CudaWgradPatches, EveryTapMeetsEveryGradientOnce) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 300; ++i) {
    const WgradPatch patch{.taps_h = draw(1, 5),
                           .taps_w = draw(1, 7),
                           .dilation_h = draw(1, 3),
                           .dilation_w = draw(1, 3),
                           .together = 1 << draw(0, 3),
                           .high = 2 * draw(1, 8),
                           .down = draw(0, 1) == 1,
                           .run = draw(1, 4),
                           .lines = draw(1, 3)};
    const Sizes sizes{draw(1, 9), draw(1, 20), draw(1, 20), draw(0, 3), draw(0, 3)};
    const ConvProblem conv{.images = sizes.images, .p = sizes.p, .q = sizes.q};
    expect_every_term_once(patch, sizes, static_cast<int>(patches_of(conv, patch)));
    if (HasFailure()) FAIL() << "case " << i;
  }
}

// With images and gradients in each other's place, the taps from the last, the same pixels meet.
TEST(CudaWgradPatches, TurnedOnesMeetTheSamePixels) {
  for (const ConvProblem& conv : problems()) {
    const ConvProblem other = turned(conv);
    EXPECT_EQ(std::pair(other.channels, other.filters), std::pair(conv.filters, conv.channels));
    for (const std::size_t axis : {0u, 1u}) {
      const int taps = axis == 0 ? conv.r : conv.s, results = axis == 0 ? conv.p : conv.q,
                pixels = axis == 0 ? conv.height : conv.width;
      EXPECT_EQ(axis == 0 ? other.p : other.q, pixels);
      EXPECT_EQ(axis == 0 ? other.height : other.width, results);
      for (int tap = 0; tap < taps; ++tap)
        for (int result = 0; result < results; ++result) {
          const int pixel = result + tap * conv.dilation[axis] - conv.pad[axis];
          EXPECT_EQ(pixel + (taps - 1 - tap) * other.dilation[axis] - other.pad[axis], result);
        }
    }
    const ConvProblem back = turned(other);
    EXPECT_EQ(std::pair(back.pad, back.p), std::pair(conv.pad, conv.p));
  }
}

TEST(CudaWgradPatches, ChosenOnesFit) {
  const Chip chip = chip_named("sm_90a");
  for (const ConvProblem& conv : problems()) {
    SCOPED_TRACE(operation_text(conv));
    const auto tile = gradient_patch(conv, chip);
    ASSERT_TRUE(tile.has_value());
    const int sums = tile->mma_m * tile->n() / 2;
    EXPECT_LE(sums, tile->consumers == 3 ? 96 : 128);
    EXPECT_LE(1024 + tile->stages * tile->stage_bytes() + tile->consumers * 8192, dynamic_shared_bytes(chip));
    EXPECT_EQ(tile->consumers % tile->patch.lines, 0);
    EXPECT_TRUE(tile->n() % 32 == 0 && tile->n() <= 256);
    ConvProblem few = tile->turned ? turned(conv) : conv;
    const Sizes sizes{std::min(few.images, 9), few.p, few.q, few.pad[0], few.pad[1]};
    few.images = sizes.images;
    if (conv.p < 100) expect_every_term_once(tile->patch, sizes, static_cast<int>(patches_of(few, tile->patch)));
  }
}

// Also where the estimate takes other tiles.
TEST(CudaWgradPatches, CompileWithoutSpills) {
  const Chip chip = chip_named("sm_90a");
  CudaPrograms programs;
  for (const hopper_plans::Case& of : hopper_plans::cases()) {
    if (!of.name.starts_with("filter_grad")) continue;
    Plan plan = of.draft().plan;
    lower(plan, chip);
    plan_memory(plan);
    for (const Group& group : plan.groups)
      for (const Algorithm& algorithm : generate(plan, group, chip).algorithms)
        if (algorithm.name.starts_with("patches"))
          programs.add(generate(plan, group, chip, algorithm.name), "", of.name + " by " + algorithm.name);
  }
  EXPECT_GE(programs.size(), 12u);
  programs.expect_compile("sm_90a");
}

// Where 64 filters leave too few products for what L2 gives, patches are estimated faster than tiles of one tap each;
// strided windows and single taps have none.
TEST(CudaWgradPatches, AreChosenWhereTilesWaitForL2) {
  const Chip chip = chip_named("sm_90a");
  const auto faster = [&](const ConvProblem& conv) {
    const auto patch = gradient_patch(conv, chip);
    return patch && patch->clocks < static_cast<double>(gradient_tiles(conv, chip).front().clocks);
  };
  EXPECT_TRUE(faster(gradient(128, 64, 56, 56, 64, 3, 3, {1, 1})));
  EXPECT_TRUE(faster(gradient(64, 64, 224, 224, 64, 3, 3, {1, 1})));
  EXPECT_FALSE(faster(gradient(128, 64, 56, 56, 64, 1, 1, {0, 0})));
  ConvProblem strided = gradient(128, 64, 56, 56, 64, 3, 3, {1, 1});
  strided.stride = {2, 2}, strided.p = strided.q = 28;
  EXPECT_FALSE(gradient_patch(strided, chip).has_value());
}

}  // namespace
}  // namespace nixie::cuda
#endif
