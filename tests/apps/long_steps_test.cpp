// Steps over several batches, evaluations every so many steps, and checkpoints that are kept.
#include "nixie/tests/apps/poisoned.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

/// No layer that looks at a whole batch.
const std::string kPlain = R"(
model: [flatten, {linear: {out: 16}}, relu, {linear: {out: 10}}]
optimizer: {sgd: {momentum: 0.9, weight_decay: 1e-3}}
schedule: {cosine: {rate: 0.05, warmup: {epochs: 0.5}}}
clip_norm: 1
epochs: 2
seed: 7
backend: cpu
log_every: 1
)";

TrainConfig plain(const std::string& more) { return config_in(kPlain + more); }

std::vector<double> weights_of(const Trainer& trainer) {
  return trainer.model().parameters().find("1.weight")->array().to_vector<double>();
}

std::vector<double> column(const fs::path& run, const std::string& name) {
  const CsvTable table = read_csv(run / "metrics.csv");
  const auto at =
      static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin());
  std::vector<double> values;
  for (const auto& row : table.rows) values.push_back(std::stod(row.at(at)));
  return values;
}

std::vector<fs::path> kept_in(const fs::path& run) {
  std::vector<fs::path> files;
  for (const FilePlace& file : kept_checkpoints(run)) files.push_back(file.path());
  return files;
}

// 205 samples: 10 steps of 20 in both, and five left over.
TEST(Accumulate, IsAsOneLargeBatch) {
  const TempFolder large;
  Trainer one(plain("data: {glyphs: {train: 205, test: 50, batch: 20}}\n"), {.run = large.path()});
  EXPECT_TRUE(one.train());
  for (const char* more : {"data: {glyphs: {train: 205, test: 50, batch: 10}}\naccumulate: 2\n",
                           "data: {glyphs: {train: 205, test: 50, batch: 5}}\naccumulate: 4\n"}) {
    const TempFolder parts;
    Trainer several(plain(more), {.run = parts.path()});
    EXPECT_EQ(several.steps_per_epoch(), 10);
    EXPECT_THAT(several.summary(), HasSubstr("10 steps of 20 per epoch, 20 steps in all"));
    EXPECT_TRUE(several.train());
    EXPECT_EQ(several.step(), 20);
    for (const char* name : {"step", "loss", "accuracy", "learning_rate"})
      EXPECT_THAT(column(parts.path(), name), testing::Pointwise(testing::DoubleNear(2e-6), column(large.path(), name)))
          << name;
    EXPECT_THAT(weights_of(several), testing::Pointwise(testing::DoubleNear(2e-6), weights_of(one)));
  }
}

// Nor do batches whose labels are ignored in part, or of classes that weigh less, weigh as much as others.
TEST(Accumulate, IsAsOneLargeBatchWhereLabelsWeighDifferently) {
  for (const char* loss : {"cross_entropy: {ignore_index: 1}", "focal: {ignore_index: 7}",
                           "cross_entropy: {class_weights: [1, 2, 0.5, 0, 3, 1, 0.1, 1, 1, 4]}",
                           "cross_entropy: {class_weights: [1, 2, 1, 0, 3, 1, 0, 1, 1, 4], label_smoothing: 0.1, "
                           "ignore_index: 9}",
                           "loss_sum: {losses: [{loss: {cross_entropy: {ignore_index: 3}}, weight: 2}]}"}) {
    const std::string more = fmt::format("loss: {{{}}}\ndata: {{glyphs: {{train: 205, test: 50, batch: ", loss);
    const TempFolder large;
    Trainer one(plain(more + "20}}\n"), {.run = large.path()});
    EXPECT_TRUE(one.train());
    // In the second some batches have no other label.
    for (const char* batches : {"5}}\naccumulate: 4\n", "1}}\naccumulate: 20\nnoise_scale: true\n"}) {
      SCOPED_TRACE(loss + std::string(", batch: ") + batches);
      const TempFolder parts;
      Trainer several(plain(more + batches), {.run = parts.path()});
      EXPECT_TRUE(several.train());
      for (const char* name : {"loss", "accuracy"})
        EXPECT_THAT(column(parts.path(), name),
                    testing::Pointwise(testing::DoubleNear(5e-6), column(large.path(), name)))
            << name;
      EXPECT_THAT(weights_of(several), testing::Pointwise(testing::DoubleNear(5e-6), weights_of(one)));
    }
  }
}

// Whichever batch of the step is bad, the step changes nothing, not even running statistics, and the next is good.
TEST(Accumulate, ABadBatchSkipsItsStep) {
  TrainConfig config = plain("data: glyphs\naccumulate: 4\nnon_finite: skip\n");
  config.model = AnyModel(Sequential{Flatten{}, BatchNorm{}, Linear{.out = 3}});
  config.data = Poisoned{.batch = 5, .samples = 40};
  config.epochs = 6;
  config.log_every = 50;  // a row for an epoch of two steps, of which one is bad
  const TempFolder skipped, stopped;
  Trainer trainer(config, {.run = skipped.path()});
  EXPECT_TRUE(trainer.train());
  EXPECT_EQ(trainer.step(), 12);
  for (const Variable& variable : trainer.model().parameters().all())
    for (const double value : variable.array().to_vector<double>())
      EXPECT_TRUE(std::isfinite(value)) << variable.name();
  EXPECT_NE(trainer.model().parameters().find("1.running_mean")->array().to_vector<float>().at(0), 0);
  const std::vector<double> losses = column(skipped.path(), "loss");
  EXPECT_LT(losses.back(), losses.front());  // nan is less than nothing
  config.non_finite = "stop";
  EXPECT_FAULT(non_finite, "the loss is not finite at step ", Trainer(config, {.run = stopped.path()}).train());
}

TEST(Accumulate, WantsEnoughBatches) {
  EXPECT_FAULT(data, "an epoch has 2 batches of 20, a step takes 3 (accumulate)",
               Trainer trainer(plain("data: {glyphs: {train: 50, test: 50, batch: 20}}\naccumulate: 3\n"), {}));
  EXPECT_FAULT(usage, "accumulate", plain("data: glyphs\naccumulate: 0\n"));
}

TEST(EvaluateEvery, CountsSteps) {
  const std::string data = "data: {glyphs: {train: 205, test: 50, batch: 20}}\nsteps: 17\n";
  const TempFolder folder;
  Trainer trainer(plain(data + "evaluate_every: 7\nkeep: 2\n"), {.run = folder.path()});
  EXPECT_TRUE(trainer.train());
  std::vector<std::string> steps;
  for (const auto& row : read_csv(folder / "metrics.csv").rows)
    if (row[2] == "test") steps.push_back(row[1]);
  EXPECT_THAT(steps, ElementsAre("7", "14", "17"));
  EXPECT_THAT(kept_in(folder.path()), ElementsAre(folder / "step-17.h5", folder / "step-14.h5"));
}

TEST(Keep, TheLastCheckpointsStay) {
  const TempFolder folder;
  TrainConfig config = plain("data: {glyphs: {train: 205, test: 50, batch: 20}}\nkeep: 2\n");
  config.epochs = 4;
  train_all(folder.path(), config);
  EXPECT_THAT(kept_in(folder.path()), ElementsAre(folder / "step-40.h5", folder / "step-30.h5"));
  EXPECT_EQ(text_of(folder / "step-40.h5"), text_of(folder / "last.h5"));
  EXPECT_EQ(saved(folder / "step-30.h5"), 30);
  // From an earlier one the run ends the same, and later ones are no reason to forget what is new.
  const std::string last = text_of(folder / "last.h5");
  {
    Trainer trainer(config, {.run = folder.path()});
    trainer.resume(folder / "step-30.h5");
    EXPECT_TRUE(trainer.train());
  }
  EXPECT_EQ(text_of(folder / "last.h5"), last);
  // Where the two others are damaged a kept one is next.
  for (const char* file : {"last.h5", "best.h5", "step-40.h5"}) std::ofstream(folder / file) << "damaged";
  Trainer trainer(config, {.run = folder.path()});
  trainer.resume();
  EXPECT_EQ(trainer.step(), 30);
}

TEST(Keep, RemovesNoLaterOnes) {
  const TempFolder folder;
  std::ofstream(folder / "last.h5") << "new";
  for (const char* name : {"step-5.h5", "step-20.h5", "step-90.h5", "step-x.h5", "step-.h5", "my-step-3.h5"})
    std::ofstream(folder / name) << "old";
  keep_checkpoint(folder / "last.h5", 20, 1);
  EXPECT_THAT(kept_in(folder.path()), ElementsAre(folder / "step-90.h5", folder / "step-20.h5"));
  EXPECT_EQ(text_of(folder / "step-20.h5"), "new");
  keep_checkpoint(folder / "last.h5", 20, 1);  // already another name of it
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp."))) << entry.path();
  EXPECT_TRUE(fs::exists(folder / "step-x.h5") && fs::exists(folder / "my-step-3.h5"));
  EXPECT_FAULT(storage, "step-30.h5", keep_checkpoint(folder / "none.h5", 30, 1));
}

}  // namespace
}  // namespace nixie
