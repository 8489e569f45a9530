// Objects that were moved from stay what they were.
#include "nixie/configs/parse/values.h"
#include "nixie/core/step.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

/// Uses `object` after a move, and what it was moved to.
template <class T, class Use>
void expect_kept(T object, const Use& use) {
  SCOPED_TRACE(typeid(T).name());
  const T other = std::move(object);
  EXPECT_NO_THROW(use(object));
  EXPECT_NO_THROW(use(other));
  T third = other;
  third = std::move(object);
  EXPECT_NO_THROW(use(object));
  EXPECT_NO_THROW(use(third));
}

const Shape kInput{1, 4};
const Sequential kNet{Flatten{}, Linear{.out = 2}};
const Tensor kX = Array(Dtype::f32, kInput), kLabels = Array(Dtype::i32, {1});

TEST(Moved, LayersAndModels) {
  const auto build = [](const auto& layer) {
    Parameters parameters;
    Pass pass;
    layer.build(kInput, parameters)(kX, pass);
    EXPECT_EQ(parameters.all().size(), 2u);
    EXPECT_NE(layer.text(), "");
  };
  expect_kept(AnyLayer(Linear{.out = 2}), build);
  expect_kept(AnyModel(kNet), [](const AnyModel& model) { EXPECT_EQ(model.layers().layers.size(), 2u); });
  expect_kept(Model(kNet, kInput), [](const Model& model) {
    Pass pass;
    EXPECT_EQ(evaluate(model(kX, pass), test_backend()).shape(), Shape({1, 2}));
    EXPECT_EQ(model.parameters().count(), 10);
    EXPECT_EQ(model.input_shape(), Shape{4});
  });
}

TEST(Moved, LossesAndMetrics) {
  const Tensor output = Array(Dtype::f32, {1, 2});
  expect_kept(AnyLoss(), [&](const AnyLoss& loss) { EXPECT_EQ(loss(output, kLabels).rank(), 0); });
  expect_kept(AnyMetric(), [&](const AnyMetric& metric) {
    EXPECT_EQ(metric.value(evaluate(metric.sums(output, kLabels), test_backend()).to_vector<double>()), 1);
  });
}

TEST(Moved, OptimizersAndSchedules) {
  const Model model(kNet, kInput);
  expect_kept(AnyOptimizer(), [&](const AnyOptimizer& rule) { Optimizer(model.parameters(), {.rule = rule}); });
  expect_kept(AnySchedule(), [&](const AnySchedule& options) {
    EXPECT_EQ(Schedule(options, {}, Parameters()).rate(std::int64_t{0}), 0.01);
  });
  Optimizer optimizer(model.parameters(), {.rule = Adam{}});
  const Optimizer other = std::move(optimizer);
  for (const Optimizer* each : {static_cast<const Optimizer*>(&optimizer), &other}) {
    Step step(test_backend(), [&](const Inputs&) {
      Pass pass;
      each->minimize(sum(model(kX + 1, pass)));
      return Outputs{};
    });
    step({});
    EXPECT_EQ(each->parameters().size(), 2u);
    EXPECT_EQ(each->state().all().size(), 5u);
  }
  EXPECT_EQ(optimizer.count().array().item(), 2);
}

TEST(Moved, Datasets) {
  expect_kept(AnyDataset(Glyphs{.train = 8, .test = 8, .batch = 4}), [](const AnyDataset& dataset) {
    EXPECT_EQ(dataset.batch(), 4);
    EXPECT_EQ(dataset.open().train->size(), 8);
  });
}

}  // namespace
}  // namespace nixie
