// Collectives on one to four ranks: values, fixed orders, gradients, and plans in which each is computed once.
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/tests/core/support.h"
#include "nixie/tests/ranks.h"

namespace nixie {
namespace {

std::vector<double> values_on(Backend& backend, const Tensor& x) {
  return evaluate(cast(x, Dtype::f64), backend).to_vector<double>();
}

// Rank r has r + 1 plus the element's position.
Tensor ramp(const World& world, const Shape& shape, Dtype dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = world.rank() + 1 + static_cast<double>(i);
  return cast(Tensor(Array::from(values, shape)), dtype);
}

TEST(Collectives, GiveEachRankItsPart) {
  for (const int size : {1, 2, 3, 4})
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64, Dtype::u64, Dtype::i32})
      on_ranks(size, [&](const World& world, Backend& backend) {
        const int n = world.size(), ranks = n * (n + 1) / 2;  // the sum of r + 1
        const Tensor x = ramp(world, {2 * n, 3}, dtype);
        std::vector<double> sum, gathered, last;
        for (int i = 0; i < 6 * n; ++i) sum.push_back(ranks + n * i), last.push_back(n + i);
        for (int rank = 0; rank < n; ++rank)
          for (int i = 0; i < 6 * n; ++i) gathered.push_back(rank + 1 + i);
        EXPECT_EQ(values_on(backend, all_reduce(world, x)), sum) << dtype << " on " << n;
        EXPECT_EQ(values_on(backend, all_gather(world, x)), gathered) << dtype << " on " << n;
        EXPECT_EQ(values_on(backend, broadcast_from(world, x, n - 1)), last) << dtype << " on " << n;
        const auto part = sum.begin() + 6 * world.rank();
        EXPECT_EQ(values_on(backend, reduce_scatter(world, x)), std::vector<double>(part, part + 6)) << dtype;
        EXPECT_EQ(all_reduce(world, x).dtype(), dtype);
      });
}

// A step's kernel reads the sum where it is used: fused, in views, in another step.
TEST(Collectives, AreReadLikeOtherValues) {
  on_ranks(3, [](const World& world, Backend& backend) {
    const Tensor x = ramp(world, {2, 2}, Dtype::f32);  // sums: 6, 9, 12, 15
    EXPECT_EQ(values_on(backend, relu(all_reduce(world, x) - 10) * 2), (std::vector<double>{0, 0, 4, 10}));
    EXPECT_EQ(values_on(backend, all_reduce(world, permute(x, {1, 0}))), (std::vector<double>{6, 12, 9, 15}));
    EXPECT_EQ(values_on(backend, all_reduce(world, slice(x, {Index::all(), Index(1)}))), (std::vector<double>{9, 15}));
    EXPECT_EQ(values_on(backend, all_gather(world, flip(x, {0}))),
              (std::vector<double>{3, 4, 1, 2, 4, 5, 2, 3, 5, 6, 3, 4}));
    EXPECT_EQ(values_on(backend, sum(all_reduce(world, Tensor(1.0 + world.rank())))), std::vector<double>{6});
    EXPECT_EQ(values_on(backend, all_reduce(world, zeros({0, 3}))), std::vector<double>{});
  });
}

// (a + b) + (c + d), whatever the size and the exchange: 1 + 2^-24 is lost, 2^-24 + 2^-24 is not.
TEST(Collectives, AddInOneOrder) {
  const float parts[] = {1, 0x1p-24f, 0x1p-24f, 0x1p-24f};
  for (const std::int64_t count : {1, 7, 1000003})
    on_ranks(4, [&](const World& world, Backend& backend) {
      const Tensor sum = all_reduce(world, full({count}, parts[world.rank()]) + 0 * coordinate({count}, 0));
      const std::vector<float> values = evaluate(sum, backend).to_vector<float>();
      EXPECT_EQ(std::ranges::count(values, 1 + 0x1p-23f), count);
    });
}

// 2048 + 1 has no f16, so that a sum in halves would lose what the others add.
TEST(Collectives, AddHalvesInFloat) {
  const float parts[] = {2048, 1, 1, 0};
  on_ranks(4, [&](const World& world, Backend& backend) {
    const Tensor sum = all_reduce(world, cast(full({3}, parts[world.rank()]), Dtype::f16));
    EXPECT_EQ(values_on(backend, sum), std::vector<double>(3, 2050));
  });
}

/// Counts what a rank hands over.
class Counting final : public Communicator {
 public:
  explicit Counting(std::shared_ptr<Communicator> to) : Communicator(to->rank(), to->hosts()), to_(std::move(to)) {}
  void all_to_all(const void* from, void* into, std::int64_t part) override {
    bytes += part * size(), to_->all_to_all(from, into, part);
  }
  void all_gather(const void* mine, void* all, std::int64_t part) override {
    bytes += part, to_->all_gather(mine, all, part);
  }
  void broadcast(void* values, std::int64_t size, int root) override {
    bytes += size, to_->broadcast(values, size, root);
  }
  std::int64_t bytes = 0;

 private:
  std::shared_ptr<Communicator> to_;
};

TEST(Collectives, SendHalvesAsHalves) {
  on_ranks(2, [](const World& world, Backend& backend) {
    for (const auto& [dtype, size] : {std::pair(Dtype::f32, 4), {Dtype::f16, 2}, {Dtype::bf16, 2}, {Dtype::f64, 8}}) {
      const auto counting = std::make_shared<Counting>(world.communicator());
      const World counted(counting);
      const Tensor x = ramp(world, {100}, dtype);
      const auto bytes_of = [&](const Tensor& y) {
        counting->bytes = 0;
        evaluate(y, backend);
        return counting->bytes;
      };
      EXPECT_EQ(bytes_of(all_reduce(counted, x)), 150 * size) << dtype;  // both halves of it, and the sum of one
      EXPECT_EQ(bytes_of(reduce_scatter(counted, x)), 100 * size) << dtype;
      EXPECT_EQ(bytes_of(all_gather(counted, x)), 100 * size) << dtype;
      EXPECT_EQ(bytes_of(broadcast_from(counted, x)), 100 * size) << dtype;
    }
  });
}

// A process by itself exchanges nothing: what it computes stays where it is, unless an input or a result lies
// elsewhere.
TEST(Collectives, StayInPlaceInAProcessByItself) {
  const auto backend = make_cpu_backend(1);
  const World self = alone_of(1);
  const Tensor x = ramp(self, {4, 6}, Dtype::f32), y = x * 2, row = sum(y, {0}, true),
               rows = slice(y, {Index::range(1, 3)});
  const Tensor stored = evaluate(x, *backend);
  const struct {
    const char* what;
    Tensor value, same;
    bool stays = true;
  } cases[] = {
      {"a value", all_reduce(self, y) + 1, y + 1},
      {"one that others read", all_reduce(self, y) + permute(reshape(y, {6, 4}), {1, 0}),
       y + permute(reshape(y, {6, 4}), {1, 0})},
      {"twice", all_reduce(self, all_reduce(self, y)) + 1, y + 1},
      {"a row", all_reduce(self, row) + 1, row + 1},
      {"halves", cast(all_reduce(self, cast(y, Dtype::f16)), Dtype::f32) + 1, y + 1},
      {"gathered", all_gather(self, y) + 1, y + 1},
      {"scattered", reduce_scatter(self, y) + 1, y + 1},
      {"broadcast", broadcast_from(self, y) + 1, y + 1},
      {"an input", all_reduce(self, stored) + 1, x + 1, false},
      {"a result", all_reduce(self, y), y, false},
      {"rows of a value that others read", all_reduce(self, rows) + sum(exp(-y)), rows + sum(exp(-y)), false},
  };
  for (const auto& each : cases) {
    const Plan plan = make_plan(prepare({.outputs = {each.value}}, PrecisionPolicy::ieee), *backend);
    for (const Kernel& kernel : plan.kernels) {
      if (!kernel.head) continue;
      const auto slot = [&](int s) { return plan.slots[static_cast<std::size_t>(s)]; };
      EXPECT_EQ(stays_in_place(plan, kernel), each.stays) << each.what;
      if (each.stays) {
        EXPECT_EQ(slot(kernel.head->operands[0].slot).offset, slot(kernel.stores[0].slot).offset) << each.what;
      }
    }
    EXPECT_EQ(values_on(*backend, each.value), values_on(*backend, each.same)) << each.what;
  }
}

// Larger than what is exchanged at a time.
TEST(Collectives, TakeLargeArrays) {
  on_ranks(3, [](const World& world, Backend& backend) {
    const std::int64_t count = 3 * 300001;
    const Tensor x = cast(coordinate({count}, 0), Dtype::f64) + world.rank();
    const auto sum = evaluate(all_reduce(world, x), backend).to_vector<double>(),
               part = evaluate(reduce_scatter(world, x), backend).to_vector<double>();
    for (std::size_t i = 0; i < sum.size(); i += 1009) EXPECT_EQ(sum[i], 3.0 * static_cast<double>(i) + 3);
    EXPECT_EQ(part.back(), sum[300001 * static_cast<std::size_t>(world.rank() + 1) - 1]);
  });
}

// Gradients of the sum of all ranks' losses, each a sum of w y with weights of its own.
TEST(Collectives, HaveGradientsOfTheSumOfAllLosses) {
  on_ranks(3, [](const World& world, Backend& backend) {
    const Tensor x = ramp(world, {3, 2}, Dtype::f64);
    const auto gradient_of = [&](const Tensor& y) {
      const Tensor w = ramp(world, y.shape(), Dtype::f64);
      return values_on(backend, gradients(sum(w * y), std::vector<Tensor>{x})[0]);
    };
    EXPECT_EQ(gradient_of(all_reduce(world, x)), (std::vector<double>{6, 9, 12, 15, 18, 21}));
    std::vector<double> gathered, scattered;
    for (int i = 0; i < 6; ++i) gathered.push_back(6 + 3 * (6 * world.rank() + i));
    EXPECT_EQ(gradient_of(all_gather(world, x)), gathered);
    for (int rank = 0; rank < 3; ++rank)
      for (int i = 0; i < 2; ++i) scattered.push_back(rank + 1 + i);
    EXPECT_EQ(gradient_of(reduce_scatter(world, x)), scattered);
    const std::vector<double> of_root = {6, 9, 12, 15, 18, 21};
    EXPECT_EQ(gradient_of(broadcast_from(world, x, 1)), world.rank() == 1 ? of_root : std::vector<double>(6, 0));
    // Twice differentiable: three ranks sum the squares of all, so the slope is 6 x.
    const Tensor slope = gradients(sum(square(all_gather(world, x))), std::vector<Tensor>{x})[0];
    EXPECT_EQ(values_on(backend, gradients(sum(slope), std::vector<Tensor>{x})[0]), std::vector<double>(6, 6));
  });
}

int collectives_in(const Plan& plan) {
  return static_cast<int>(std::ranges::count_if(plan.kernels, [](const Kernel& kernel) {
    return kernel.head && std::holds_alternative<Collective>(kernel.head->op);
  }));
}

// Equal ones are two exchanges, one with many readers is one.
TEST(Collectives, AreNeitherMergedNorRepeated) {
  const auto backend = make_cpu_backend(1);
  const World world = alone_of(2);
  const Tensor x = ramp(world, {4, 4}, Dtype::f32), y = all_reduce(world, x);
  const Graph twice{.outputs = {all_reduce(world, x) + all_reduce(world, x)}};
  const Graph read{.outputs = {exp(y), sum(y * 2), log(y) + permute(y, {1, 0}), matmul(y, y)}};
  EXPECT_EQ(collectives_in(make_plan(prepare(twice, PrecisionPolicy::ieee), *backend)), 2);
  EXPECT_EQ(collectives_in(make_plan(prepare(read, PrecisionPolicy::ieee), *backend)), 1);
  EXPECT_EQ(collectives_in(make_plan(prepare(read, PrecisionPolicy::fp16), *backend)), 1);
}

// Whether a group waits for another, perhaps by way of others.
bool waits(const Plan& plan, int group, int other) {
  return std::ranges::any_of(plan.groups[static_cast<std::size_t>(group)].waits_for,
                             [&](int before) { return before == other || waits(plan, before, other); });
}

// By number, in whatever order the values are asked for; each waits for the one before.
TEST(Collectives, RunInTheOrderInWhichTheyWereMade) {
  const auto backend = make_cpu_backend(1);
  const World world = alone_of(2);
  std::vector<Tensor> sums;
  for (int i = 0; i < 5; ++i) sums.push_back(all_reduce(world, ramp(world, {i + 1}, Dtype::f32)));
  const Graph graph{.outputs = {sums[3], sums[0] * 2, sums[4], sums[2] + sum(sums[4]), sums[1]}};
  const Plan plan = make_plan(prepare(graph, PrecisionPolicy::ieee), *backend);
  int last = -1;
  std::int64_t size = 0;
  for (int g = 0; g < std::ssize(plan.groups); ++g) {
    const Group& group = plan.groups[static_cast<std::size_t>(g)];
    const Kernel& kernel = plan.kernels[static_cast<std::size_t>(group.members[0])];
    if (!kernel.head) continue;
    EXPECT_EQ(kernel.domain.size(), size + 1);
    if (last >= 0) {
      EXPECT_TRUE(waits(plan, g, last)) << g;
    }
    last = g, size = kernel.domain.size();
  }
  EXPECT_EQ(size, 5);
}

// A sum does not wait for those who read the parameter that its update writes, and is fused with no update.
TEST(Collectives, StartAsSoonAsTheirOperandsAreThere) {
  const auto backend = make_cpu_backend(1);
  const World world = alone_of(2);
  const Variable w("w", Array(Dtype::f32, {8}), true);
  Trace trace;
  const Tensor slope = all_reduce(world, ramp(world, {8}, Dtype::f32)),
               product = matmul(ramp(world, {4, 8}, Dtype::f32), reshape(w, {8, 1}));
  w.set(w - 0.1 * slope);
  const Graph graph{.outputs = {all_reduce(world, sum(product))}, .sets = trace.sets()};
  const Plan plan = make_plan(prepare(graph, PrecisionPolicy::ieee), *backend);
  ASSERT_EQ(collectives_in(plan), 2);
  const auto kernel = std::ranges::find_if(plan.kernels, [](const Kernel& each) { return each.head.has_value(); });
  EXPECT_TRUE(std::holds_alternative<Collective>(kernel->head->op)) << kernel->label << " is before the sum";
  EXPECT_TRUE(kernel->loads.empty()) << kernel->label;
}

TEST(Collectives, RefuseWhatTheyDoNotExchange) {
  const World world = alone_of(4);
  const Tensor x = zeros({6, 2});
  EXPECT_EQ(error_of([&] { all_reduce(world, x > 0); }),
            "all_reduce: the values are bool, expected a floating type of 16 bits or more, i32, i64 or u64; cast them");
  EXPECT_EQ(error_of([&] { all_gather(world, Tensor(1.0)); }),
            "all_gather: the value is a single number, expected at least one axis; reshape it to {1}");
  EXPECT_EQ(error_of([&] { reduce_scatter(world, x); }),
            "reduce_scatter: axis 0 is 6, which 4 ranks cannot share equally; take 4 or 8, or another number of ranks");
  EXPECT_EQ(error_of([&] { broadcast_from(world, x, 4); }), "broadcast_from: there is no rank 4, the world has 4");
}

TEST(World, AgreesOnTheHost) {
  EXPECT_EQ(World().size(), 1);
  EXPECT_EQ(World().text(), "rank 0 of 1 on this machine");
  EXPECT_EQ(World().any(5), 5u);
  on_ranks(3, [](const World& world, Backend&) {
    EXPECT_EQ(world.any(1u << world.rank()), 7u);
    EXPECT_EQ(world.from_first(world.is_first() ? "the first" : "another one"), "the first");
    EXPECT_EQ(world.rank_on_host(), world.rank());
    EXPECT_EQ(world.ranks_on_host(), 3);
    EXPECT_EQ(world.share_of(12, "batch"), 4);
  });
}

// A part of an array is drawn as it is in the whole.
TEST(RandomNumbers, ContinueAStream) {
  for (const std::int64_t first : {0, 1, 6, 8, 4097}) {
    const auto whole = testing::values_of(uniform({first + 600}, 11, 3)),
               part = testing::values_of(uniform({20, 30}, 11, 3, first)),
               normals = testing::values_of(normal({600}, 11, 3, first)),
               all = testing::values_of(normal({first + 600}, 11, 3));
    EXPECT_TRUE(std::ranges::equal(part, std::vector<double>(whole.begin() + first, whole.end()))) << first;
    EXPECT_TRUE(std::ranges::equal(normals, std::vector<double>(all.begin() + first, all.end()))) << first;
  }
}

}  // namespace
}  // namespace nixie
