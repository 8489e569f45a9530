// Averaged weights, the choice of the best checkpoint, and runs that end early.
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

const std::string kPlain = R"(
model: [flatten, {linear: {out: 10, bias: false}}, batch_norm]
data: {glyphs: {train: 200, test: 50, batch: 20}}
schedule: {constant: {rate: 0.05}}
seed: 7
backend: cpu
)";

TrainConfig plain(const std::string& more) { return config_in(kPlain + more); }

// The averages of every step, computed on the host beside the run; of halves to the rounding of a weight.
TEST(Averages, AreThoseOfEveryStep) {
  for (const std::string precision : {"fp32", "fp16_pure"}) {
    SCOPED_TRACE(precision);
    std::vector<double> average;
    for (std::int64_t steps = 0; steps <= 6; ++steps) {  // the same run, stopped one step later each time
      const TempFolder part;
      Trainer trainer(plain("steps: 20\nema: 0.5\nloss_scale: 64\nprecision: " + precision + "\n"),
                      {.run = part.path()});
      if (steps > 0) trainer.train([&] { return trainer.step() == steps; });
      const std::vector<double> weights = trainer.model().parameters().find("1.weight")->array().to_vector<double>();
      if (steps == 0) {
        average = weights;
        continue;
      }
      const double n = static_cast<double>(steps - 1), kept = std::min(0.5, (1 + n) / (10 + n));
      for (std::size_t i = 0; i < weights.size(); ++i) average[i] = kept * average[i] + (1 - kept) * weights[i];
      const Checkpoint checkpoint = load_checkpoint(part / "last.h5");
      EXPECT_EQ(checkpoint.ema.at("1.weight").dtype(), Dtype::f32);
      const std::vector<double> found = checkpoint.ema.at("1.weight").to_vector<double>();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], average[i], precision == "fp32" ? 1e-6 : 1e-4) << steps;
      EXPECT_EQ(checkpoint.ema.at("2.running_mean").to_vector<double>(),
                checkpoint.model.at("2.running_mean").to_vector<double>());
      EXPECT_EQ(load_trained(part / "last.h5").model.parameters().find("1.weight")->array().to_vector<double>(), found);
    }
  }
}

TEST(Averages, AreEvaluatedAndPredicted) {
  for (const std::string precision : {"precision: fp32\n", "precision: fp16_pure\n"}) {
    SCOPED_TRACE(precision);
    const TempFolder whole;
    const std::string more = "epochs: 2\nema: 0.9\n" + precision;
    Trainer first(plain(more), {.run = whole.path()});
    first.train();
    const TrainedModel trained = load_trained(whole / "last.h5");
    const Checkpoint checkpoint = load_checkpoint(whole / "last.h5");
    const std::vector<double> used = trained.model.parameters().find("1.weight")->array().to_vector<double>();
    EXPECT_EQ(used, checkpoint.ema.at("1.weight").to_vector<double>());
    EXPECT_NE(used, checkpoint.model.at("1.weight").to_vector<double>());
    Trainer without(plain("epochs: 2\n" + precision), {});
    EXPECT_NE(without.evaluate().loss, first.evaluate().loss);
  }
}

TEST(Averages, AResumeWithoutThemSaysSo) {
  const TempFolder folder;
  Trainer(plain("epochs: 1\n"), {.run = folder.path()}).train();
  Trainer trainer(plain("epochs: 1\nema: 0.9\n"), {.run = folder.path()});
  EXPECT_FAULT(checkpoint, "no average of every parameter", trainer.resume(folder / "last.h5"));
}

// A rate of 0 makes every evaluation the same: the first is the best, and patience counts the rest.
TEST(Patience, EndsARunThatGetsNoBetter) {
  const TempFolder folder;
  const std::string more = "epochs: 9\npatience: 3\nbest_by: loss\nmodel: [flatten, {linear: {out: 10}}]\n";
  TrainConfig config = config_in(
      "data: {glyphs: {train: 40, test: 20, batch: 20}}\nschedule: {constant: {rate: 0}}\nbackend: cpu\n" + more);
  Trainer trainer(config, {.run = folder.path()});
  EXPECT_TRUE(trainer.train());
  EXPECT_EQ(trainer.step(), 4 * 2);
  EXPECT_EQ(saved(folder / "best.h5"), 2);
  EXPECT_EQ(saved(folder / "last.h5", "evaluations_since_best"), 3);
  EXPECT_EQ(saved<double>(folder / "last.h5", "best_score"), -trainer.evaluate().loss);
}

TEST(Patience, NamesTheFigureThatDecides) {
  const TempFolder folder;
  const TrainConfig config = config_in(
      "data: {glyphs: {train: 40, test: 20, batch: 20}}\nschedule: {constant: {rate: 0}}\nbackend: cpu\nepochs: 9\n"
      "patience: 1\ntarget: input\nloss: mean_squared\nmodel: [flatten, {linear: {out: 784}}]\n");
  EXPECT_TRUE(Trainer(config, {.run = folder.path()}).train());
  EXPECT_THAT(text_of(folder / "log.txt"), HasSubstr("no better loss in 1 evaluations"));
}

TEST(Patience, BestByNamesAFigure) {
  EXPECT_FAULT(usage, "unknown best_by \"f1\"", plain("epochs: 1\nbest_by: f1\n"));
  EXPECT_EQ(plain("epochs: 1\nmetrics: [f1]\nbest_by: f1\n").best_by, "f1");
  EXPECT_EQ(plain("epochs: 1\nmetrics: [{top_k: {k: 3}}, {top_k: {k: 2}}]\nbest_by: top_k_2\n").best_by, "top_k_2");
}

}  // namespace
}  // namespace nixie
