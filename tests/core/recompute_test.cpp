// Recompute: which values kernels store for each other, and that none of it changes a result.
#include <algorithm>

#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/recompute.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using testing::random_array;

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

// What takes long to compute, is made of two stored values, or goes to memory anyway, is stored as before.
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
