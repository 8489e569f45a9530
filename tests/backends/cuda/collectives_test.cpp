// The calls of NCCL that plans ask for, without a device: their order, buckets, waits and bytes; on GPUs under mpirun
// -np 2 and more, their results.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/families/rank_sum.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/core/step.h"
#include "nixie/tests/compiler_log.h"
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

// What a process exchanges with itself (`reduction: ordered` does) is no sum over others.
TEST(CudaCollectives, SumsOverOtherRanksAreOtherCalls) {
  const World self = test::alone_of(1), all = test::alone_of(2);
  const Tensor x = Array(Dtype::f32, {8});
  CudaPlansBackend backend;
  const Graph graph{.outputs = {all_reduce(self, x + 1), all_reduce(all, x + 2), all_reduce(all, x + 3)}};
  std::vector<std::size_t> sizes;
  for (const Bucket& bucket : buckets_of(make_plan(prepare(graph, PrecisionPolicy::fp32), backend))) {
    sizes.push_back(bucket.calls.size());
    for (const CollectiveCall& call : bucket.calls) EXPECT_EQ(call.op.communicator, bucket.calls[0].op.communicator);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 2}));
}

// With buckets of 1 MiB the large layer has one of its own, which runs beside the backward pass; each bucket waits for
// the one before, and what backward computes waits for none.
TEST(CudaCollectives, RunBesideTheBackwardPass) {
  const Net net = net_on(test::alone_of(2));
  CudaPlansBackend backend;
  const Graph graph = order_collectives(rewrite(prepare(net.graph, PrecisionPolicy::fp16), backend.target()));
  Plan plan = fuse(graph, choose_layout(graph, backend.target()), Fusion::full);
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

// Each element of each array is packed once, at a place of its own; each exchange is that of one memory.
TEST(RankSums, PackEachElementOnce) {
  const struct {
    const char* what;
    std::vector<std::int64_t> counts;
    int ranks;
    bool gathers;
    std::size_t exchanges;
  } rows[] = {{"one number", {1}, 4, true, 1},
              {"two ranks", {1000003, 17}, 2, true, 1},
              {"odd arrays", {100, 9, 300001, 64}, 3, false, 1},
              {"many arrays", std::vector<std::int64_t>(250, 5000), 4, false, 3},
              {"larger than an exchange", {5, 200000000, 3}, 8, false, 2}};
  for (const auto& row : rows)
    for (const int rank : {0, row.ranks - 1}) {
      SCOPED_TRACE(row.what);
      std::vector<CollectiveCall> calls;
      for (const std::int64_t count : row.counts) {
        const int slot = 2 * static_cast<int>(calls.size());
        calls.push_back({.from = slot, .to = slot + 1, .from_offset = 32, .count = count, .dtype = Dtype::f16});
      }
      const cuda::RankSum sum = cuda::rank_sum(calls, rank, row.ranks);
      EXPECT_EQ(sum.gathers, row.gathers);
      ASSERT_EQ(sum.exchanges.size(), row.exchanges);
      std::map<int, std::int64_t> seen;  // elements of each slot, in order
      for (const auto& exchange : sum.exchanges) {
        std::int64_t end = 0;
        for (std::size_t i = 0; 2 * i < exchange.pack.table.size(); ++i) {
          const std::int64_t place = exchange.pack.table[2 * i], count = exchange.pack.table[2 * i + 1];
          EXPECT_GE(place, end);
          EXPECT_EQ(place % 8, 0);
          end = place + count;
          const cuda::Argument from = exchange.pack.arguments[5 + i],
                               to = (sum.gathers ? exchange.add : exchange.unpack).arguments[5 + i];
          EXPECT_EQ(from.offset_bytes, 32 + 2 * seen[from.slot]);
          EXPECT_EQ(to.offset_bytes, 2 * seen[from.slot]);
          EXPECT_EQ(to.slot, from.slot + 1);
          seen[from.slot] += count;
        }
        EXPECT_LE(end, exchange.part * (sum.gathers ? 1 : row.ranks));
        EXPECT_LE(exchange.part * row.ranks * 2, sum.received);
        EXPECT_LE(exchange.pack.arguments.size() * sizeof(void*), 4096u);
      }
      for (std::size_t i = 0; i < row.counts.size(); ++i) EXPECT_EQ(seen[2 * static_cast<int>(i)], row.counts[i]);
    }
}

TEST(CudaCodegen, RankSumsCompile) {
  std::vector<std::string> sources;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64})
    for (const int ranks : {2, 8}) {
      const std::vector<CollectiveCall> calls{{.from = 0, .to = 1, .count = 1000000, .dtype = dtype}};
      sources.push_back(cuda::rank_sum(calls, 1, ranks).exchanges[0].pack.source);
    }
  const auto cubins = cuda::compile_sources(sources, "sm_90a");
  for (const auto& cubin : cubins) EXPECT_EQ(cuda::complaints(cubin.log), "");
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

// Under `mpirun -np 2` and more on a machine with as many GPUs.
class GpuRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (launched_world().is_alone() || cuda_devices() < 2) GTEST_SKIP() << "needs mpirun -np 2 and two GPUs";
  }
  static void TearDownTestSuite() { leave_world(testing::UnitTest::GetInstance()->Failed() ? 1 : 0); }
};

// The values of each collective, also from a replayed graph.
TEST_F(GpuRanks, ExchangeValues) {
  const World& world = launched_world();
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
}

// The sums of arrays of odd sizes, in the order of a tree over the ranks and rounded once, are those of the CPU.
TEST_F(GpuRanks, SumAsCpuRanksDo) {
  const World& world = launched_world();
  const auto gpu = make_backend("cuda", 0, world), cpu = make_backend("cpu", 1, world);
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64}) {
    const auto body = [&](const Inputs& in) {
      Outputs sums;
      for (const std::int64_t count : {1, 7, 1000, 65537, 3000001})
        sums[std::to_string(count)] = all_reduce(world, cast(slice(in["x"], {Index::range(0, count)}), dtype));
      return sums;
    };
    Step on_gpu(*gpu, body, PrecisionPolicy::ieee), on_cpu(*cpu, body, PrecisionPolicy::ieee);
    const Tensor x = evaluate(normal({3000001}, 100 + static_cast<std::uint64_t>(world.rank())), *cpu);
    const Outputs expected = on_cpu({{"x", x}});
    for (int run = 0; run < 4; ++run) {
      const Outputs sums = on_gpu({{"x", x}});
      for (const auto& [name, sum] : sums) {
        const Array mine = sum.array().to(Dtype::f64), theirs = expected.at(name).array().to(Dtype::f64);
        EXPECT_EQ(mine.to_vector<double>(), theirs.to_vector<double>()) << dtype << " of " << name << " in run " << run;
      }
    }
  }
}

}  // namespace
}  // namespace nixie
#endif
