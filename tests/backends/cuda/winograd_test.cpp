// Winograd's form of 3x3 and 5x5 convolutions: lowered plans on the CPU, compiled, and on a device, against the layers
// as they were in doubles; its error beside that of multiply-adds in place.
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
  int tile = 4;
};

// Every role and epilogue over sizes that tiles of 2x2 and pieces of four channels fit, and sizes that they do not.
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
  const auto layer = [](std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t k, int pad) {
    return Layer{.n = n, .c = c, .h = size, .w = size, .k = k, .r = 3, .s = 3, .pad = {pad, pad}, .dtype = Dtype::f32};
  };
  Layer wide = layer(3, 8, 5, 24, 1), bare = layer(2, 24, 6, 8, 0), rows = layer(2, 12, 7, 20, 1),
        five = layer(3, 16, 9, 12, 2), five_bare = layer(2, 7, 12, 5, 0);
  five.r = five.s = five_bare.r = five_bare.s = 5;
  five.w = 8, five.pad = {2, 1};
  wide.w = 12, wide.pad = {2, 0};
  bare.h = 3, bare.w = 4;
  rows.row_major = true;
  Layer first = layer(2, 3, 31, 8, 2), strided = layer(3, 5, 14, 12, 1), strided_rows = layer(2, 8, 19, 6, 0);
  first.r = first.s = 11, first.stride = {4, 4}, first.w = 39;
  strided.r = strided.s = 5, strided.stride = {2, 2}, strided.pad = {2, 1};
  strided_rows.r = strided_rows.s = 7, strided_rows.stride = {3, 3}, strided_rows.row_major = true;
  const std::vector<std::pair<std::string, Layer>> layers{{"even", layer(4, 16, 8, 32, 1)},
                                                          {"odd", layer(3, 12, 9, 20, 1)},
                                                          {"one_image", layer(1, 96, 13, 64, 1)},
                                                          {"tails", layer(2, 5, 7, 7, 2)},
                                                          {"wide", wide},
                                                          {"bare", bare},
                                                          {"rows", rows},
                                                          {"five", five},
                                                          {"in_parts", layer(8, 4, 48, 4, 1)},  // of sums
                                                          {"five_bare", five_bare},
                                                          {"first", first},
                                                          {"strided", strided},
                                                          {"strided_rows", strided_rows}};
  std::vector<Case> all;
  for (int tile : {4, 2})
    for (const auto& [kind, draft] : kinds)
      for (const auto& [name, sizes] : layers)
        // Input gradients of strided layers stay as they are.
        if (sizes.stride[0] == 1 || (kind != "input_grad" && kind != "gated"))
          all.push_back({fmt::format("{}_{}_tiles_of_{}", kind, name, tile), draft, sizes, tile});
  Layer even = layer(4, 16, 8, 32, 1), odd = layer(3, 16, 9, 24, 1), unpadded = layer(2, 32, 7, 16, 0);
  even.dtype = unpadded.dtype = Dtype::f16, odd.dtype = Dtype::bf16;
  for (const auto& [kind, draft] : kinds)
    for (const auto& [name, sizes] : {std::pair{"even", even}, {"odd", odd}, {"unpadded", unpadded}})
      all.push_back({fmt::format("{}_{}_in_halves", kind, name), draft, sizes, 2});
  return all;
}

double any_number(Dtype dtype, std::mt19937& random) {
  return is_floating(dtype) ? std::uniform_real_distribution<float>(-1, 1)(random) : 0;
}

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

Draft lowered(Draft draft, int tile, std::int64_t most_bytes = kGibibyte) {
  cuda::lower_to_winograd(draft.plan, cuda::chip_named("sm_90a"), true, tile, most_bytes);
  return draft;
}

// What the matrices of two images take: of three, shares are unequal.
std::int64_t two_images(const Layer& layer, int tile) {
  const std::int64_t stride = layer.stride[0], taps = (layer.r + stride - 1) / stride,
                     lines = taps == 3 ? tile + 2 : 2 * tile + 3, both = layer.c * stride * stride + layer.k;
  const auto tiles = [&](const Shape& shape) { return (shape[2] + tile - 1) / tile * ((shape[3] + tile - 1) / tile); };
  return 2 * static_cast<std::int64_t>(size_of(layer.dtype)) * lines * lines *
         std::max(stride == 1 ? tiles(layer.x()) : 0, tiles(layer.y())) * both;
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
    const std::vector<Array> found = cuda_plans::run(backend, lowered(plain, GetParam().tile, most_bytes), times,
                                                     any_number),
                             expected =
                                 cuda_plans::run(*make_cpu_backend(), cuda_plans::in_doubles(plain), 1, any_number);
    const Dtype dtype = GetParam().layer.dtype;
    const double bound = dtype == Dtype::f16    ? 0x1p-9
                         : dtype == Dtype::bf16 ? 0x1p-6
                         : GetParam().tile == 2 ? 2e-6
                                                : 5e-6;
    for (std::size_t i = 0; i < found.size(); ++i)
      cuda_plans::expect_close(found[i], expected[i], {.of_itself = bound, .of_largest = bound},
                               fmt::format("{} output {}", plain.name, i));
  }
};

TEST_P(CudaWinograd, AgreesWithDoublesOnTheCpu) {
  const Draft plan = lowered(draft(), GetParam().tile);
  for (const Kernel& kernel : plan.plan.kernels)
    EXPECT_FALSE(kernel.head && std::holds_alternative<Conv>(kernel.head->op));
  expect_right(*make_cpu_backend(), 1);
}

TEST_P(CudaWinograd, AgreesWithDoublesInSharesOfImages) {
  const Layer& layer = GetParam().layer;
  const int tile = GetParam().tile;
  const std::size_t whole = lowered(draft(), tile).plan.kernels.size();
  for (std::int64_t most_bytes : {std::int64_t{1}, two_images(layer, tile)}) {
    const std::size_t shared = lowered(draft(), tile, most_bytes).plan.kernels.size();
    EXPECT_EQ(shared > whole, layer.n > (most_bytes == 1 ? 1 : 2));
    expect_right(*make_cpu_backend(), 1, most_bytes);
  }
}

TEST_P(CudaWinograd, AgreesWithDoublesOnADevice) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  expect_right(*cuda, 3);
  expect_right(*cuda, 1, two_images(GetParam().layer, GetParam().tile));
  expect_right(*make_validating_backend(cuda, make_cpu_backend()), 1);
}

void add_programs(CudaPrograms& programs, const Case& of, int spilled_bytes = 0) {
  const cuda::Chip chip = cuda::chip_named("sm_80");
  Plan plan = lowered(of.draft(of.name, of.layer), of.tile).plan;
  cuda::lower(plan, chip);
  plan_memory(plan);
  EXPECT_TRUE(std::any_of(plan.groups.begin(), plan.groups.end(),
                          [](const Group& group) { return cuda::blas_problem(group) != nullptr; }))
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

// Transforms for tiles of 2x2 add and halve, so results of small integers are exact.
TEST(CudaWinograd, SmallIntegersAreExact) {
  const auto integers = [](Dtype, std::mt19937& random) {
    return static_cast<double>(std::uniform_int_distribution<int>(-8, 8)(random));
  };
  for (const Case& c : cases()) {
    const Draft plain = c.draft(c.name, c.layer);
    if (c.tile != 2 || c.layer.dtype != Dtype::f32 || c.name.starts_with("updated")) continue;  // by what is none
    const std::vector<Array> found = cuda_plans::run(*make_cpu_backend(), lowered(plain, c.tile), 1, integers),
                             expected = cuda_plans::run(*make_cpu_backend(), plain, 1, integers);
    for (std::size_t i = 0; i < found.size(); ++i)
      cuda_plans::expect_close(found[i], expected[i], {}, fmt::format("{} output {}", c.name, i));
  }
}

// The CPU's own kernels add in lanes, and err a quarter of what one chain of multiply-adds does.
TEST(CudaWinograd, ErrsLittleMoreThanMultiplyAdds) {
  Layer three{.n = 2, .c = 128, .h = 14, .w = 14, .k = 64, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::f32};
  Layer five = three;
  five.r = five.s = 5, five.pad = {2, 2};
  for (const Layer& layer : {three, five})
    for (const Draft& plain :
         {hopper_plans::forward("forward", layer, Forward::plain), hopper_plans::input_grad("input_grad", layer, false),
          hopper_plans::filter_grad("filter_grad", layer, Gradient::stored)}) {
      const auto cpu = make_cpu_backend();
      const Array expected = cuda_plans::run(*cpu, cuda_plans::in_doubles(plain), 1, any_number)[0];
      const double direct = error_of(cuda_plans::run(*cpu, plain, 1, any_number)[0], expected);
      for (int tile : {2, 4}) {
        const double winograd = error_of(cuda_plans::run(*cpu, lowered(plain, tile), 1, any_number)[0], expected);
        const std::string name = fmt::format("{}_{}x{}_tiles_of_{}", plain.name, layer.r, layer.s, tile);
        RecordProperty(name, fmt::format("{:.2e}, direct {:.2e}", winograd, direct));
        EXPECT_LT(winograd, (tile == 2 ? 4 : 8) * direct) << name << ": direct " << direct;
        EXPECT_LT(winograd, tile == 2 ? 1e-6 : 2e-6) << name;
      }
    }
}

// Rounding windows, filters and products to halves errs about three times what rounding a result once does.
TEST(CudaWinograd, ErrsLittleMoreThanHalvesDo) {
  const auto normal_halves = [](Dtype dtype, std::mt19937& random) {
    return is_floating(dtype) ? convert<double>(convert<Half>(std::normal_distribution<float>()(random))) : 0.;
  };
  const Layer layer{.n = 1, .c = 128, .h = 12, .w = 12, .k = 128, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::f16};
  for (const Draft& plain :
       {hopper_plans::forward("forward", layer, Forward::plain), hopper_plans::input_grad("input_grad", layer, false),
        hopper_plans::filter_grad("filter_grad", layer, Gradient::half)}) {
    const auto cpu = make_cpu_backend();
    const Array expected = cuda_plans::run(*cpu, cuda_plans::in_doubles(plain), 1, normal_halves)[0];
    const double direct = error_of(cuda_plans::run(*cpu, plain, 1, normal_halves)[0], expected),
                 winograd = error_of(cuda_plans::run(*cpu, lowered(plain, 2), 1, normal_halves)[0], expected);
    EXPECT_GT(winograd, direct) << plain.name;
    EXPECT_LT(winograd, 4 * direct) << plain.name;
  }
}

// Large layers of many channels pay; what is small, strided, of halves or allowed to round stays as it was.
TEST(CudaWinograd, IsForLayersItPaysFor) {
  const Layer deep{.n = 64, .c = 256, .h = 28, .w = 28, .k = 512, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::f32};
  const auto kernels = [](const Layer& layer) {
    Plan plan = hopper_plans::forward("layer", layer, Forward::bias_relu).plan;
    cuda::lower_to_winograd(plan, cuda::chip_named("sm_90a"));
    return plan.kernels.size();
  };
  EXPECT_EQ(kernels(deep), 4u);
  const Layer first{.n = 128,
                    .c = 3,
                    .h = 224,
                    .w = 224,
                    .k = 64,
                    .r = 11,
                    .s = 11,
                    .stride = {4, 4},
                    .pad = {2, 2},
                    .dtype = Dtype::f32};
  EXPECT_EQ(kernels(first), 6u);
  Layer small = deep, shallow = deep, strided = deep, wide = deep, half = deep, rounded = deep;
  small.n = 1, small.h = small.w = 4;
  shallow.c = 3;
  strided.stride = {2, 2};
  wide.r = 2;
  half.dtype = Dtype::f16;
  rounded.math = Math::fp32;
  for (const Layer& layer : {small, shallow, strided, wide, half, rounded}) EXPECT_EQ(kernels(layer), 1u);
}

// On Hopper chips, whose direct kernels are twenty times as fast in halves, very many channels pay: Overfeat's last two
// layers; not those of VGG and AlexNet.
TEST(CudaWinograd, IsForVeryManyChannelsInHalves) {
  struct Expected {
    Layer layer;
    bool tiled;
  };
  const auto layer = [](int n, int c, int size, int k, Dtype dtype = Dtype::f16) {
    return Layer{.n = n, .c = c, .h = size, .w = size, .k = k, .r = 3, .s = 3, .pad = {1, 1}, .dtype = dtype};
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
      Plan tiled = draft.plan, stays = draft.plan;
      cuda::lower_to_winograd(tiled, cuda::chip_named("sm_90a"), true);
      cuda::lower_to_winograd(stays, cuda::chip_named("sm_90a"));
      EXPECT_EQ(tiled.kernels.size() > draft.plan.kernels.size(), of.tiled) << to_string(draft.plan);
      EXPECT_EQ(stays.kernels.size(), draft.plan.kernels.size()) << "other chips multiply in place";
    }
}

// The matrices of a large layer are made in shares: four equal ones of 64 images, three of 61, which is prime; its
// filter's once, and once for the forward pass and the gradient.
TEST(CudaWinograd, KeepsMemorySmall) {
  Layer large{.n = 64, .c = 64, .h = 112, .w = 112, .k = 128, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::f32};
  struct Expected {
    std::int64_t images;
    int tile, shares;
  };
  for (const Expected& e : {Expected{64, 2, 4}, {61, 2, 3}, {64, 4, 2}, {61, 4, 2}}) {
    large.n = e.images;
    for (const Draft& draft :
         {hopper_plans::forward("forward", large, Forward::plain), hopper_plans::input_grad("input_grad", large, true),
          hopper_plans::filter_grad("filter_grad", large, Gradient::stored)}) {
      Plan plan = lowered(draft, e.tile).plan;
      plan_memory(plan);
      EXPECT_LT(plan.arena_bytes, kGibibyte + (std::int64_t{64} << 20)) << draft.name;
      int products = 0;
      for (const Kernel& kernel : plan.kernels) products += kernel.head.has_value();
      EXPECT_EQ(products, e.shares) << draft.name << " of " << e.images << " in tiles of " << e.tile;
    }
  }
  Draft both = hopper_plans::forward("both", large, Forward::plain);
  Kernel again = both.plan.kernels[0];
  again.stores = {both.dense(hopper_plans::image_output(both, Dtype::f32, large.y()))};
  both.plan.kernels.push_back(again);
  int filters = 0;
  for (const Kernel& kernel : lowered(both, 4).plan.kernels) filters += kernel.label == "filter elements";
  EXPECT_EQ(filters, 1);
}

// The filter gradient reads the windows that the forward pass transformed, unless x was written in between.
TEST(CudaWinograd, WindowsAreTransformedOnce) {
  const Layer layer{.n = 8, .c = 12, .h = 9, .w = 9, .k = 8, .r = 3, .s = 3, .pad = {1, 1}, .dtype = Dtype::f32};
  Draft both = hopper_plans::forward("both", layer, Forward::plain);
  Kernel gradient = hopper_plans::filter_grad("", layer, Gradient::stored).plan.kernels[0];
  const int dy = hopper_plans::image(both, Dtype::f32, layer.y()), dw = both.slot(Dtype::f32, layer.filter());
  const Operand x = both.plan.kernels[0].head->operands[0];
  gradient.head->operands = {hopper_plans::operand(both, dy), x};
  gradient.stores = {both.dense(dw)};
  both.outputs.push_back(dw);
  both.plan.kernels.push_back(gradient);
  const auto transforms = [](const Draft& draft) {
    const auto& kernels = lowered(draft, 4).plan.kernels;
    return std::count_if(kernels.begin(), kernels.end(), [](const Kernel& kernel) { return kernel.label == "tiles"; });
  };
  EXPECT_EQ(transforms(both), 2);
  const auto cpu = make_cpu_backend();
  const std::vector<Array> found = cuda_plans::run(*cpu, lowered(both, 4), 1, any_number),
                           expected = cuda_plans::run(*cpu, cuda_plans::in_doubles(both), 1, any_number);
  for (std::size_t i = 0; i < found.size(); ++i)
    cuda_plans::expect_close(found[i], expected[i], {.of_itself = 5e-6, .of_largest = 5e-6}, fmt::format("{}", i));
  Kernel write{.label = "write", .domain = x.shape};
  write.stores = {{.slot = x.slot, .offset = x.offset, .strides = x.strides}};
  write.stages = {{.body = {{.primitive = Primitive::constant}}, .stores = {{0, 0}}}};
  both.plan.kernels.insert(both.plan.kernels.begin() + 1, write);
  EXPECT_EQ(transforms(both), 3);
}

}  // namespace
}  // namespace nixie
#endif
