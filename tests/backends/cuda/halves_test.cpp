// Halves for f32 convolutions: planes and scales as lowering makes them, and a tf32 layer from end to end, on the CPU.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/array.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/memory.h"
#include "nixie/tests/backends/cuda/hopper_plans.h"
#include "nixie/tests/backends/cuda/splitting.h"

namespace nixie {
namespace {

using hopper_plans::Layer;

// Values of any magnitude a spread allows, zeros among them; in storage order.
Array spread_values(const Slot& slot, double spread, double size, unsigned seed) {
  Array array(slot.dtype, slot.shape);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (float& x : array.data<float>())
    x = random() % 16 == 0 ? 0.0F : static_cast<float>(size * normal(random) * std::exp(spread * normal(random)));
  return array;
}

// The contents of slots after a plan ran on the CPU; external slots hold `inputs` before.
std::vector<Array> run(Plan plan, const std::vector<Array>& inputs, const std::vector<int>& wanted) {
  for (int slot : wanted)
    if (Slot& s = plan.slots[at(slot)]; !s.external) s.external = true, plan.externals.push_back(slot);
  plan_memory(plan);
  const auto cpu = make_cpu_backend(1);
  std::vector<std::shared_ptr<Buffer>> buffers, of_slot(plan.slots.size());
  for (std::size_t i = 0; i < plan.externals.size(); ++i) {
    const auto slot = static_cast<std::size_t>(plan.externals[i]);
    buffers.push_back(of_slot[slot] = cpu->allocate(plan.slots[slot].size_bytes()));
    if (i < inputs.size()) cpu->upload(inputs[i].bytes(), *buffers.back(), inputs[i].size_bytes());
  }
  cpu->compile(plan)->run(buffers, plan.scalars);
  std::vector<Array> results;
  for (int slot : wanted) {
    const Slot& s = plan.slots[at(slot)];
    results.emplace_back(s.dtype, Shape{s.shape.size()});  // as stored
    cpu->download(*of_slot[at(slot)], results.back().bytes(), results.back().size_bytes());
  }
  return results;
}

std::vector<Array> draw_inputs(const Plan& plan, double spread, double size) {
  std::vector<Array> inputs;
  for (int slot : plan.externals)
    inputs.push_back(spread_values(plan.slots[at(slot)], spread, size, 3u + static_cast<unsigned>(slot)));
  return inputs;
}

const cuda::Choice& choice_of(const Group& group) {
  return dynamic_cast<const cuda::Implementers&>(*group.implementation).choices.front();
}

Plan lowered_plan(const cuda_plans::Draft& draft) {
  Plan plan = draft.plan;
  cuda::lower(plan, splitting(cuda::chip_named("sm_90a"), plan));
  return plan;
}

// The group that runs the convolution, and the plan without it.
std::pair<cuda::Choice, Plan> lowered(const cuda_plans::Draft& draft) {
  Plan plan = lowered_plan(draft);
  const cuda::Choice product = choice_of(plan.groups.back());
  EXPECT_TRUE(product.kernel.head);
  plan.kernels.pop_back();
  plan.groups.clear();
  return {product, plan};
}

// The kernels that programs compute of planes in place of members, where any backend runs those, too.
Plan of_planes(const Plan& lowered) {
  Plan plan = lowered;
  plan.kernels.clear(), plan.groups.clear();
  for (const Group& group : lowered.groups) {
    const cuda::Choice& choice = choice_of(group);
    const auto* pool = choice.kernel.head ? std::get_if<Pool>(&choice.kernel.head->op) : nullptr;
    const bool runs = choice.kernel.head && (!pool || pool->role == PoolRole::input_grad);
    if (runs) plan.kernels.push_back(choice.kernel);
    if (!runs)
      for (int k : group.members) plan.kernels.push_back(lowered.kernels[at(k)]);
  }
  return plan;
}

// |found - expected| / |expected|, of all elements together.
double relative_error(const Array& found, const Array& expected) {
  const auto a = found.to_vector<double>(), b = expected.to_vector<double>();
  double error = 0, size = 0;
  for (std::size_t j = 0; j < a.size(); ++j) error += (a[j] - b[j]) * (a[j] - b[j]), size += b[j] * b[j];
  return std::sqrt(error / size);
}

// The scales of images, which are the first that lowering adds.
int scales_of_images(const Plan& plan) {
  const auto scales = std::ranges::find(plan.slots, "scales to halves", &Slot::name);
  EXPECT_NE(scales, plan.slots.end());
  return static_cast<int>(scales - plan.slots.begin());
}

// high + low / 2^11 is the value times its channel's scale to 22 bits, or, far below the largest, to part of that.
TEST(CudaHalves, TwoPlanesHoldTheValue) {
  constexpr std::size_t kChannels = 8;
  for (double size : {1.0, 1e-30, 1e20})
    for (double spread : {0.0, 2.0, 6.0}) {
      const Layer layer(fmt::format("2x{}x6x5 by 16x3x3 f32 fp32", kChannels));
      const auto [product, plan] = lowered(hopper_plans::forward("planes", layer, hopper_plans::Forward::plain));
      ASSERT_EQ(product.low_planes.size(), 2u);
      const std::vector<Array> inputs = draw_inputs(plan, spread, size);
      const std::vector<Array> found = run(
          plan, inputs, {product.kernel.head->operands[0].slot, product.low_planes[0].slot, scales_of_images(plan)});
      const auto x = inputs[0].to_vector<double>(), high = found[0].to_vector<double>(),
                 low = found[1].to_vector<double>(), scale = found[2].to_vector<double>();
      std::vector<double> largest(kChannels);
      for (std::size_t i = 0; i < x.size(); ++i)
        largest[i % kChannels] = std::max(largest[i % kChannels], std::abs(x[i]));
      for (std::size_t c = 0; c < kChannels; ++c) {
        int exponent = 0;
        EXPECT_EQ(std::frexp(scale[c], &exponent), 0.5) << "a scale is a power of two";
        EXPECT_EQ(scale[c] * scale[kChannels + c], 1.0);
        EXPECT_LT(largest[c] * scale[c], 40000);
        EXPECT_GE(largest[c] * scale[c], 8000);
      }
      ASSERT_EQ(x.size(), high.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR((high[i] + low[i] / 2048) * scale[kChannels + i % kChannels], x[i],
                    0x1p-22 * std::abs(x[i]) + 0x1p-48 * largest[i % kChannels])
            << "spread " << spread << ", size " << size << ", element " << i;
    }
}

// Numbers whose channels and images or filters have scales of their own, each from 2^-30 to 2^30; channels-last.
Array channels_of_any_scale(const Slot& slot, unsigned seed, bool by_first) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto scales = [&](std::int64_t count) {
    std::vector<double> made(static_cast<std::size_t>(count));
    for (double& scale : made) scale = std::ldexp(1.0, static_cast<int>(random() % 61) - 30);
    return made;
  };
  const std::vector<double> first = scales(slot.shape[0]), channel = scales(slot.shape[1]);
  Array array(slot.dtype, slot.shape);
  std::size_t i = 0;
  const std::size_t channels = channel.size(), of_first = static_cast<std::size_t>(slot.shape.size()) / first.size();
  for (float& x : array.data<float>()) {
    x = static_cast<float>(normal(random) * channel[i % channels] * (by_first ? first[i / of_first] : 1.0));
    ++i;
  }
  return array;
}

// The value that an access loads at a position.
double loaded(const Access& access, const std::vector<double>& values, const Shape& domain, std::int64_t position) {
  std::int64_t place = access.offset;
  for (int axis = domain.rank() - 1; axis >= 0; position /= domain[axis], --axis)
    place += position % domain[axis] * access.strides[at(axis)];
  return values[at(place)];
}

// Whatever the scales of channels, results are as exact as sums of 20 bits: of each role, in groups, too.
TEST(CudaHalves, ChannelsOfAnyScaleKeepTheirDigits) {
  for (const int groups : {1, 2}) {
    const Layer layer =
        groups > 1 ? "2x128x6x5 by 128x3x3 pad 1 groups 2 f32 fp32" : "2x32x6x5 by 64x3x3 pad 1 f32 fp32";
    Layer exact = layer;
    exact.dtype = Dtype::f64, exact.math = Math::ieee;
    const auto drafts = [](const Layer& of) {
      return std::vector{hopper_plans::forward("output", of, hopper_plans::Forward::plain),
                         hopper_plans::input_grad("input_grad", of, false),
                         hopper_plans::filter_grad("filter_grad", of, hopper_plans::Gradient::stored)};
    };
    const std::vector<cuda_plans::Draft> halves = drafts(layer);
    std::vector<cuda_plans::Draft> sums = drafts(exact);
    for (std::size_t role = 0; role < sums.size(); ++role) {
      cuda_plans::Draft& sum = sums[role];
      sum.plan.kernels[0].head->dtype = Dtype::f64, sum.plan.kernels[0].stages[0].body[0].type = Dtype::f64;
      for (int slot : sum.outputs) sum.plan.slots[at(slot)].dtype = Dtype::f64;
      const auto [product, plan] = lowered(halves[role]);
      ASSERT_EQ(product.low_planes.size(), 2u) << sum.name;
      std::vector<Array> inputs;
      for (int i : {0, 1})
        inputs.push_back(channels_of_any_scale(plan.slots[at(plan.externals[at(i)])], 5u + static_cast<unsigned>(i),
                                               i == 1 && role < 2));
      std::vector<int> wanted{product.kernel.head->operands[0].slot, product.kernel.head->operands[1].slot,
                              product.low_planes[0].slot, product.low_planes[1].slot};
      for (const Access& access : product.kernel.loads) wanted.push_back(access.slot);
      const std::vector<Array> found = run(plan, inputs, wanted);
      const auto sum_of = [&](const auto& element) {
        std::vector<Array> operands;
        for (std::size_t i : {0u, 1u}) {
          operands.emplace_back(Dtype::f64, inputs[i].shape());
          for (std::size_t j = 0; double& x : operands.back().data<double>()) x = element(i, j++);
        }
        return run(sum.plan, operands, sum.outputs)[0].to_vector<double>();
      };
      std::vector<std::vector<double>> values, given{inputs[0].to_vector<double>(), inputs[1].to_vector<double>()};
      for (const Array& array : found) values.push_back(array.to_vector<double>());
      const auto scaled = sum_of([&](std::size_t i, std::size_t j) { return values[i][j] + values[i + 2][j] / 2048; }),
                 expected = sum_of([&](std::size_t i, std::size_t j) { return given[i][j]; }),
                 sizes = sum_of([&](std::size_t i, std::size_t j) { return std::abs(given[i][j]); });
      const Shape& domain = sum.plan.kernels[0].domain;
      const Strides& memory = sum.plan.kernels[0].stores[0].strides;
      for (std::int64_t position = 0; position < domain.size(); ++position) {
        double inverse = 1;
        for (std::size_t i = 0; i < product.kernel.loads.size(); ++i)
          inverse *= loaded(product.kernel.loads[i], values[4 + i], domain, position);
        const auto at_position = [&](const std::vector<double>& v) {
          return loaded({.strides = memory}, v, domain, position);
        };
        ASSERT_NEAR(at_position(scaled) * inverse, at_position(expected), 0x1p-20 * at_position(sizes))
            << sum.name << " in " << groups << " groups, position " << position;
      }
    }
  }
}

// A value that is not finite stays so, and leaves the scale alone; nothing but zeros stays so.
TEST(CudaHalves, LiveWithInfinityNanAndZeros) {
  const Layer layer{"1x8x4x4 by 8x3x3 f32 fp32"};
  const auto [product, plan] = lowered(hopper_plans::forward("planes", layer, hopper_plans::Forward::plain));
  std::vector<Array> inputs = draw_inputs(plan, 1, 1);
  inputs[0].data<float>()[5] = std::numeric_limits<float>::infinity();
  inputs[0].data<float>()[9] = std::numeric_limits<float>::quiet_NaN();
  for (float& w : inputs[1].data<float>()) w = 0;
  const std::vector<Operand>&high_planes = product.kernel.head->operands, &low_planes = product.low_planes;
  const std::vector<Array> found =
      run(plan, inputs,
          {high_planes[0].slot, low_planes[0].slot, high_planes[1].slot, low_planes[1].slot, scales_of_images(plan)});
  const auto high = found[0].to_vector<double>(), low = found[1].to_vector<double>();
  for (std::size_t i = 0; i < high.size(); ++i) EXPECT_EQ(std::isfinite(high[i] + low[i]), i != 5 && i != 9) << i;
  for (double scale : found[4].to_vector<double>()) EXPECT_TRUE(std::isfinite(scale));
  for (int plane : {2, 3})
    for (double w : found[at(plane)].to_vector<double>()) EXPECT_EQ(w, 0);
}

// Rows of a first layer: channel s * C + c of column q is what tap s of column q reads.
TEST(CudaHalves, PackRowsOfAFirstLayer) {
  const Layer layer{"2x3x9x11 by 16x5x7 stride 2x3 pad 1x2 f32 fp32"};
  const auto [product, plan] = lowered(hopper_plans::forward("rows", layer, hopper_plans::Forward::plain));
  const std::vector<Array> inputs = draw_inputs(plan, 0, 1);
  const Operand &x = product.kernel.head->operands[0], &w = product.kernel.head->operands[1];
  const std::vector<Array> found =
      run(plan, inputs, {x.slot, w.slot, scales_of_images(plan), product.kernel.loads[0].slot});
  EXPECT_EQ(x.shape, (Shape{2, 32, 9, layer.y()[3]}));
  EXPECT_EQ(w.shape, (Shape{16, 32, 5, 1}));
  const auto images = inputs[0].to_vector<double>(), filters = inputs[1].to_vector<double>(),  // channels last
      packed_x = found[0].to_vector<double>(), packed_w = found[1].to_vector<double>();
  const auto of_x = found[2].to_vector<double>(), of_w = found[3].to_vector<double>();  // 3 scales, 16, their inverses
  std::size_t i = 0;
  for (int n = 0; n < 2; ++n)
    for (int h = 0; h < 9; ++h)
      for (int q = 0; q < x.shape[3]; ++q)
        for (int channel = 0; channel < 32; ++channel, ++i) {
          const int s = channel / 3, c = channel % 3, column = q * 3 + s - 2;
          const bool inside = s < 7 && column >= 0 && column < 11;
          const double expected = inside ? images[at(((n * 9 + h) * 11 + column) * 3 + c)] : 0;
          ASSERT_NEAR(packed_x[i] * of_x[at(3 + c)], expected, 0x1p-11 * std::abs(expected) + 1e-9)
              << n << h << q << channel;
        }
  for (i = 0; i < packed_w.size(); ++i) {
    const std::size_t row = i / 32, channel = i % 32;
    const double expected = channel < 21 ? filters[row * 21 + channel] : 0;
    const double one = of_w[16 + i / (5 * 32)] * of_x[channel % 3];  // filters take up the inverse of x's scale
    ASSERT_NEAR(packed_w[i] * one, expected, 0x1p-11 * std::abs(expected) + 1e-9) << i;
  }
}

// The other backends can run a plan of one plane: the result is that of the f32 plan to 11 bits of its operands.
TEST(CudaHalves, OnePlaneAgreesWithTheLayer) {
  const Layer base{"2x16x7x6 by 8x3x2 pad 1x0 f32 tf32"};
  Layer rows = base;
  rows.c = 2;
  const std::vector<cuda_plans::Draft> drafts{
      hopper_plans::forward("forward", base, hopper_plans::Forward::residual),
      hopper_plans::forward("rows", rows, hopper_plans::Forward::bias_relu),
      hopper_plans::input_grad("input_grad", base, true),
      hopper_plans::filter_grad("filter_grad", base, hopper_plans::Gradient::updated)};
  for (const cuda_plans::Draft& draft : drafts) {
    const Plan plan = of_planes(lowered_plan(draft));
    EXPECT_GT(plan.kernels.size(), draft.plan.kernels.size()) << draft.name;
    const std::vector<Array> inputs = draw_inputs(draft.plan, 1, 100);
    const std::vector<Array> found = run(plan, inputs, draft.outputs),
                             expected = run(draft.plan, inputs, draft.outputs);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LT(relative_error(found[i], expected[i]), 0x1p-10) << draft.name << " output " << i;
  }
}

// A linear layer's three products read its operands' planes, one as rows and one as columns.
TEST(CudaHalves, AreSharedByAMatrixAndItsTranspose) {
  constexpr std::int64_t kSize = 1024;
  cuda_plans::Draft draft("linear");
  const Shape square{kSize, kSize};
  const int x = draft.slot(Dtype::f32, square), w = draft.slot(Dtype::f32, square), dy = draft.slot(Dtype::f32, square);
  const auto rows = [&](int slot) { return Operand{slot, 0, square, {kSize, 1}}; };
  const auto columns = [&](int slot) { return Operand{slot, 0, square, {1, kSize}}; };
  const auto product = [&](const Operand& a, const Operand& b) {
    Kernel kernel{.label = "matmul", .domain = square, .head = Head{Matmul{Math::fp32}, {a, b}, Dtype::f32}};
    kernel.stores = {draft.dense(draft.output(Dtype::f32, square))};
    kernel.stages = {{.body = {{.primitive = Primitive::head}}, .stores = {{0, 0}}}};
    draft.plan.kernels.push_back(kernel);
  };
  product(rows(x), columns(w)), product(rows(dy), rows(w)), product(columns(dy), rows(x));
  const Plan whole = lowered_plan(draft), plan = of_planes(whole);
  EXPECT_EQ(whole.kernels.size(), 3u + 4 * 2u) << "scales and planes of x and dy, and of w with those of each";
  const std::vector<Array> inputs = draw_inputs(draft.plan, 1, 100);
  const std::vector<Array> found = run(plan, inputs, draft.outputs), expected = run(draft.plan, inputs, draft.outputs);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(relative_error(found[i], expected[i]), 0x1p-10) << i;
}

// A pooling's gradient leaves its kernel in halves: no kernel fills them, and the gradient itself is not stored.
TEST(CudaHalves, PoolingsMakeThem) {
  const Layer layer{"2x8x9x12 by 16x3x3 pad 1 f32 tf32"};
  for (const std::vector<int>& window : {std::vector{2, 2}, {3, 3}}) {
    const cuda_plans::Draft draft = hopper_plans::pooled_gradient("pooled", layer, window);
    const Plan whole = lowered_plan(draft), plan = of_planes(whole);
    const auto fills = [&](const Group& group) {
      return group.members.size() == 2 && whole.kernels[at(group.members[0])].head;
    };
    EXPECT_EQ(std::ranges::count_if(whole.groups, fills), 2);  // the index, the planes
    for (const Group& group : whole.groups)
      for (int slot : group.writes)
        EXPECT_FALSE(plan.slots[at(slot)].dtype == Dtype::f32 && plan.slots[at(slot)].shape == layer.y());
    const std::vector<Array> inputs = draw_inputs(draft.plan, 1, 0.01);
    const std::vector<Array> found = run(plan, inputs, draft.outputs),
                             expected = run(draft.plan, inputs, draft.outputs);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LT(relative_error(found[i], expected[i]), 0x1p-10) << "window " << window[0] << " output " << i;
  }
}

// Unchanged: strict products, halves, sizes that the kernels do not take.
// Strict f32, operands that are halves, and layers whose planes take longer to fill than their products.
TEST(CudaHalves, LeaveOtherLayersAlone) {
  const Layer strict{"1x8x4x4 by 8x3x3 f32"};
  Layer half = strict, small = strict;
  half.dtype = Dtype::f16, half.math = Math::tf32;
  small.math = Math::tf32;
  const auto draft = [](const Layer& layer) {
    return hopper_plans::forward("alone", layer, hopper_plans::Forward::plain);
  };
  EXPECT_EQ(lowered_plan(draft(strict)).kernels.size(), 1u);
  EXPECT_EQ(lowered_plan(draft(half)).kernels.size(), 1u);
  EXPECT_EQ(lowered_plan(draft(small)).kernels.size(), 5u) << "two scales, two planes";
  Plan plan = draft(small).plan;
  cuda::lower(plan, cuda::chip_named("sm_90a"));
  EXPECT_EQ(plan.kernels.size(), 1u);
}

}  // namespace
}  // namespace nixie
#endif
