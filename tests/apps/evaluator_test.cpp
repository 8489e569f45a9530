// Evaluation over a dataset: every sample counts once.
#include "nixie/apps/trainer/evaluator.h"

#include <gtest/gtest.h>

#include "nixie/apps/trainer/trainer.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

using namespace nixie::test;

// 50 samples in batches of 20: the last batch is half padding, which must not count.
TEST(Evaluator, CountsEverySampleOnce) {
  const TrainConfig config = small_config();
  Trainer trainer(config, {});
  const Evaluation padded = trainer.evaluate();
  TrainConfig one = config;
  one.data = Glyphs{.train = 205, .test = 50, .batch = 1};
  one.metrics = {AnyMetric(LogLoss{}), AnyMetric(TopK{.k = 10})};
  const Evaluation single = Trainer(one, {}).evaluate();
  EXPECT_EQ(padded.samples, 50);
  EXPECT_EQ(padded.accuracy, single.accuracy);
  EXPECT_NEAR(padded.loss, single.loss, 1e-5);
  ASSERT_EQ(single.metrics.size(), 2u);
  EXPECT_NEAR(single.metrics[0].second, single.loss, 1e-5);  // the same thing, computed by the metric
  EXPECT_EQ(single.metrics[1], (std::pair<std::string, double>{"top_k", 1.0}));
  EXPECT_EQ(to_string({.loss = 0.02714, .accuracy = 0.9912, .samples = 10000}),
            "test accuracy 0.9912 loss 0.0271 (10000 samples)");
}

TEST(Evaluator, ScoresAreProbabilitiesWhereTheLossMakesThemSo) {
  const auto backend = make_cpu_backend(1);
  const Tensor output = Array::from(std::vector<float>{0, 1}, {1, 2});
  const double second = 1 / (1 + std::exp(-1.0));
  const auto score = [&](const AnyLoss& loss) {
    return evaluate(class_scores(output, loss), *backend).to_vector<float>()[1];
  };
  for (const AnyLoss& loss : {AnyLoss(CrossEntropy{}), AnyLoss(Focal{}), AnyLoss(Dice{}), AnyLoss(KlDivergence{}),
                              AnyLoss(BinaryCrossEntropy{})})
    EXPECT_FLOAT_EQ(score(loss), second) << loss.text();
  EXPECT_EQ(score(MeanSquared{}), 1);
}

}  // namespace
}  // namespace nixie
