// Evaluation over a dataset: every sample counts once.
#include "nixie/apps/trainer/evaluator.h"

#include "nixie/apps/trainer/trainer.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

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

// Larger is better, whatever is measured.
TEST(Evaluator, TheScoreIsByWhatIsCalledBest) {
  const Evaluation classes{.loss = 0.5, .accuracy = 0.75, .metrics = {{"f1", 0.25}, {"mean_error", 3}}},
      numbers{.loss = 0.5, .accuracy = NAN};
  const struct {
    const char* best_by;
    const Evaluation& evaluation;
    double score;
  } kCases[] = {{"accuracy", classes, 0.75},
                {"accuracy", numbers, -0.5},
                {"loss", classes, -0.5},
                {"f1", classes, 0.25},
                {"mean_error", classes, -3}};
  for (const auto& [best_by, evaluation, score] : kCases) {
    TrainConfig config = small_config();
    config.metrics = {AnyMetric(F1{}), AnyMetric(MeanError{})};
    config.best_by = best_by;
    EXPECT_EQ(score_of(evaluation, config), score) << best_by;
  }
}

}  // namespace
}  // namespace nixie
