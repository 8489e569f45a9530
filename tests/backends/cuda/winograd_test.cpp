// Winograd's form of 3x3 convolutions of halves: lowered plans on the CPU, compiled, and on a device, against the
// layers as they were in doubles; its error beside that of sums in place.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/validate.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/draft_runner.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

using cuda_plans::Draft;
using hopper_plans::Forward;
using hopper_plans::Gradient;
using hopper_plans::Layer;

struct Case {
  std::string name;
  std::function<Draft(const std::string&, const Layer&)> draft;
  Layer layer;
};

// Every role and epilogue over sizes that tiles of 2x2 fit, and sizes that they do not.
std::vector<Case> cases() {
  const std::vector<std::pair<std::string, std::function<Draft(const std::string&, const Layer&)>>> kinds{
      {"forward", [](auto& name, auto& layer) { return hopper_plans::forward(name, layer, Forward::bias_relu); }},
      {"residual", [](auto& name, auto& layer) { return hopper_plans::forward(name, layer, Forward::residual); }},
      {"two_stores", [](auto& name, auto& layer) { return hopper_plans::forward(name, layer, Forward::two_stores); }},
      {"row_major",
       [](auto& name, auto& layer) { return hopper_plans::forward(name, layer, Forward::row_major_store); }},
      {"input_grad", [](auto& name, auto& layer) { return hopper_plans::input_grad(name, layer, false); }},
      {"gated", [](auto& name, auto& layer) { return hopper_plans::input_grad(name, layer, true); }},
      {"filter_grad",
       [](auto& name, auto& layer) { return hopper_plans::filter_grad(name, layer, Gradient::with_bias); }},
      {"updated", [](auto& name, auto& layer) { return hopper_plans::filter_grad(name, layer, Gradient::updated); }}};
  const auto layer = [](std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t k, int pad, Dtype dtype) {
    return Layer(fmt::format("{}x{}x{}x{} by {}x3x3 pad {} {}", n, c, size, size, k, pad, dtype));
  };
  Layer wide = layer(3, 8, 5, 24, 1, Dtype::f16), bare = layer(2, 24, 6, 8, 0, Dtype::bf16),
        rows = layer(2, 16, 7, 24, 1, Dtype::f16);
  wide.w = 12, wide.pad = {2, 0};
  bare.h = 3, bare.w = 4;
  rows.row_major = true;
  const std::vector<std::pair<std::string, Layer>> layers{{"even", layer(4, 16, 8, 32, 1, Dtype::f16)},
                                                          {"odd", layer(3, 16, 9, 24, 1, Dtype::bf16)},
                                                          {"unpadded", layer(2, 32, 7, 16, 0, Dtype::f16)},
                                                          {"one_image", layer(1, 96, 13, 64, 1, Dtype::f16)},
                                                          {"tails", layer(2, 8, 7, 8, 2, Dtype::bf16)},
                                                          {"wide", wide},
                                                          {"bare", bare},
                                                          {"rows", rows},
                                                          {"in_parts", layer(8, 8, 48, 8, 1, Dtype::f16)}};  // of sums
  std::vector<Case> all;
  for (const auto& [kind, draft] : kinds)
    for (const auto& [name, sizes] : layers) all.push_back({fmt::format("{}_{}", kind, name), draft, sizes});
  return all;
}

double any_number(Dtype dtype, std::mt19937& random) {
  return is_floating(dtype) ? std::uniform_real_distribution<float>(-1, 1)(random) : 0;
}

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

Draft lowered(Draft draft, std::int64_t most_bytes = kGibibyte) {
  cuda::lower_to_winograd(draft.plan, cuda::chip_named("sm_90a"), true, most_bytes);
  return draft;
}

// The memory of the matrices of two images: shares of three are unequal.
std::int64_t two_images(const Layer& layer) {
  const auto tiles = [](const Shape& shape) { return (shape[2] + 1) / 2 * ((shape[3] + 1) / 2); };
  return 2 * static_cast<std::int64_t>(size_of(layer.dtype)) * 16 * std::max(tiles(layer.x()), tiles(layer.y())) *
         (layer.c + layer.k);
}

// Root mean square of the difference over that of the reference.
double error_of(const Array& found, const Array& expected) {
  const auto a = found.to_vector<double>(), b = expected.to_vector<double>();
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(error / size);
}

class CudaWinograd : public testing::TestWithParam<Case> {
 protected:
  Draft draft() const { return GetParam().draft(GetParam().name, GetParam().layer); }
  void expect_right(Backend& backend, int times, std::int64_t most_bytes = kGibibyte) const {
    const Draft plain = draft();
    const double bound = GetParam().layer.dtype == Dtype::f16 ? 0x1p-9 : 0x1p-6;
    cuda_plans::expect_close(cuda_plans::run(backend, lowered(plain, most_bytes), times, any_number),
                             cuda_plans::run_in_doubles(plain, any_number),
                             cuda_plans::Bound{.of_itself = bound, .of_largest = bound}, plain.name);
  }
};

TEST_P(CudaWinograd, AgreesWithDoublesOnTheCpu) {
  const Draft plan = lowered(draft());
  for (const Kernel& kernel : plan.plan.kernels)
    EXPECT_FALSE(kernel.head && std::holds_alternative<Conv>(kernel.head->op));
  expect_right(*make_cpu_backend(), 1);
}

TEST_P(CudaWinograd, AgreesWithDoublesInSharesOfImages) {
  const Layer& layer = GetParam().layer;
  const std::size_t whole = lowered(draft()).plan.kernels.size();
  for (std::int64_t most_bytes : {std::int64_t{1}, two_images(layer)}) {
    const std::size_t shared = lowered(draft(), most_bytes).plan.kernels.size();
    EXPECT_EQ(shared > whole, layer.n > (most_bytes == 1 ? 1 : 2));
    expect_right(*make_cpu_backend(), 1, most_bytes);
  }
}

TEST_P(CudaWinograd, AgreesWithDoublesOnADevice) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  expect_right(*cuda, 3);
  expect_right(*cuda, 1, two_images(GetParam().layer));
  expect_right(*make_validating_backend(cuda, make_cpu_backend()), 1);
}

void add_programs(CudaPrograms& programs, const Case& of, int spilled_bytes = 0) {
  const cuda::Chip chip = cuda::chip_named("sm_80");
  Plan plan = lowered(of.draft(of.name, of.layer)).plan;
  cuda::lower(plan, chip);
  plan_memory(plan);
  EXPECT_TRUE(std::ranges::any_of(plan.groups, [](const Group& group) { return cuda::blas_problem(group) != nullptr; }))
      << of.name << ": the library multiplies";
  programs.add(plan, chip, of.name, spilled_bytes);
}

TEST(CudaWinograd, EachFormCompilesWithoutSpills) {
  CudaPrograms programs;
  for (const Case& of : cases()) add_programs(programs, of);
  programs.one_of_each_form().expect_compile("sm_90a");
}

// For sm_100 ptxas takes 80 registers, so that three blocks go beside, and spills two of a kernel of 68 accesses.
TEST_P(CudaWinograd, LongCompilesWithoutSpills) {
  for (const auto& [architecture, spilled_bytes] : {std::pair("sm_80", 0), {"sm_90a", 0}, {"sm_100", 8}}) {
    CudaPrograms programs;
    add_programs(programs, GetParam(), spilled_bytes);
    programs.expect_compile(architecture);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaWinograd, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// Rounding windows, filters and products to halves errs about three times what rounding a result once does.
TEST(CudaWinograd, ErrsLittleMoreThanHalvesDo) {
  const auto normal_halves = [](Dtype dtype, std::mt19937& random) {
    return is_floating(dtype) ? convert<double>(convert<Half>(std::normal_distribution<float>()(random))) : 0.;
  };
  const Layer layer{"1x128x12x12 by 128x3x3 pad 1"};
  for (const Draft& plain :
       {hopper_plans::forward("forward", layer, Forward::plain), hopper_plans::input_grad("input_grad", layer, false),
        hopper_plans::filter_grad("filter_grad", layer, Gradient::half)}) {
    const auto cpu = make_cpu_backend();
    const Array expected = cuda_plans::run_in_doubles(plain, normal_halves)[0];
    const double direct = error_of(cuda_plans::run(*cpu, plain, 1, normal_halves)[0], expected),
                 winograd = error_of(cuda_plans::run(*cpu, lowered(plain), 1, normal_halves)[0], expected);
    EXPECT_GT(winograd, direct) << plain.name;
    EXPECT_LT(winograd, 4 * direct) << plain.name;
  }
}

// f32 stays direct under any policy, and so do other windows and strides.
TEST(CudaWinograd, LeavesOtherLayersAlone) {
  const Layer deep{"128x1024x12x12 by 1024x3x3 pad 1"};
  const auto kernels = [](const Layer& layer) {
    Plan plan = hopper_plans::forward("layer", layer, Forward::bias_relu).plan;
    cuda::lower_to_winograd(plan, cuda::chip_named("sm_90a"), true);
    return plan.kernels.size();
  };
  EXPECT_EQ(kernels(deep), 4u);
  Layer strided = deep, wide = deep, five = deep, strict = deep, rounded = deep;
  strided.stride = {2, 2};
  wide.r = 2;
  five.r = five.s = 5;
  strict.dtype = rounded.dtype = Dtype::f32;
  rounded.math = Math::fp32;
  for (const Layer& layer : {strided, wide, five, strict, rounded}) EXPECT_EQ(kernels(layer), 1u);
}

// On Hopper chips, whose direct kernels are twenty times as fast in halves, very many channels pay: Overfeat's last two
// layers; not those of VGG and AlexNet.
TEST(CudaWinograd, IsForVeryManyChannelsInHalves) {
  struct Expected {
    Layer layer;
    bool tiled;
  };
  const auto layer = [](int n, int c, int size, int k, Dtype dtype = Dtype::f16) {
    return Layer(fmt::format("{}x{}x{}x{} by {}x3x3 pad 1 {}", n, c, size, size, k, dtype));
  };
  for (const Expected& of : {Expected{layer(128, 1024, 12, 1024), true},
                             {layer(128, 512, 12, 1024), true},
                             {layer(128, 1024, 12, 1024, Dtype::bf16), true},
                             {layer(128, 256, 12, 512), false},
                             {layer(64, 512, 28, 512), false},
                             {layer(64, 512, 14, 512), false},
                             {layer(64, 256, 28, 512), false},
                             {layer(64, 256, 56, 256), false},
                             {layer(128, 384, 13, 256), false}})
    for (const Draft& draft : {hopper_plans::forward("forward", of.layer, Forward::bias_relu),
                               hopper_plans::input_grad("input_grad", of.layer, true),
                               hopper_plans::filter_grad("filter_grad", of.layer, Gradient::half)}) {
      Plan tiled = draft.plan;
      cuda::lower_to_winograd(tiled, cuda::chip_named("sm_90a"));
      EXPECT_EQ(tiled.kernels.size() > draft.plan.kernels.size(), of.tiled) << to_string(draft.plan);
    }
}

// The matrices of a large layer are made in shares: four equal ones of 128 images, three of 113, which is prime; its
// filter's once, and once for the forward pass and the gradient.
TEST(CudaWinograd, KeepsMemorySmall) {
  Layer large{"64x64x112x112 by 128x3x3 pad 1"};
  struct Expected {
    std::int64_t images;
    int shares;
  };
  for (const Expected& e : {Expected{128, 4}, {113, 3}}) {
    large.n = e.images;
    for (const Draft& draft :
         {hopper_plans::forward("forward", large, Forward::plain), hopper_plans::input_grad("input_grad", large, true),
          hopper_plans::filter_grad("filter_grad", large, Gradient::stored)}) {
      Plan plan = lowered(draft).plan;
      plan_memory(plan);
      EXPECT_LT(plan.arena_bytes, kGibibyte + (std::int64_t{64} << 20)) << draft.name;
      int products = 0;
      for (const Kernel& kernel : plan.kernels) products += kernel.head.has_value();
      EXPECT_EQ(products, e.shares) << draft.name << " of " << e.images;
    }
  }
  Draft both = hopper_plans::forward("both", large, Forward::plain);
  Kernel again = both.plan.kernels[0];
  again.stores = {both.dense(hopper_plans::image_output(both, Dtype::f16, large.y()))};
  both.plan.kernels.push_back(again);
  int filters = 0;
  for (const Kernel& kernel : lowered(both).plan.kernels) filters += kernel.label == "filter elements";
  EXPECT_EQ(filters, 1);
}

// The filter gradient reads the windows that the forward pass transformed, unless x was written in between.
TEST(CudaWinograd, WindowsAreTransformedOnce) {
  const Layer layer{"8x16x9x9 by 8x3x3 pad 1"};
  Draft both = hopper_plans::forward("both", layer, Forward::plain);
  Kernel gradient = hopper_plans::filter_grad("", layer, Gradient::stored).plan.kernels[0];
  const int dy = hopper_plans::image(both, Dtype::f16, layer.y()), dw = both.slot(Dtype::f32, layer.filter());
  const Operand x = both.plan.kernels[0].head->operands[0];
  gradient.head->operands = {hopper_plans::operand(both, dy), x};
  gradient.stores = {both.dense(dw)};
  both.outputs.push_back(dw);
  both.plan.kernels.push_back(gradient);
  const auto transforms = [](const Draft& draft) {
    const auto& kernels = lowered(draft).plan.kernels;
    return std::ranges::count_if(kernels, [](const Kernel& kernel) { return kernel.label == "tiles"; });
  };
  EXPECT_EQ(transforms(both), 2);
  cuda_plans::expect_close(cuda_plans::run(*make_cpu_backend(), lowered(both), 1, any_number),
                           cuda_plans::run_in_doubles(both, any_number),
                           cuda_plans::Bound{.of_itself = 0x1p-9, .of_largest = 0x1p-9}, "both");
  Kernel write{.label = "write", .domain = x.shape};
  write.stores = {{.slot = x.slot, .offset = x.offset, .strides = x.strides}};
  write.stages = {{.body = {{.primitive = Primitive::constant}}, .stores = {{0, 0}}}};
  both.plan.kernels.insert(both.plan.kernels.begin() + 1, write);
  EXPECT_EQ(transforms(both), 3);
}

}  // namespace
}  // namespace nixie
#endif
