// The calls of NCCL that plans ask for, without a device: their order, buckets, waits and bytes; on GPUs under mpirun
// -np 2 and more, their results.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>

#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/state/order_collectives.h"
#include "nixie/core/step.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/ranks.h"

namespace nixie {
namespace {

using cuda::CollectiveCall;

struct Net {
  std::vector<Variable> weights;
  Graph graph;
};

// A step of plain descent on ranks: three convolutions and a layer of 2 MiB.
Net net_on(const World& world) {
  Trace trace;
  Net net;
  const auto weight = [&](const std::string& name, const Shape& shape) {
    net.weights.emplace_back(name, Array(Dtype::f32, shape), true);
    return net.weights.back().value();
  };
  Tensor x = Tensor(Array(Dtype::f32, {8, 16, 16, 16}));
  for (int i = 0; i < 3; ++i) {
    const std::string layer = "conv" + std::to_string(i);
    const Tensor w = weight(layer + ".weight", {16, 16, 3, 3}), bias = weight(layer + ".bias", {16});
    x = relu(conv(x, w, {.pad = {1, 1}}) + reshape(bias, {1, 16, 1, 1}));
  }
  x = matmul(reshape(x, {8, 16 * 16 * 16}), transpose(weight("fc.weight", {128, 16 * 16 * 16})));
  std::vector<Gradient> slopes = gradients(sum(square(x)), net.weights);
  for (auto slope = slopes.rbegin(); slope != slopes.rend(); ++slope) slope->value = all_reduce(world, slope->value);
  for (const Gradient& slope : slopes) slope.parameter.set(slope.parameter - 0.1 * slope.value);
  net.graph.sets = trace.sets();
  return net;
}

Plan lowered(const Net& net, PrecisionPolicy precision) {
  CudaPlansBackend backend;
  return make_plan(prepare(net.graph, precision), backend);
}

struct Bucket {
  std::size_t group = 0;
  std::vector<CollectiveCall> calls;
};
std::vector<Bucket> buckets_of(const Plan& plan) {
  std::vector<Bucket> buckets;
  for (std::size_t g = 0; g < plan.groups.size(); ++g)
    if (auto calls = cuda::collective_calls(plan, plan.groups[g]); !calls.empty())
      buckets.push_back({g, std::move(calls)});
  return buckets;
}

// All seven sums fit one call, in the order in which the backward pass makes gradients: the last layer's first.
TEST(CudaCollectives, SumsOfGradientsShareACall) {
  for (const PrecisionPolicy precision : {PrecisionPolicy::fp32, PrecisionPolicy::fp16}) {
    const Net net = net_on(test::alone_of(2));
    const Plan plan = lowered(net, precision);
    const std::vector<Bucket> buckets = buckets_of(plan);
    ASSERT_EQ(buckets.size(), 1u);
    std::vector<std::int64_t> counts;
    for (const CollectiveCall& call : buckets[0].calls) {
      counts.push_back(call.count);
      EXPECT_EQ(call.dtype, Dtype::f32);
      EXPECT_EQ(plan.slots[static_cast<std::size_t>(call.from)].size_bytes(), 4 * call.count);
    }
    EXPECT_EQ(counts, (std::vector<std::int64_t>{524288, 16, 2304, 16, 2304, 16, 2304}));
  }
}

// With buckets of 1 MiB the large layer has one of its own, which runs beside the backward pass; each bucket waits for
// the one before, and what backward computes waits for none.
TEST(CudaCollectives, RunBesideTheBackwardPass) {
  const Net net = net_on(test::alone_of(2));
  CudaPlansBackend backend;
  const Graph graph = order_collectives(rewrite(prepare(net.graph, PrecisionPolicy::fp16)));
  Plan plan = fuse(graph, choose_layout(graph, backend.target()), Fusion::full);
  cuda::split_collectives(plan);
  cuda::Grouping grouping(plan, backend.chip());
  for (const Kernel& kernel : plan.kernels)
    grouping.groups.push_back({{kernel}, cuda::take(plan, kernel, backend.chip())});
  cuda::bucket_collectives(grouping, 1 << 20);
  std::vector<std::size_t> sizes;
  for (const auto& group : grouping.groups)
    if (group.by->choices.front().family == &cuda::collective()) sizes.push_back(group.members.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 6}));

  const Plan whole = lowered(net, PrecisionPolicy::fp16);
  const std::size_t bucket = buckets_of(whole)[0].group;
  std::vector<bool> after(whole.groups.size());
  after[bucket] = true;
  for (std::size_t g = bucket + 1; g < whole.groups.size(); ++g)
    for (int w : whole.groups[g].waits_for)
      if (after[static_cast<std::size_t>(w)]) after[g] = true;
  for (std::size_t g = 0; g < whole.groups.size(); ++g)
    for (int k : whole.groups[g].members)
      if (whole.kernels[static_cast<std::size_t>(k)].head && g != bucket) {
        EXPECT_FALSE(after[g]) << g;
      }
}

// Collectives of images and of parts keep the order of elements that the operand has.
TEST(CudaCollectives, ExchangeElementsInTheirOrder) {
  const World world = test::alone_of(4);
  const Tensor x = Array(Dtype::f32, {8, 16, 4, 4}), w = Array(Dtype::f32, {16, 16, 3, 3}),
               y = conv(x, w, {.pad = {1, 1}});
  const struct {
    const char* what;
    Tensor value;
    std::int64_t count;
  } rows[] = {
      {"sum", all_reduce(world, y), 8 * 16 * 16},
      {"sum of a view", all_reduce(world, slice(y, {Index::range(0, 4)})), 4 * 16 * 16},
      {"sum of columns", all_reduce(world, slice(y, {Index::all(), Index::range(0, 4)})), 8 * 4 * 16},
      {"gather", all_gather(world, y), 8 * 16 * 16},
      {"scatter", reduce_scatter(world, y), 2 * 16 * 16},
      {"broadcast", broadcast_from(world, cast(y, Dtype::i32)), 8 * 16 * 16},
      {"used at once", relu(all_reduce(world, y)), 8 * 16 * 16},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    CudaPlansBackend backend;
    const Plan plan = make_plan(prepare({.outputs = {row.value}}, PrecisionPolicy::fp32), backend);
    const std::vector<Bucket> buckets = buckets_of(plan);
    ASSERT_EQ(buckets.size(), 1u);
    EXPECT_EQ(buckets[0].calls.at(0).count, row.count);
  }
}

// Under `mpirun -np 2` on a machine with as many GPUs: the values of each collective, also from a replayed graph.
TEST(CudaCollectives, OnGpus) {
  const World& world = launched_world();
  if (world.is_alone() || cuda_devices() < 2) GTEST_SKIP() << "needs mpirun -np 2 and two GPUs";
  const auto backend = make_backend("cuda", 0, world);
  const int n = world.size(), ranks = n * (n + 1) / 2;
  const Variable seen("seen", Array(Dtype::f32, {5}), false);
  Step step(
      *backend,
      [&](const Inputs& in) -> Outputs {
        const Tensor x = in["x"] + world.rank();
        seen.set(seen + all_reduce(world, x));
        return {{"sum", all_reduce(world, x)},
                {"half", all_reduce(world, cast(x, Dtype::f16))},
                {"gathered", all_gather(world, x)},
                {"part", reduce_scatter(world, all_gather(world, x))},
                {"last", broadcast_from(world, x, n - 1)}};
      },
      PrecisionPolicy::ieee);
  const Tensor x = evaluate(Tensor{1.0f, 2.0f, 3.0f, 4.0f, 5.0f}, *backend);
  for (int run = 1; run <= 4; ++run) {  // directly, directly, captured, replayed
    const Outputs out = step({{"x", x}});
    for (int i = 0; i < 5; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(out.at("sum").to_vector<float>()[at], static_cast<float>(ranks + n * i)) << run;
      EXPECT_EQ(out.at("half").array().to(Dtype::f32).to_vector<float>()[at], static_cast<float>(ranks + n * i));
      EXPECT_EQ(out.at("gathered").to_vector<float>()[5 * static_cast<std::size_t>(n - 1) + at],
                static_cast<float>(i + n));
      EXPECT_EQ(out.at("part").to_vector<float>()[at], static_cast<float>(n * (1 + i + world.rank())));
      EXPECT_EQ(out.at("last").to_vector<float>()[at], static_cast<float>(i + n));
      EXPECT_EQ(seen.array().to_vector<float>()[at], static_cast<float>(run * (ranks + n * i)));
    }
  }
  leave_world(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace
}  // namespace nixie
#endif
