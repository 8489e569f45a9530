// Recompute: which values kernels store for each other, and that none of it changes a result.
#include "nixie/core/passes/recompute.h"
#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/core/step.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

Plan plan_of(const std::vector<Tensor>& outputs, bool recomputed) {
  Graph graph = simplify({.outputs = outputs});
  if (recomputed) graph = recompute(graph);
  return fuse(graph, choose_layout(graph, {}));
}

// Stores of a shape into the arena.
int stores_of(const Plan& plan, const Shape& shape) {
  int count = 0;
  for (const Kernel& kernel : plan.kernels)
    for (const Access& store : kernel.stores) {
      const Slot& slot = plan.slots[static_cast<std::size_t>(store.slot)];
      count += !slot.external && slot.shape == shape;
    }
  return count;
}

// A convolution, batch normalisation and ReLU before another convolution; the gradients of both filters.
struct Layers {
  Tensor x = random_array({2, 3, 8, 8}, -1, 1, 1), first = random_array({4, 3, 3, 3}, -1, 1, 2),
         second = random_array({5, 4, 3, 3}, -1, 1, 3), scale = random_array({1, 4, 1, 1}, 0.5, 1.5, 4),
         shift = random_array({1, 4, 1, 1}, -1, 1, 5);
  std::vector<Tensor> gradients_of(const std::function<Tensor(const Tensor&)>& between) const {
    const Tensor y = conv(between(conv(x, first)), second);
    return gradients(sum(y * y), {first, second, scale, shift});
  }
};

TEST(Recompute, BatchNormStoresWhatTheNextLayerReadsAlone) {
  const Layers layers;
  const auto outputs = layers.gradients_of([&](const Tensor& z) {
    return relu(standardize(z, {0, 2, 3}, 1e-5f) * layers.scale + layers.shift);
  });
  const Shape images{2, 4, 6, 6};
  // z, relu(...), the gradients of both; before also z - mean.
  EXPECT_EQ(stores_of(plan_of(outputs, false), images), 5) << to_string(plan_of(outputs, false));
  EXPECT_EQ(stores_of(plan_of(outputs, true), images), 4) << to_string(plan_of(outputs, true));
}

// A gated gradient is copied with all ops between it and the head, which must be few.
TEST(Recompute, LongChainsBehindAGateAreNotCopied) {
  const Tensor beside = random_array({4, 4}, 0.5, 1.5, 1), ones_of_four = random_array({4, 4}, 0.5, 1.5, 2);
  for (const bool squares : {false, true}) {
    Tensor y = where(beside > 0.0, matmul(beside, ones_of_four), 0.0);
    for (int i = 0; i < (squares ? 60 : 20000); ++i) y = squares ? y * y : -y;
    const Graph graph = recompute(simplify({.outputs = {sum(y * beside), sum(y + beside)}}));
    EXPECT_LT(topological(graph).size(), 20100u);
  }
}

// Copies of nodes change the order of leaves and numbers; a Step recomputes all the same, and binds its plan's leaves.
TEST(Recompute, IsPartOfAStep) {
  const Layers layers;
  const auto normalised = [&](const Tensor& z) {
    return relu(standardize(z, {0, 2, 3}, 1e-5f) * layers.scale + layers.shift);
  };
  Step step(testing::cpu(), [&](const Inputs&) {
    const auto all = layers.gradients_of(normalised);
    return Outputs{{"first", all[0]}, {"second", all[1]}, {"scale", all[2]}, {"shift", all[3]}};
  });
  EXPECT_EQ(stores_of(step.plan({}), {2, 4, 6, 6}), 4) << to_string(step.plan({}));
  const Outputs found = step({});
  const auto expected = layers.gradients_of(normalised);
  const char* const names[] = {"first", "second", "scale", "shift"};
  for (std::size_t i = 0; i < expected.size(); ++i)
    testing::expect_values(found.at(names[i]), testing::values_of(evaluate(expected[i])), 1e-3);
}

// The values of a shape that kernels with heads load beside their operands.
int loads_beside_heads(const Plan& plan, const Shape& shape) {
  int count = 0;
  for (const Kernel& kernel : plan.kernels)
    for (const Access& load : kernel.loads)
      count += kernel.head && plan.slots[static_cast<std::size_t>(load.slot)].shape == shape;
  return count;
}

// The gradient of a normalisation finds the gate of its ReLU from what it normalised; a residual's gate reads the
// ReLU's output, and a gate that nothing like that follows stays where the gradient is made.
TEST(Recompute, FindsGatesWhereTheirGradientsAreNormalised) {
  const Layers layers;
  const Shape images{2, 4, 6, 6};
  const Tensor other = random_array(images, -1, 1, 6);
  const auto normalised = [&](const Tensor& z) {
    return standardize(z, {0, 2, 3}, 1e-5f) * layers.scale + layers.shift;
  };
  const std::pair<std::function<Tensor(const Tensor&)>, int> cases[] = {
      {[&](const Tensor& z) { return relu(normalised(z)); }, 0},
      {[&](const Tensor& z) { return minimum(relu(normalised(z)), 0.5f); }, 0},
      {[&](const Tensor& z) { return relu(normalised(z) + other); }, 1},
      {[&](const Tensor& z) { return relu(z * layers.scale + layers.shift); }, 1},
  };
  for (const auto& [between, loads] : cases) {
    const Plan plan = plan_of(layers.gradients_of(between), true);
    EXPECT_EQ(loads_beside_heads(plan, images), loads) << to_string(plan);
  }
}

// The most images that a reducing kernel loads.
int images_reduced(const Plan& plan) {
  int most = 0;
  for (const Kernel& kernel : plan.kernels) {
    const auto moves = [](const Access& load) { return std::count(load.strides.begin(), load.strides.end(), 0) == 0; };
    const auto images = std::count_if(kernel.loads.begin(), kernel.loads.end(), moves);
    if (!kernel.reduced.empty() && kernel.domain.rank() == 4) most = std::max(most, static_cast<int>(images));
  }
  return most;
}

// Branches that are concatenated: the gradient of each is a slice of one array.
TEST(Recompute, FindsTheGatesOfSlices) {
  const Layers layers;
  const Tensor third = random_array({4, 3, 3, 3}, -1, 1, 7), last = random_array({5, 8, 3, 3}, -1, 1, 8);
  const auto branch = [&](const Tensor& filter) {
    return relu(standardize(conv(layers.x, filter), {0, 2, 3}, 1e-5f) * layers.scale + layers.shift);
  };
  const Tensor y = conv(concat({branch(layers.first), branch(third)}, 1), last);
  const auto outputs = gradients(sum(y * y), {layers.first, third, layers.scale, layers.shift});
  // The normalised value, its gradient and the gate, for both branches in one kernel; then a kernel for each.
  EXPECT_EQ(images_reduced(plan_of(outputs, false)), 6);
  EXPECT_EQ(images_reduced(plan_of(outputs, true)), 2) << to_string(plan_of(outputs, true));
}

TEST(Recompute, ChangesNoGradientBehindAGate) {
  const auto loss = [](const std::vector<Tensor>& in) {
    const Tensor y = relu(standardize(conv(in[0], in[1]), {0, 2, 3}, 1e-3f) * in[2] + in[3]);
    const Tensor z = relu(standardize(conv(y, in[4]), {0, 2, 3}, 1e-3f));
    return conv(z + conv(y, in[4]), in[5]);
  };
  testing::expect_gradients(loss, {random_array({2, 2, 5, 5}, -1, 1, 1), random_array({3, 2, 2, 2}, -1, 1, 2),
                                   random_array({1, 3, 1, 1}, 0.5, 1.5, 3), random_array({1, 3, 1, 1}, -1, 1, 4),
                                   random_array({3, 3, 2, 2}, -1, 1, 5), random_array({2, 3, 1, 1}, -1, 1, 6)});
}

TEST(Recompute, ChangesNoGradient) {
  const auto loss = [](const std::vector<Tensor>& in) {
    const Tensor z = conv(in[0], in[1]);
    const Tensor y = tanh(standardize(z, {0, 2, 3}, 1e-3f) * in[2] + in[3]);
    return conv(y, in[4]);
  };
  testing::expect_gradients(loss, {random_array({2, 2, 5, 5}, -1, 1, 1), random_array({3, 2, 2, 2}, -1, 1, 2),
                                   random_array({1, 3, 1, 1}, 0.5, 1.5, 3), random_array({1, 3, 1, 1}, -1, 1, 4),
                                   random_array({2, 3, 2, 2}, -1, 1, 5)});
}

// A value that takes long to compute, is made of two stored values, or goes to memory anyway, is stored as before.
TEST(Recompute, LeavesTheRest) {
  const Layers layers;
  const Shape images{2, 4, 6, 6};
  const Tensor other = random_array(images, -1, 1, 6);
  const std::function<Tensor(const Tensor&)> rest[] = {
      [](const Tensor& z) {
        return exp(z - mean(z, {0, 2, 3}));
      },
      [&](const Tensor& z) {
        return square((z - mean(z, {0, 2, 3})) * other);
      },
      [](const Tensor& z) { return relu(z); },
  };
  for (const auto& between : rest) {
    const auto outputs = layers.gradients_of(between);
    const Plan plan = plan_of(outputs, true);
    EXPECT_EQ(stores_of(plan, images), stores_of(plan_of(outputs, false), images)) << to_string(plan);
  }
}

// A sum of branches is stored once, by the convolution that comes last, and normalised again from there.
TEST(Recompute, NormalisesASumOfBranchesAgain) {
  const Layers layers;
  const Tensor other = random_array({2, 4, 6, 6}, -1, 1, 6);
  const auto outputs = layers.gradients_of([&](const Tensor& z) {
    return relu(standardize(z + other, {0, 2, 3}, 1e-5f) * layers.scale + layers.shift);
  });
  EXPECT_EQ(stores_of(plan_of(outputs, true), other.shape()), 4) << to_string(plan_of(outputs, true));
}

// So are arrays side by side, which are in memory anyway.
TEST(Recompute, NormalisesAConcatAgain) {
  const Layers layers;
  const Tensor third = random_array({4, 3, 3, 3}, -1, 1, 7), last = random_array({5, 8, 3, 3}, -1, 1, 8);
  const Tensor both = concat({conv(layers.x, layers.first), conv(layers.x, third)}, 1);
  const Tensor y = conv(relu(standardize(both, {0, 2, 3}, 1e-5f)), last);
  const auto outputs = gradients(sum(y * y), {layers.first, third});
  // Two parts, the normalised value, and two gradients; before also the array less its mean.
  EXPECT_EQ(stores_of(plan_of(outputs, false), both.shape()), 6) << to_string(plan_of(outputs, false));
  EXPECT_EQ(stores_of(plan_of(outputs, true), both.shape()), 5) << to_string(plan_of(outputs, true));
}

// A graph in which nothing is read twice is handed back node by node.
TEST(Recompute, KeepsTheNodesOfOtherGraphs) {
  const Tensor x = random_array({4, 6}, -1, 1, 1);
  const Graph graph = simplify({.outputs = {softmax(x, {1}), sum(relu(x))}});
  const Graph same = recompute(graph);
  EXPECT_EQ(scalars_of(same), scalars_of(graph));
  EXPECT_EQ(leaves_of(same).size(), leaves_of(graph).size());
  EXPECT_EQ(same.outputs[1].id(), graph.outputs[1].id());
}

}  // namespace
}  // namespace nixie
