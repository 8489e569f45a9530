// Fusion: how many kernels an expression becomes, and that no way of running a plan changes a bit.
#include "nixie/backends/cpu/stages/executor.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/memory.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using testing::cpu;  // there is a namespace of this name, too

// Before a backend lowers it.
Plan plan_of(const std::vector<Tensor>& outputs) {
  static const std::shared_ptr<Backend> backend = make_cpu_backend(1);
  return make_plan(simplify({.outputs = outputs}), *backend);
}
std::size_t kernels_of(const Tensor& x) { return plan_of({x}).kernels.size(); }

TEST(Fusion, TheExpressionsOfNervanagpuAreOneKernelEach) {
  const Tensor a = Array(Dtype::f16, {64, 300});
  EXPECT_EQ(kernels_of(mean(square(a - mean(a, {1})), {1})), 1u);
  EXPECT_EQ(kernels_of(mean(square(a - mean(a, {0})), {0})), 1u);
  const Tensor norm = reciprocal(sqrt(variance(a, {1}) + 1e-5)) * (a - mean(a, {1}));
  EXPECT_EQ(kernels_of(norm), 1u);
  EXPECT_EQ(kernels_of((a - mean(a, {1})) / sqrt(variance(a, {1}) + 1e-5)), 1u);
}

TEST(Fusion, KernelCounts) {
  const Tensor x = Array(Dtype::f32, {8, 6}), w = Array(Dtype::f32, {6, 4}), b = Array(Dtype::f32, {4});
  struct Row {
    const char* what;
    Tensor value;
    std::size_t kernels;
  };
  const Tensor hidden = relu(matmul(x, w) + b);
  const Tensor both = concat({exp(x), sin(x)}, 1), padded = pad(x, {0, 2}, {0, 2});
  const Tensor left = slice(x, {Index::all(), Index::range(0, 3)}),
               right = slice(x, {Index::all(), Index::range(3, 6)});
  Tensor terms = x, grown = exp(x);
  for (int i = 1; i < 100; ++i) terms = terms + x * (1 + 1e-3 * i), grown = concat({grown, x * (1 + 1e-3 * i)}, 0);
  const Row rows[] = {
      {"a chain of maps", exp(x * 5) + x * x - 1, 1},
      {"a matmul with bias and relu", hidden, 1},
      {"softmax", softmax(x, {1}), 1},
      {"a standard deviation", stddev(x, {0, 1}), 1},
      {"views of one array", x + transpose(reshape(x, {6, 8})), 1},
      {"dropout", x * bernoulli(x.shape(), 0.5, 3) / 0.5, 1},
      {"one hot", one_hot(Array(Dtype::i32, {8}), 10) * 2, 1},
      {"update of a slice", update(x, {Index::range(1, 3)}, 5) * 2, 1},
      {"sums over different axes", sum(x, {0}) + sum(x, {1}), 2},
      {"concat of two maps", concat({exp(x), sin(x)}, 1), 1},
      {"concat of views of maps", concat({reshape(exp(x), {6, 8}), transpose(sin(x))}, 0), 1},
      {"concat of concats", concat({concat({exp(x), sin(x)}, 1), cos(x)}, 1), 1},
      {"concat of a map and what it is made of", stack({exp(x), x}), 1},
      {"concat of a concat that is read otherwise, too", concat({both, cos(both)}, 0), 2},
      {"every second column of a padded array", slice(padded, {Index::all(), Index::range(0, 10, 2)}) * 2, 1},
      {"a gradient through both halves of an array", gradients(sum(exp(left) * right), {x})[0], 1},
      {"a hundred terms", terms, 1},
      {"a concat that grew from a hundred parts", grown, 1},
      {"a numbers-only expression", full({3}, Tensor(2.5) * 2), 1},
  };
  for (const Row& row : rows)
    EXPECT_EQ(kernels_of(row.value), row.kernels) << row.what << "\n" << to_string(plan_of({row.value}));
}

// Work on a reshape of what a head computes is the head's epilogue, if strides can say what else it reads and stores.
TEST(Fusion, HeadsAreFollowedThroughReshapes) {
  const Tensor a = random_array({6, 5}, -1, 1, 1).to(Dtype::f32), b = random_array({5, 8}, -1, 1, 2).to(Dtype::f32),
               c = random_array({6, 2, 4}, -1, 1, 3).to(Dtype::f32),
               row = random_array({1, 2, 1}, -1, 1, 4).to(Dtype::f32),
               wide = random_array({7, 2, 4}, -1, 1, 5).to(Dtype::f32);
  const Tensor product = matmul(a, b), stored = evaluate(product, cpu());
  struct Row {
    const char* what;
    std::function<Tensor(const Tensor&)> value;  // of the product in another shape
    std::size_t kernels;
  };
  const Row rows[] = {
      {"with another array", [&](const Tensor& y) { return relu(y) * c; }, 1},
      {"gated", [&](const Tensor& y) { return y * (c > 0); }, 1},
      {"with a part of another array", [&](const Tensor& y) { return y + slice(wide, {Index::range(1, 7)}); }, 1},
      {"in a concat",
       [&](const Tensor& y) {
         return concat({exp(y), c}, 0);
       },
       2},
      {"transposed afterwards", [&](const Tensor& y) { return transpose(exp(y)) * 2; }, 2},
      {"with numbers that repeat along an axis", [&](const Tensor& y) { return y * row; }, 2},
      {"with positions",
       [&](const Tensor& y) {
         return y * coordinate({6, 2, 4}, 1);
       },
       2},
      {"with random numbers",
       [&](const Tensor& y) {
         return y * uniform({6, 2, 4}, random_stream(1, "s"));
       },
       2},
      {"summed", [&](const Tensor& y) { return sum(exp(y), {0}); }, 2},
      {"read twice",
       [&](const Tensor& y) {
         return exp(y) * reshape(product, {6, 2, 4});
       },
       1},
  };
  for (const Row& row_of : rows) {
    const Tensor fused = row_of.value(reshape(product, {6, 2, 4})), apart = row_of.value(reshape(stored, {6, 2, 4}));
    EXPECT_EQ(kernels_of(fused), row_of.kernels) << row_of.what << "\n" << to_string(plan_of({fused}));
    testing::expect_values(fused, testing::values_of(apart), 1e-6);
  }
}

// As many arrays as a kernel may have, each with an address among its arguments: 250 pairs and as many results.
TEST(Fusion, AKernelTakesHundredsOfArrays) {
  const Tensor mask = random_array({40}, -1, 1, 1).to(Dtype::f32), positive = mask > 0;
  std::vector<Tensor> chosen;
  for (unsigned i = 0; i < 250; ++i)
    chosen.push_back(where(mask > 0, random_array({40}, 0, 1, 2 + i).to(Dtype::f32),
                           random_array({40}, -1, 0, 2 + i).to(Dtype::f32)));
  EXPECT_LE(plan_of(chosen).kernels.size(), 2u);
  const std::vector<double> is_positive = testing::values_of(positive);
  for (const Tensor& values : evaluate(chosen, cpu())) {
    const std::vector<double> found = testing::values_of(values);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i] > 0, is_positive[i] != 0) << i;
  }
}

// What a step returns is stored behind its head, also if it is summed, and the head's result is not.
TEST(Fusion, ResultsStayBehindTheirHeads) {
  const Tensor a = Array(Dtype::f32, {6, 5}), b = Array(Dtype::f32, {5, 8}), y = exp(matmul(a, b));
  const Plan plan = plan_of({y, sum(y, {0})});
  EXPECT_EQ(plan.kernels.size(), 2u) << to_string(plan);
  EXPECT_EQ(plan.arena_bytes, 0) << to_string(plan);
}

// Behind a reduction there are positions where the reduced axis has none, so that a bound of that axis guards nothing.
TEST(Fusion, PaddingAloneIsANumberAndNoLoad) {
  const auto values = [](const Shape& shape) { return Array(Dtype::f32, shape); };
  const Tensor none = values({0, 3}), rows = values({5, 3}), row = values({1, 3});
  const Tensor nothing = pad(none, {0, 0}, {1, 0}), outside = slice(pad(row, {1, 0}, {0, 0}), {Index::range(0, 1)});
  for (const Tensor& x : {sum(none, {0}) + nothing, sum(rows, {0}) + nothing, sum(rows, {0}) + outside,
                          sum(rows, {0}) + pad(none, {0, 0}, {1, 0}, 7), sum(rows + outside, {0})}) {
    const Plan plan = plan_of({x});
    EXPECT_EQ(plan.kernels.size(), 1u);
    EXPECT_LE(plan.kernels[0].loads.size(), 1u) << to_string(plan);
  }
}

TEST(Fusion, AnUpdateOfSgdIsOneKernel) {
  Parameters model, state;
  Variable w = model.make("w", {64, 32}), v = state.state("momentum_buffer", w.shape());
  const Tensor rate = Array(Dtype::f32, Shape{});
  Step step(cpu(), [&](const Inputs& in) {
    const Tensor grad = in["grad"];
    v.set(0.9f * v + grad + 5e-4f * w);
    w.set(w - in["rate"] * v);
    return Outputs{};
  });
  const Plan& plan = step.plan({{"grad", Array(Dtype::f32, {64, 32})}, {"rate", rate}});
  EXPECT_EQ(plan.kernels.size(), 1u) << to_string(plan);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Fusion, BatchNormForwardIsOneKernelWithItsStatistics) {
  Parameters p;
  Variable mean_v = p.state("running_mean", {3}), var_v = p.state("running_var", {3});
  Step step(cpu(), [&](const Inputs& in) {
    const Tensor x = in["x"], m = mean(x, {0, 2, 3}), v = variance(x, {0, 2, 3});
    auto wide = [](const Variable& s) { return reshape(s, {1, 3, 1, 1}); };
    mean_v.set(reshape(0.9f * wide(mean_v) + 0.1f * m, {3}));
    var_v.set(reshape(0.9f * wide(var_v) + 0.1f * v, {3}));
    return Outputs{{"y", (x - m) * rsqrt(v + 1e-5)}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {4, 3, 5, 5})}});
  EXPECT_EQ(plan.kernels.size(), 1u) << to_string(plan);
}

// An output is no old value that must be read before it is written.
TEST(Fusion, OutputsThatOthersReadThroughViewsAreNotCopied) {
  Step step(cpu(), [](const Inputs& in) {
    const Tensor means = reshape(mean(in["x"], {0, 2}), {3});
    return Outputs{{"means", means}, {"more", reshape(means * 2, {3, 1}) + in["y"]}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {4, 3, 5})}, {"y", Array(Dtype::f32, {3, 9})}});
  for (const Kernel& kernel : plan.kernels) EXPECT_FALSE(kernel.label.starts_with("copy")) << to_string(plan);
}

// A concat's parts need no slots of their own if kernels can read them in the concat: dense nets copy no features.
TEST(Fusion, PartsAreReadInTheirConcat) {
  using Tensors = std::vector<Tensor>;
  using Value = std::function<Tensor(const Tensor&)>;  // of what is concatenated or a part
  struct Case {
    const char* what;
    std::vector<Shape> inputs;
    std::function<Tensors(const Tensors& in, const Value& value)> results;
    std::int64_t stored;  // elements, by all kernels
  };
  const auto grown = [](const Tensor& x, const Value& value) { return value(concat({x, tanh(mean(x, {1}))}, 1)); };
  const Shape rows{2, 4, 8};
  const Case cases[] = {
      {"a chain",
       {rows},
       [&](const Tensors& in, const Value& value) -> Tensors {
         return {grown(grown(grown(in[0] * 2, value), value), value) + 1};
       },
       16 * (4 + 3 + 7)},
      {"a chain whose middle is a result",
       {rows},
       [&](const Tensors& in, const Value& value) -> Tensors {
         const Tensor middle = grown(in[0] * 2, value);
         return {middle, grown(middle, value) + 1};
       },
       16 * (5 + 5 + 1 + 6)},
      {"a computed part",
       {rows, rows},
       [](const Tensors& in, const Value& value) -> Tensors {
         const Tensor part = value(exp(in[0]));
         return {value(concat({part, in[1]}, 1)) + 1, sum(part, {1}), sum(part, {2})};
       },
       16 * (4 + 4 + 8 + 1) + 8},
      {"a part that is read through a view",
       {rows, rows, {2, 8, 4}},
       [](const Tensors& in, const Value& value) -> Tensors {
         const Tensor part = value(exp(in[0]));
         return {value(concat({part, in[1]}, 1)) + 1, permute(part, {0, 2, 1}) + in[2]};
       },
       16 * (4 + 8 + 8 + 4)},
      {"a part that a product reads",
       {rows, rows, {8, 3}},
       [](const Tensors& in, const Value& value) -> Tensors {
         const Tensor part = value(exp(in[0]));
         return {value(concat({part, in[1]}, 1)) + 1, matmul(part, in[2])};
       },
       16 * (4 + 8 + 8) + 24},
      {"an inner concat that a product reads",
       {rows, {8, 3}},
       [&](const Tensors& in, const Value& value) -> Tensors {
         const Tensor inner = grown(in[0] * 2, value);
         return {grown(inner, value) + 1, matmul(inner, in[1])};
       },
       16 * (5 + 6 + 6) + 30},
      {"a concat in two others",
       {rows, rows, rows},
       [&](const Tensors& in, const Value& value) -> Tensors {
         const Tensor inner = grown(in[0] * 2, value);
         return {value(concat({inner, in[1]}, 1)) + 1, value(concat({in[2], inner}, 1)) + 2, sum(inner, {1})};
       },
       16 * (9 + 9 + 9 + 9 + 1)},
      {"a place that is no multiple of 16 bytes",
       {{2, 4, 3}, {2, 4, 3}},
       [&](const Tensors& in, const Value& value) -> Tensors {
         const Tensor part = value(exp(in[0]));
         return {value(concat({in[1], part}, 2)) + 1, sum(part, {1}), sum(part, {2})};
       },
       24 + 48 + 48 + 6 + 8},
  };
  for (const Case& of : cases) {
    Tensors in;
    for (const Shape& shape : of.inputs) in.push_back(random_array(shape, -1, 1, static_cast<unsigned>(in.size() + 1)));
    const Tensors results = of.results(in, [](const Tensor& x) { return x; });
    const Tensors expected = of.results(in, [](const Tensor& x) { return evaluate(x, cpu()); });
    for (std::size_t i = 0; i < results.size(); ++i)
      testing::expect_values(results[i], testing::values_of(expected[i]), 1e-14);
    const Plan plan = plan_of(results);
    std::int64_t stored = 0;
    for (const Kernel& kernel : plan.kernels)
      for (const Stage& stage : kernel.stages)
        stored += std::ssize(stage.stores) * (stage.full ? kernel.domain : kept_shape(kernel)).size();
    EXPECT_EQ(stored, of.stored) << of.what << "\n" << to_string(plan);
  }
}

// Rows that grow by concats, of which reductions, views and products read any, evaluated at once and one after another.
TEST(Fusion, RandomConcatsEqualTheirOpsOneAfterAnother) {
  const auto grown = [](unsigned seed, const std::function<Tensor(const Tensor&)>& value) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
    std::vector<Tensor> all{random_array({2, 4, 8}, -1, 1, seed), random_array({2, 2, 8}, -1, 1, seed + 1)};
    for (int i = 0; i < 14; ++i) {
      const Tensor x = all[below(all.size())], y = all[below(all.size())];
      const std::int64_t rows = x.shape()[1];
      switch (below(6)) {
        case 0:
          all.push_back(value(tanh(mean(x, {1}))));
          break;
        case 1:
          all.push_back(value(x * (mean(y, {1}) + 0.5)));
          break;
        case 2:
          all.push_back(value(slice(x, {Index::all(), Index::range(rows / 2, rows)})));
          break;
        case 3:
          all.push_back(value(tanh(matmul(permute(x, {0, 2, 1}), x))));
          break;
        default:
          if (rows + y.shape()[1] <= 200) all.push_back(value(concat({x, y}, 1)));
      }
    }
    std::vector<Tensor> results;
    for (int i = 0; i < 3; ++i) results.push_back(all[below(all.size())]), results.push_back(sum(all.back(), {i}));
    results.push_back(all.back());
    return results;
  };
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::vector<Tensor> found = evaluate(grown(seed, [](const Tensor& x) { return x; }), cpu());
    const std::vector<Tensor> expected = grown(seed, [](const Tensor& x) { return evaluate(x, cpu()); });
    for (std::size_t i = 0; i < found.size(); ++i)
      testing::expect_values(found[i], testing::values_of(evaluate(expected[i], cpu())), 1e-12);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Fusion, EqualStructuresShareAPlanAndNumbersAreArguments) {
  CountingBackend backend;
  for (double c : {2.5, 3.25, 17.125}) {
    const Array x = random_array({5}, -1, 1, 1);
    std::vector<double> expected = x.to_vector<double>();
    for (double& e : expected) e = e * c + 1;
    testing::expect_values(evaluate(Tensor(x) * c + 1, backend), expected, 1e-14);
  }
  EXPECT_EQ(backend.compiled, 1);
}

TEST(Fusion, OnlyTheLastPlansOfExpressionsAreKept) {
  CountingBackend backend;
  const auto evaluate_size = [&](std::int64_t size) { evaluate(zeros({size}) + coordinate({size}, 0), backend); };
  const auto most = static_cast<std::int64_t>(Backend::kMostKept);
  for (std::int64_t size = 1; size <= most + 1; ++size) evaluate_size(size);
  EXPECT_EQ(backend.compiled, most + 1);
  evaluate_size(2);  // still there
  EXPECT_EQ(backend.compiled, most + 1);
  evaluate_size(1);  // had to go, and now 3 does, the least recently used
  evaluate_size(2);
  EXPECT_EQ(backend.compiled, most + 2);
  evaluate_size(3);
  EXPECT_EQ(backend.compiled, most + 3);
}

// A small net with everything that makes orders matter: branches, reused memory, state written in place.
struct Net {
  Parameters p{1}, s;
  Variable w1 = p.make("w1", {6, 16}, Init::normal(0.5f)), w2 = p.make("w2", {16, 16}, Init::normal(0.5f)),
           b = p.make("b", {16});
  Variable v1 = s.state("v1", {6, 16}), v2 = s.state("v2", {16, 16}), statistic = s.state("mean", {1, 16});

  Outputs operator()(const Inputs& in) {
    const Tensor h = tanh(matmul(in["x"], w1) + b), g = relu(matmul(h, w2)), k = sigmoid(matmul(h, w2) * 2 + h);
    const Tensor y = concat({g, k, h * mean(g, {0})}, 1);
    const Tensor loss = mean(square(y - 0.3f)) + sum(square(w1)) * 1e-3f;
    const auto grads = gradients(loss, p);
    statistic.set(0.9f * statistic + 0.1f * mean(h, {0}));
    v1.set(0.9f * v1 + grads[0].value);
    v2.set(0.9f * v2 + grads[1].value);
    w1.set(w1 - 0.1f * v1);
    w2.set(w2 - 0.1f * v2);
    b.set(b - 0.1f * grads[2].value);
    return {{"loss", loss}, {"y", y}};
  }
};

TEST(Memory, NoTwoLiveValuesOverlapAndWaitsAreTopological) {
  Net net;
  Step step(cpu(), std::ref(net));
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {32, 6})}});
  // Reachability from waits alone; any two kernels that touch the same bytes, one writing, must be ordered.
  const std::size_t count = plan.kernels.size();
  ASSERT_GT(count, 5u);
  ASSERT_EQ(plan.groups.size(), count);
  std::vector<std::vector<char>> before(count, std::vector<char>(count, 0));
  for (std::size_t j = 0; j < count; ++j)
    for (int i : plan.groups[j].waits_for) {
      ASSERT_LT(static_cast<std::size_t>(i), j);
      before[j][static_cast<std::size_t>(i)] = 1;
      for (std::size_t k = 0; k < count; ++k) before[j][k] |= before[static_cast<std::size_t>(i)][k];
    }
  auto bytes = [&](int s) {
    const Slot& slot = plan.slots[static_cast<std::size_t>(s)];
    // externals are in spaces of their own
    const std::int64_t base = slot.external ? (std::int64_t{1} << 40) * (s + 1) : slot.offset;
    return std::pair{base, base + slot.size_bytes()};
  };
  for (std::size_t j = 0; j < count; ++j)
    for (std::size_t i = 0; i < j; ++i)
      for (const auto& [a, b] : {std::pair{slots_written(plan.kernels[i]), slots_read(plan.kernels[j])},
                                 std::pair{slots_written(plan.kernels[i]), slots_written(plan.kernels[j])},
                                 std::pair{slots_read(plan.kernels[i]), slots_written(plan.kernels[j])}})
        for (int x : a)
          for (int y : b) {
            const auto [x0, x1] = bytes(x);
            const auto [y0, y1] = bytes(y);
            if (x0 < y1 && y0 < x1) {
              EXPECT_TRUE(before[j][i]) << "kernels " << i << " and " << j << "\n" << to_string(plan);
            }
          }
  std::int64_t total = 0;
  for (const Slot& slot : plan.slots)
    if (!slot.external) {
      EXPECT_EQ(slot.offset % 256, 0);
      EXPECT_LE(slot.offset + slot.size_bytes(), plan.arena_bytes);
      total += slot.size_bytes();
    }
  EXPECT_LT(plan.arena_bytes, total);  // memory is reused
}

TEST(Memory, RandomTopologicalOrdersGiveIdenticalBits) {
  const auto backend = make_cpu_backend(2);
  Net net;
  Step step(*backend, std::ref(net));
  const Array x = random_array({32, 6}, -1, 1, 3).to(Dtype::f32);
  const Plan& plan = step.plan({{"x", x}});
  const auto executable = backend->compile(plan);
  auto& runner = dynamic_cast<cpu::CpuExecutable&>(*executable);

  auto run = [&](const std::vector<int>& order) {
    std::vector<std::shared_ptr<Buffer>> externals;
    std::vector<Array> arrays;
    for (int s : plan.externals) {
      const Slot& slot = plan.slots[static_cast<std::size_t>(s)];
      Array start = slot.name == "x" ? x : random_array(slot.shape, -1, 1, static_cast<unsigned>(s)).to(slot.dtype);
      externals.push_back(backend->allocate(start.size_bytes()));
      backend->upload(start.bytes(), *externals.back(), start.size_bytes());
      arrays.push_back(Array(slot.dtype, slot.shape));
    }
    runner.run_in_order(order, externals, plan.scalars);
    std::vector<std::vector<float>> result;
    for (std::size_t i = 0; i < externals.size(); ++i) {
      backend->download(*externals[i], arrays[i].bytes(), arrays[i].size_bytes());
      result.push_back(arrays[i].to_vector<float>());
    }
    return result;
  };

  std::vector<int> order(plan.kernels.size());
  std::iota(order.begin(), order.end(), 0);
  const auto expected = run(order);
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int> shuffled;
    std::vector<char> done(order.size(), 0);
    while (shuffled.size() < order.size()) {
      std::vector<int> ready;
      for (int k : order) {
        const auto& waits = plan.groups[static_cast<std::size_t>(k)].waits_for;
        if (!done[static_cast<std::size_t>(k)] &&
            std::all_of(waits.begin(), waits.end(), [&](int i) { return done[static_cast<std::size_t>(i)]; }))
          ready.push_back(k);
      }
      const int next = ready[random() % ready.size()];
      done[static_cast<std::size_t>(next)] = 1;
      shuffled.push_back(next);
    }
    ASSERT_EQ(run(shuffled), expected) << "trial " << trial;
  }
}

}  // namespace
}  // namespace nixie
