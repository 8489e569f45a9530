// Checkpoints with a right checksum that no run wrote: one number, array or name of them was changed.
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

TrainConfig of_steps(int steps, double ema = 0) {
  return small_config("", {fmt::format("steps={}", steps), fmt::format("ema={}", ema)});
}

/// The last checkpoint of a run, which is changed and read again.
struct Changed {
  explicit Changed(TrainConfig of = of_steps(3)) : config(std::move(of)) {
    train_all(folder.path(), config);
    whole = load_checkpoint(folder / "last.h5");
  }

  /// What `read` says of the file then, by default a resume.
  std::string refusal(const std::function<void(Checkpoint&)>& change, const std::function<void()>& read) const {
    Checkpoint changed = whole;
    change(changed);
    save_checkpoint(changed, file);
    return error_of(Fault::checkpoint, read);
  }
  std::string refusal(const std::function<void(Checkpoint&)>& change) const {
    return refusal(change, [&] { Trainer(config).resume(file); });
  }
  std::string refusal(const std::string& name, const Checkpoint::Value& value) const {
    return refusal([&](Checkpoint& c) { c.state[name] = value; });
  }

  TempFolder folder;
  fs::path file = folder / "changed.h5";
  TrainConfig config;
  Checkpoint whole;
};

TEST(Resume, NumbersThatNoRunHasAreRefused) {
  const Changed run;
  const std::int64_t huge = std::int64_t{1} << 62;
  const struct {
    const char* name;
    Checkpoint::Value value;
    const char* expected;
  } kCases[] = {{"step", std::int64_t{-1}, "/state holds step -1, expected 0 to "},
                {"step", huge, "/state holds step 4611686018427387904"},
                {"logged", std::int64_t{-1}, "/state holds logged -1, expected 0 to 3"},
                {"logged", std::int64_t{4}, "/state holds logged 4, expected 0 to 3"},
                {"evaluated", huge, "/state holds evaluated 4611686018427387904, expected 0 to 3"},
                {"skipped", std::int64_t{-1}, "/state holds skipped -1"},
                {"roll_backs", std::int64_t{-1}, "/state holds roll_backs -1"},
                {"roll_backs", std::int64_t{6}, "/state holds roll_backs 6, expected 0 to 5"},
                {"returns", std::string("5"), "/state holds returns \"5\", expected 0 steps"},
                {"returns", std::string("5 x"), "/state holds returns \"5 x\", expected 0 steps"},
                {"batch", std::int64_t{99}, "/state holds batch 99, expected 3 at step 3 of 10 an epoch"},
                {"epoch", std::int64_t{1}, "/state holds epoch 1, expected 0 at step 3 of 10 an epoch"},
                {"evaluations_since_best", std::int64_t{-9}, "/state holds evaluations_since_best -9"},
                {"metrics_bytes", std::int64_t{-2}, "/state holds metrics_bytes -2"},
                {"steps_per_epoch", std::int64_t{0}, "/state holds steps_per_epoch 0"},
                {"loss_sum", std::nan(""), "/state holds loss_sum nan"},
                {"accuracy_sum", INFINITY, "/state holds accuracy_sum inf"},
                {"best_score", std::nan(""), "/state holds best_score nan"},
                {"best_score", INFINITY, "/state holds best_score inf, expected a finite f32"},
                {"best_score", -1e200, "/state holds best_score -1e+200, expected a finite f32"},
                {"skipped", std::int64_t{4}, "/state holds skipped 4, expected 0 to 0"},
                {"skipped", 1.0, "/state holds skipped as another kind"},
                {"train_data", std::int64_t{1}, "/state holds train_data as another kind"},
                {"best_score", std::int64_t{1}, "/state holds best_score as another kind"},
                {"best_score", 2.0, "/state holds best_score 2, expected 0 to 1 of accuracy"},
                {"best_score", -0.5, "/state holds best_score -0.5, expected 0 to 1 of accuracy"},
                {"loss_sum", 1e300, "/state holds loss_sum 1e+300, expected a finite f32"},
                {"accuracy_sum", 3.5, "/state holds accuracy_sum 3.5, expected 0 to 0"},
                {"accuracy_sum", -1.0, "/state holds accuracy_sum -1"},
                {"train_samples", std::int64_t{-1}, "/state holds train_samples -1"},
                {"shared.step", std::int64_t{3}, "/state holds shared.step as another kind, expected a whole number"},
                {"shared.step", std::nan(""), "/state holds shared.step nan, expected a whole number, 0 to 3"},
                {"shared.step", 3.5, "/state holds shared.step 3.5"},
                {"shared.step", 1e9, "/state holds shared.step 1000000000"},
                {"shared.step", -3.0, "/state holds shared.step -3"},
                {"unheard_of", std::int64_t{1}, "/state holds the unknown \"unheard_of\""}};
  for (const auto& c : kCases) EXPECT_THAT(run.refusal(c.name, c.value), HasSubstr(c.expected)) << c.name;
  for (const char* name : {"step", "steps_per_epoch", "logged", "loss_sum", "accuracy_sum", "best_score"})
    EXPECT_EQ(run.refusal([&](Checkpoint& c) { c.state.erase(name); }),
              fmt::format("{}: /state holds no {}, as every run's does; use another or an older checkpoint",
                          run.file.string(), name));
  EXPECT_THAT(run.refusal([](Checkpoint& c) {  // none is known yet, but another was worse
    c.state["best_score"] = RunState{}.best_score, c.state["evaluations_since_best"] = std::int64_t{1};
  }),
              HasSubstr("/state holds best_score -1e+300, expected a finite f32"));
  for (Checkpoint::Values Checkpoint::*part : {&Checkpoint::rng, &Checkpoint::optimizer_options})
    EXPECT_THAT(run.refusal([&](Checkpoint& c) { (c.*part)["unheard_of"] = std::int64_t{1}; }),
                HasSubstr("holds the unknown \"unheard_of\""));
}

// The optimizer's, its loss scale's and its plateau's: the owner of each states what it may be.
TEST(Resume, SharedNumbersThatNoRunHasAreRefused) {
  const TrainConfig config = small_config(
      "", {"steps=12", "epochs=0", "precision=fp16", "schedule={plateau: {rate: 0.1, patience: 1, cooldown: 2}}"});
  const Changed run(config);
  EXPECT_NO_THROW(Trainer(config).resume(run.folder / "last.h5"));
  const double nan = std::nan("");
  const struct {
    const char* name;
    std::vector<double> values;
    const char* expected;
  } kCases[] = {{"loss_scale", {nan, INFINITY, 1e30, 1e-30, 0, -1}, "number, 6.103515625e-05 to 16777216"},
                {"good_steps", {nan, -5, 0.5, 13, 2000, 1e300}, "whole number, 0 to 12"},
                {"skipped_steps", {nan, -5, 1.5, 13, 1e10}, "whole number, 0 to 12"},
                {"step", {nan, -1, 0.5, 13}, "whole number, 0 to 12"},
                {"plateau_factor", {nan, -1, 2, INFINITY}, "number, 0 to 1"},
                {"plateau_best", {nan, -INFINITY}, "number, -1.797"},
                {"plateau_waited", {nan, -1, 0.5, 13}, "whole number, 0 to 12"},
                {"plateau_cooling", {nan, -1, 0.5, 1e10}, "whole number, 0 to 2147483647"}};
  for (const auto& c : kCases)
    for (const double value : c.values) {
      const std::string name = std::string("shared.") + c.name;
      ASSERT_TRUE(run.whole.state.contains(name)) << name;
      const std::string error = run.refusal(name, value);
      EXPECT_THAT(error, HasSubstr("changed.h5: /state holds " + name)) << value;
      EXPECT_THAT(error, HasSubstr(c.expected)) << value;
    }
}

// Predictions, evaluations and exports refuse the same checkpoints as a resume: all of them by load_trained.
TEST(Resume, WhatNoRunWritesIsRefusedByAllReaders) {
  const Changed run, averaged(of_steps(3, 0.9));
  using Change = std::function<void(Checkpoint&)>;
  const Array three = Array::from(std::vector<float>{1, 2, 3}, {3});
  const auto as = [](Dtype dtype) {
    return [dtype](Checkpoint& c) { c.model["5.bias"] = c.model.at("5.bias").to(dtype); };
  };
  const struct {
    bool has_ema;
    Change change;
    const char* expected;
  } kCases[] = {
      {true, [](Checkpoint& c) { c.ema.erase("5.bias"); }, "/ema has no 5.bias, but averages of other arrays"},
      {true, [](Checkpoint& c) { c.ema.erase(std::next(c.ema.begin()), c.ema.end()); }, "/ema has no "},
      {true, [](Checkpoint& c) { c.ema.clear(); }, "/ema is missing, but its configuration has ema 0.9"},
      {true, [&](Checkpoint& c) { c.ema["zz"] = three; }, "zz (f32 [3]) is unknown to the model"},
      {true, [](Checkpoint& c) { c.ema["5.bias"] = c.ema.at("5.bias").to(Dtype::f64); }, "5.bias is f64 [10], the"},
      {false, [](Checkpoint& c) { c.ema = c.model; }, "/ema holds averages, but its configuration has no ema"},
      {false, as(Dtype::f64), "5.bias is f64 [10], the model has f32 [10]"},
      {false, as(Dtype::f16), "5.bias is f16 [10], the model has f32 [10]"},
      {false, [&](Checkpoint& c) { c.model["zz"] = three; }, "zz (f32 [3]) is unknown to the model"},
      {false, [&](Checkpoint& c) { c.optimizer["zz"]["x"] = three; }, "/optimizer/zz belongs to no parameter"},
      {false, [](Checkpoint& c) { c.state["foo"] = 1.0; }, "/state holds the unknown \"foo\""},
      {false, [](Checkpoint& c) { c.state["step"] = std::int64_t{-1}; }, "/state holds step -1"},
      {false, [](Checkpoint& c) { c.state["step"] = "3"; }, "/state holds step as another kind"},
      {false, [](Checkpoint& c) { c.rng["seed"] = 7.0; }, "/rng holds seed as no text"},
      {false, [](Checkpoint& c) { c.mean = {3e38}; }, "its mean holds 3e+38"},
      {false, [](Checkpoint& c) { c.mean = {0.1}, c.deviation = {1e-40}; }, "its deviation holds 1e-40 for the mean"},
      {false, [](Checkpoint& c) { c.deviation = {1e-320}; }, "its deviation holds 1e-320"},
      {false, [](Checkpoint& c) { c.input_shape[1] = 28.5; }, "its input_shape holds 28.5, expected whole"},
      {false, [](Checkpoint& c) { c.input_shape.pop_back(); }, "its input_shape has 2 numbers, expected 3"},
      {false, [](Checkpoint& c) { c.short_side = std::int64_t{1} << 62; }, "its short_side is 4611686018427387904"},
  };
  for (const auto& [has_ema, change, expected] : kCases) {
    const Changed& of = has_ema ? averaged : run;
    for (const std::string& error : {of.refusal(change), of.refusal(change, [&] { load_trained(of.file); })})
      EXPECT_THAT(error, HasParts("changed.h5: ", expected));
  }
  EXPECT_THAT(averaged.refusal(kCases[0].change, [&] { first_weights(averaged.file); }),
              HasSubstr("/ema has no 5.bias"));
}

// Variances and mean squares are never negative: who makes such a Variable states it, and every reader refuses others.
TEST(Resume, ArraysOutsideTheirRangesAreRefused) {
  const auto negative = [](Array& array) {
    array = array.clone();
    array.data<float>().back() = -1e-30F;
  };
  const struct {
    const char* optimizer;
    std::vector<const char*> squares;
    std::vector<const char*> others;  // may be negative
  } kCases[] = {{"adam", {"exp_avg_sq"}, {"exp_avg"}},
                {"adamw", {"exp_avg_sq"}, {"exp_avg"}},
                {"{rmsprop: {centered: true, momentum: 0.9}}", {"square_avg"}, {"grad_avg", "momentum_buffer"}},
                {"{adagrad: {initial_sum: 0.1}}", {"sum"}, {}},
                {"adadelta", {"square_avg", "acc_delta"}, {}},
                {"{sgd: {momentum: 0.9}}", {}, {"momentum_buffer"}}};
  for (const auto& c : kCases) {
    const TrainConfig config = small_config("", {"steps=2", std::string("optimizer=") + c.optimizer});
    const Changed run(config);
    for (const char* name : c.squares)
      EXPECT_THAT(run.refusal([&](Checkpoint& all) { negative(all.optimizer.at("5.bias").at(name)); }),
                  HasSubstr(fmt::format("changed.h5: /optimizer/5.bias/{} holds -1.0000000031710769e-30, expected 0 to "
                                        "inf; use another",
                                        name)));
    for (const char* name : c.others) {
      Checkpoint changed = run.whole;
      negative(changed.optimizer.at("5.bias").at(name));
      save_checkpoint(changed, run.file);
      EXPECT_NO_THROW(Trainer(config).resume(run.file)) << c.optimizer << " " << name;
    }
  }
  for (const double ema : {0.0, 0.9}) {
    const Changed run(of_steps(2, ema));
    TrainConfig begun = run.config;
    begun.init_from = run.file.string();
    for (const auto& read :
         {std::function<void()>([&] { Trainer(run.config).resume(run.file); }),
          std::function<void()>([&] { load_trained(run.file); }), std::function<void()>([&] { Trainer{begun}; }),
          std::function<void()>([&] { model_from_weights(begun); }), std::function<void()>([&] {
            run_checkpoint({"convert", run.file, run.folder / "converted.h5"});
          }),
          std::function<void()>([&] {
            run_checkpoint({"convert", run.file, run.folder / "converted.safetensors"});
          })}) {
      const std::string error =
          run.refusal([&](Checkpoint& c) { negative((ema > 0 ? c.ema : c.model).at("2.running_var")); }, read);
      EXPECT_THAT(error, HasParts("changed.h5: ", "2.running_var holds -1.0000000031710769e-30, expected 0 to inf"));
    }
  }
}

// A mistake in the configuration that a checkpoint holds is the checkpoint's, not the user's.
TEST(Resume, AMistakeInTheCheckpointsConfigurationIsItsOwn) {
  const Changed run;
  const auto refused = [&](const std::string& config, bool is_yaml) {
    std::vector<std::function<void()>> readers = {[&] { load_trained(run.file); },
                                                  [&] { Trainer(run.config).resume(run.file); }};
    if (!is_yaml) readers.push_back([&] { run_checkpoint({"diff", run.folder / "last.h5", run.file}); });
    for (const auto& read : readers)
      EXPECT_THAT(run.refusal([&](Checkpoint& c) { c.config = config; }, read), HasSubstr("changed.h5: configuration:"))
          << config;
  };
  for (const auto& [right, wrong] :
       {std::pair("relu", "rellu"), std::pair("seed: 7", "seed: [7"), std::pair("seed: 7", "sed: 7")}) {
    std::string config = run.whole.config;
    ASSERT_THAT(config, HasSubstr(right));
    refused(config.replace(config.find(right), std::string_view(right).size(), wrong), wrong[6] != '[');
  }
  refused("model: mlp\nsteps: 3\n", true);
}

TEST(Resume, OtherClassesOrSamplesAreRefusedUnlessNamed) {
  const Changed run;
  const struct {
    std::function<void(Checkpoint&)> change;
    const char* expected;
  } kCases[] = {
      {[](Checkpoint& c) { std::ranges::reverse(c.class_names); }, "its class names are not those of the data"},
      {[](Checkpoint& c) { c.class_names.pop_back(); }, "its class names are not those of the data"},
      {[](Checkpoint& c) { c.class_names.clear(); }, "its class names are not those of the data"},
      {[](Checkpoint& c) { c.input_shape[1] = 784, c.input_shape[2] = 1; },
       "its samples are [1, 784, 1], those of the data [1, 28, 28]"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(run.refusal(c.change), HasSubstr(c.expected));
    EXPECT_NO_THROW(Trainer(run.config).resume(run.file, {"data"}));
  }
}

}  // namespace
}  // namespace nixie
