// The training loop: what it leaves, that stopping changes nothing, and what it refuses.
#include "nixie/apps/trainer/trainer.h"

#include "nixie/tests/apps/pages.h"
#include "nixie/tests/apps/poisoned.h"
#include "nixie/tests/apps/printed.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

TEST(Trainer, LeavesARowPerIntervalAndEvaluation) {
  const TempFolder folder;
  train_all(folder.path(), small_config());
  const std::vector<std::string> rows = lines_of(text_of(folder / "metrics.csv"));
  const std::vector<std::string> expected = {"epoch,step,split", "1,4,train",  "1,8,train",  "1,10,train",
                                             "1,10,test",        "2,14,train", "2,18,train", "2,20,train",
                                             "2,20,test",        "3,23,train", "3,23,test"};
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(rows[i].starts_with(expected[i] + ",")) << rows[i];
  EXPECT_EQ(lines_of(text_of(folder / "timing.csv")).size(), 1u + 7u);
  EXPECT_EQ(config_text(load_config(folder / "config.yaml")), config_text(small_config()));
}

// The sawtooth of a curve: a mean over the one step that was left of an epoch.
TEST(Trainer, NoRowBeforeAnEvaluationIsOfFewSteps) {
  struct Rows : Callback {
    std::vector<std::int64_t> steps = {};
    void interval_ends(Trainer&, const Interval& interval) override { steps.push_back(interval.step); }
  };
  const struct {
    std::int64_t epoch, log_every, evaluate_every;
    std::vector<std::int64_t> rows;
  } kCases[] = {
      {11, 5, 0, {5, 11, 16, 22}},          // in place of 10 and 11, 15, 20 and 22
      {13, 5, 0, {5, 10, 13, 18, 23, 26}},  // the row takes 3 of 5
      {12, 4, 0, {4, 8, 12, 16, 20, 24}},   // nothing is left
      {3, 5, 0, {3, 6}},                    // no more to be had
      {3, 1, 0, {1, 2, 3, 4, 5, 6}},
      {11, 4, 5, {5, 10, 15, 20, 22}},  // the end of the run, too
      {9, 4, 7, {4, 7, 11, 14, 18}},
  };
  for (const auto& c : kCases) {
    TrainConfig config = small_config("threads: 1");
    config.model = AnyModel(Sequential{Flatten{}, Linear{.out = 10}});
    config.data = Glyphs{.train = c.epoch * 2, .test = 2, .batch = 2};
    config.epochs = 2;
    config.steps = 0;
    config.log_every = c.log_every;
    config.evaluate_every = c.evaluate_every;
    const auto rows = std::make_shared<Rows>();
    EXPECT_TRUE(Trainer(config, {.callbacks = {rows}}).train());
    EXPECT_EQ(rows->steps, c.rows) << c.epoch << " steps, log_every " << c.log_every;
  }
}

TEST(Trainer, LearnsGlyphs) {
  Trainer trainer(small_config(
      "", {"data.glyphs.train=2000", "data.glyphs.test=300", "steps=0", "schedule={constant: {rate: 0.01}}"}));
  const double before = trainer.evaluate().accuracy;
  EXPECT_TRUE(trainer.train());
  const Evaluation after = trainer.evaluate();
  EXPECT_LT(before, 0.35);
  EXPECT_GT(after.accuracy, 0.8);
  EXPECT_EQ(after.samples, 300);
}

// The promise: stopped after any step and resumed in a new process' place, the files are those of an unbroken run.
TEST(Trainer, StoppedAfterAnyStepGoesOnBitForBit) {
  std::vector<std::int64_t> every(22);
  std::iota(every.begin(), every.end(), 1);
  const struct {
    std::string more;
    std::vector<std::string> assignments;
    std::int64_t steps_per_epoch;
    std::vector<std::int64_t> stops;
  } kCases[] = {
      {"", {}, 10, every},
      {"mixing: {mixup: 0.3, cutmix: 1}\n", {}, 10, {13}},
      {"mixing: {mixup: 0.4}\naccumulate: 3\nnon_finite: skip\nkeep: 2\n",  // 20 batches are 6 steps of 3
       {"data.glyphs.batch=10", "steps=13"},
       6,
       {1, 5, 6, 7, 12}},
      {"ema: 0.9\n", {}, 10, {7}},
      {"ema: 0.9\nprecision: fp16_pure\n", {}, 10, {7}},
  };
  for (const auto& [more, assignments, steps_per_epoch, stops] : kCases) {
    const TrainConfig config = parse_config(kRun + more, "run.yaml", assignments);
    const TempFolder whole;
    train_all(whole.path(), config);
    EXPECT_EQ(saved(whole / "last.h5", "steps_per_epoch"), steps_per_epoch) << more;
    for (const std::int64_t stop_at : stops) {
      const TempFolder broken;
      train_until(stop_at, broken.path(), config);
      EXPECT_EQ(saved(broken / "last.h5"), stop_at);
      train_rest(broken.path(), config);
      expect_same_files(whole.path(), broken.path(), fmt::format("{} stopped after step {}", more, stop_at));
    }
  }
}

// A kill leaves rows and no checkpoint: what was written after the checkpoint is cut off and written again.
TEST(Trainer, RowsBehindTheCheckpointAreCutOff) {
  const TempFolder whole, broken;
  const TrainConfig config = small_config("save_every: 3");
  train_all(whole.path(), config);
  struct Kill {};
  {
    Trainer trainer(config, {.run = broken.path()});
    EXPECT_THROW(trainer.train([&]() -> bool { return trainer.step() == 18 ? throw Kill{} : false; }), Kill);
  }
  EXPECT_THAT(text_of(broken / "metrics.csv"), HasSubstr("2,18,train"));
  std::ofstream(broken / "metrics.csv", std::ios::app) << "2,19,tra";  // torn
  const fs::path half = broken / ".last.h5.tmp.1234";                  // of a checkpoint
  std::ofstream(half) << "half";
  Trainer trainer(config, {.run = broken.path()});
  trainer.resume();
  EXPECT_EQ(trainer.step(), 15);
  EXPECT_TRUE(trainer.train());
  expect_same_files(whole.path(), broken.path());
  EXPECT_FALSE(fs::exists(half));
}

TEST(Trainer, ThreadsDoNotChangeTheRun) {
  const TempFolder one, many;
  TrainConfig config = small_config();
  config.threads = config.loader.threads = 1;
  train_all(one.path(), config);
  config.threads = config.loader.threads = 5;
  train_all(many.path(), config);
  EXPECT_EQ(text_of(one / "metrics.csv"), text_of(many / "metrics.csv"));
  const Checkpoint a = load_checkpoint(one / "last.h5"), b = load_checkpoint(many / "last.h5");
  for (const auto& [name, array] : a.model)
    EXPECT_TRUE(std::memcmp(array.bytes(), b.model.at(name).bytes(), static_cast<std::size_t>(array.size_bytes())) == 0)
        << name;
}

// Images of a byte a pixel are bytes on their way to the step, which normalises them; dark and bright ones are learnt.
TEST(Trainer, BytesStayBytesUntilTheStep) {
  const TempFolder folder;
  const auto write = [&](const std::string& half, std::uint32_t count) {
    Bytes images = big_endian({0x803, count, 4, 4}), labels = big_endian({0x801, count});
    for (std::uint32_t i = 0; i < count; ++i) {
      images.insert(images.end(), 16, static_cast<std::uint8_t>(i % 2 == 0 ? i % 50 : 255 - i % 50));
      labels.push_back(static_cast<std::uint8_t>(i % 2));
    }
    write_file(folder / (half + "-images-idx3-ubyte"), images);
    write_file(folder / (half + "-labels-idx1-ubyte"), labels);
  };
  write("train", 200);
  write("t10k", 30);
  TrainConfig config = small_config();
  config.data = Mnist{.path = folder.path().string(), .batch = 20};
  config.schedule = ConstantRate{.rate = 0.01};
  Trainer trainer(config);
  const Plan& plan = trainer.plan();
  const auto images = std::find_if(plan.slots.begin(), plan.slots.end(), [](const Slot& slot) {
    return slot.shape == Shape{20, 1, 4, 4} && slot.external;
  });
  ASSERT_NE(images, plan.slots.end());
  EXPECT_EQ(images->dtype, Dtype::u8);
  EXPECT_TRUE(trainer.train());
  const Evaluation after = trainer.evaluate();
  EXPECT_EQ(after.samples, 30);
  EXPECT_EQ(after.accuracy, 1);
}

TEST(Trainer, ADamagedCheckpointFallsBackToTheBestOne) {
  const TempFolder folder;
  train_all(folder.path(), small_config());
  const std::int64_t best = saved(folder / "best.h5");
  std::string bytes = text_of(folder / "last.h5");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(folder / "last.h5", std::ios::binary) << bytes;
  {
    Trainer trainer(small_config(), {.run = folder.path()});
    trainer.resume();
    EXPECT_EQ(trainer.step(), best);
  }
  std::ofstream(folder / "best.h5", std::ios::binary) << "no checkpoint";
  EXPECT_FAULT(checkpoint, "best.h5", Trainer(small_config(), {.run = folder.path()}).resume());
}

// A run's model, data and optimizer do not change unasked, and a change must fit the checkpoint.
TEST(Trainer, RefusesTheCheckpointOfAnotherRun) {
  const TempFolder folder;
  train_all(folder.path(), small_config("", {"steps=3"}));
  using C = TrainConfig;
  const auto with_samples = [](std::int64_t train) {
    return [=](C& c) { c.data = Glyphs{.train = train, .test = 50, .batch = 20}; };
  };
  const auto sgd = [](C& c) { c.optimizer = Sgd{}; };
  const auto mlp = [](C& c) { c.model = Mlp{.hidden = {16}}; };
  const struct {
    std::function<void(C&)> change;
    std::vector<std::string> changes;
    Fault fault;
    const char* expected;
  } kCases[] = {
      {[](C& c) { c.seed = 8; }, {}, Fault::checkpoint, "seed 7, this one has 8"},
      {sgd, {}, Fault::usage, "another optimizer: optimizer.adam.beta1: 0.9 -> nothing; "},
      {sgd, {"optimizer"}, Fault::checkpoint, "optimizer adam, this one has sgd"},
      {with_samples(100), {"optimizer"}, Fault::usage, "another data: data.glyphs.train: 205 -> 100; "},
      {with_samples(100), {"data"}, Fault::checkpoint, "training samples 205, this one has 100"},
      {with_samples(206), {"data"}, Fault::checkpoint, "training samples 205, this one has 206"},
      {mlp, {}, Fault::usage, "another model: "},
      {mlp, {"model"}, Fault::checkpoint, "last.h5: /model: "},
      {[](C& c) { c.freeze = {"1.*"}; },
       {"freeze"},
       Fault::usage,
       "last.h5 is of a run with another freeze: freeze.0: nothing -> 1.*; its optimizer's state is"},
      {[](C& c) { c.precision = "fp16"; }, {}, Fault::checkpoint, "no optimizer state shared.loss_scale; resume with"},
      {[](C& c) { c.schedule = ConstantRate{}; },
       {},
       Fault::checkpoint,
       "the optimizer state shared.plateau_best, whi"},
      {[](C& c) { c.steps = 2; }, {}, Fault::usage, "last.h5 is of step 3, the run ends after 2; resume with as many"},
  };
  for (const auto& c : kCases) {
    TrainConfig other = small_config();
    c.change(other);
    EXPECT_THAT(error_of(c.fault, [&] { Trainer(other).resume(folder / "last.h5", c.changes); }),
                HasSubstr(c.expected));
  }
  TrainConfig decays = small_config();
  decays.optimizer = Adam{.weight_decay = 0.5};
  Trainer trainer(decays);
  trainer.resume(folder / "last.h5", {"optimizer"});
  EXPECT_EQ(trainer.step(), 3);
}

TEST(Trainer, FurtherMetricsHaveColumnsAndTimeGoesOn) {
  const TempFolder folder;
  const TrainConfig config = small_config("metrics: [recall, {top_k: {k: 2}}, {top_k: {k: 10}}]\n");
  train_until(13, folder.path(), config);
  std::vector<std::string> rows = lines_of(text_of(folder / "timing.csv"));
  std::ofstream(folder / "timing.csv") << rows[0] << "\n" << rows[1] << "\n2,12,1000.5,3\n";
  train_rest(folder.path(), config);
  rows = lines_of(text_of(folder / "metrics.csv"));
  EXPECT_EQ(rows[0], "epoch,step,split,loss,accuracy,learning_rate,recall,top_k,top_k_2");
  for (const std::string& row : rows) EXPECT_EQ(std::count(row.begin(), row.end(), ','), 8) << row;
  EXPECT_THAT(rows[1], EndsWith(",,,"));
  EXPECT_THAT(rows.back(), ContainsRegex(",0?[0-9.]+,[0-9.]+,1$"));  // all ten classes hold every label
  EXPECT_THAT(lines_of(text_of(folder / "timing.csv")).back(), StartsWith("3,23,100"));
}

// A run that is to stop while it evaluates does not finish the evaluation first, and the resumed one begins with it.
TEST(Trainer, AnEvaluationIsInterrupted) {
  const TempFolder whole, broken;
  const TrainConfig config = small_config("", {"data.glyphs.test=500", "epochs=2", "steps=0"});
  train_all(whole.path(), config);
  for (const std::int64_t stop_at : {10, 20}) {  // the second evaluation is also the run's end
    Trainer trainer(config, {.run = broken.path()});
    if (stop_at == 20) trainer.resume();
    int asked = 0;
    EXPECT_FALSE(trainer.train([&] { return trainer.step() == stop_at && ++asked == 3; }));
    EXPECT_EQ(trainer.step(), stop_at);
  }
  // A run that was resumed and killed once it had written the row of that evaluation, before it saved.
  const std::string table = text_of(whole / "metrics.csv");
  std::ofstream(broken / "metrics.csv", std::ios::app) << table.substr(table.rfind('\n', table.size() - 2) + 1);
  train_rest(broken.path(), config);
  expect_same_files(whole.path(), broken.path());
}

// A request that comes while it evaluates does not wait for the end of the evaluation, and changes nothing else.
TEST(Trainer, SavesOnRequestInsideAnEvaluation) {
  const TempFolder whole, broken;
  const TrainConfig config = small_config("", {"data.glyphs.test=500", "steps=13"});
  train_all(whole.path(), config);
  int asked = 0, saves = 0;
  const auto saved = [&](const auto&... save_now) {
    Trainer trainer(config, {.run = broken.path()});
    if (fs::exists(broken / "last.h5")) trainer.resume();
    return trainer.train([&] { return trainer.step() == 13 && ++asked == 8; }, save_now...);
  };
  EXPECT_FALSE(saved([&] { return asked == 3 && ++saves == 1; }));
  EXPECT_EQ(saves, 1);
  EXPECT_THAT(text_of(broken / "log.txt"), HasSubstr("saved after step 13"));
  EXPECT_TRUE(saved());
  expect_same_files(whole.path(), broken.path());
}

TEST(Trainer, SavesOnRequestAndGoesOn) {
  const TempFolder folder;
  std::int64_t saved_at = 0;
  Trainer trainer(small_config(), {.run = folder.path()});
  EXPECT_TRUE(trainer.train(
      [&] {
        if (trainer.step() == 14) saved_at = saved(folder / "last.h5");
        return false;
      },
      [&] { return trainer.step() == 13; }));
  EXPECT_EQ(saved_at, 13);
}

TEST(Trainer, AResumedRunSaysWhatChanged) {
  const TempFolder folder;
  TrainConfig config = small_config("", {"steps=3"});
  train_all(folder.path(), config);
  const auto printed = [&](const TrainConfig& other) {
    const Printed out;
    try {
      Trainer(other, {.out = out.file()}).resume(folder / "last.h5");
    } catch (const Error&) {
      EXPECT_EQ(other.precision, "fp16");
    }
    return out.text();
  };
  EXPECT_THAT(printed(config), Not(HasSubstr("changed")));
  config.clip_norm = 2;
  EXPECT_EQ(printed(config), "changed since the checkpoint: clip_norm: 5 -> 2\nresumed after step 3\n");
  config.precision = "fp16";
  EXPECT_THAT(printed(config), HasSubstr("changed since the checkpoint: precision: fp32 -> fp16\n"));
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  EXPECT_FAULT(usage, "9 outputs, the data 10 classes", Trainer{small_config("", {"model={mlp: {classes: 9}}"})});
  EXPECT_FAULT(usage, "expected one number per class", Trainer{small_config("", {"model=[{conv2d: {out: 4}}]"})});
  const std::string net =
      "data: glyphs\nepochs: 1\nmodel:\n- flatten\n- sequential:\n  - relu\n  - {conv2d: {out: 4}, name: c}\n";
  EXPECT_FAULT(usage, StartsWith("run.yaml:7:5: 1.c (conv2d): "), Trainer trainer(config_in(net)));
  EXPECT_FAULT(data, "too few for a batch of 20", Trainer{small_config("", {"data.glyphs.train=10"})});
  EXPECT_FAULT(data, "/nonexistent", Trainer{small_config("", {"data={mnist: {path: /nonexistent}}"})});
}

}  // namespace
}  // namespace nixie
