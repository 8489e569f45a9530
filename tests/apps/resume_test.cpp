// What a resumed run refuses or tells: other data, numbers that no run has, a folder that was changed under it.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::HasSubstr;

namespace fs = std::filesystem;

/// What a trainer prints that goes on with what the folder holds.
std::string resumed(const fs::path& run, const TrainConfig& config, const std::vector<std::string>& changes = {}) {
  const TempFolder folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen((folder / "log").c_str(), "w"), &std::fclose);
  Trainer trainer(config, {.run = run, .out = out.get()});
  trainer.resume_last(changes);
  trainer.train();
  std::fflush(out.get());
  return text_of(folder / "log");
}

void train_all(const fs::path& run, const TrainConfig& config) {
  Trainer trainer(config, {.run = run});
  ASSERT_TRUE(trainer.train());
}

TrainConfig config_with(const std::string& data) {
  return read_config(parse_yaml("model: [flatten, {linear: {out: 3}}]\nsteps: 2\nbackend: cpu\ndata: " + data, "run"));
}

/// 12 training and 6 test images [2, 2] of three classes; `salt` changes one pixel of one training image.
void write_arrays(const fs::path& folder, std::uint8_t salt, bool is_reversed = false) {
  for (const auto& [half, samples] : {std::pair("train", 12), std::pair("test", 6)}) {
    Bytes pixels, labels;
    for (int i = 0; i < samples; ++i) {
      const int sample = is_reversed ? samples - 1 - i : i;
      for (int p = 0; p < 4; ++p) pixels.push_back(static_cast<std::uint8_t>(sample * 7 + p));
      labels.push_back(static_cast<std::uint8_t>(sample % 3));
    }
    if (half == std::string("train")) pixels[5] = static_cast<std::uint8_t>(pixels[5] + salt);
    write_file(folder / (std::string("x_") + half + ".npy"), npy("|u1", fmt::format("({}, 2, 2)", samples), pixels));
    write_file(folder / (std::string("y_") + half + ".npy"), npy("|u1", fmt::format("({},)", samples), labels));
  }
}

void write_pictures(const fs::path& folder, const std::string& first) {
  for (const char* half : {"train", "val"})
    for (const char* name : {"cat", "dog", "owl"})
      for (int i = 0; i < 4; ++i)
        write_file(folder / half / name / (i == 0 ? first : fmt::format("{}.png", i)), png(picture(8, 8, i)));
}

TEST(Resume, ChangedDataAreRefusedUnlessNamed) {
  const struct {
    std::string data;
    std::function<void(const fs::path& folder, int version)> write;  // other versions hold other data
    int versions;
  } kCases[] = {
      {"{{arrays: {{path: {}, batch: 4}}}}",
       [](const fs::path& folder, int version) { write_arrays(folder, version == 1, version == 2); }, 3},
      {"{{image_folder: {{path: {}, crop: 8, batch: 4}}}}",
       [](const fs::path& folder, int version) {
         fs::remove_all(folder);
         write_pictures(folder, version == 0 ? "0.png" : "9.png");
       },
       2},
  };
  for (const auto& c : kCases) {
    const TempFolder folder;
    const TrainConfig config = config_with(fmt::format(fmt::runtime(c.data), (folder / "data").string()));
    c.write(folder / "data", 0);
    fs::create_directories(folder / "run");
    train_all(folder / "run", config);
    for (int version = 1; version < c.versions; ++version) {
      c.write(folder / "data", version);
      EXPECT_THAT(error_of(Fault::checkpoint, [&] { resumed(folder / "run", config); }),
                  HasSubstr("the training data are not those of the checkpoint's run"))
          << c.data << version;
    }
    EXPECT_THAT(resumed(folder / "run", config, {"data"}), HasSubstr("the training data are not those"));
    c.write(folder / "data", 0);
    TrainConfig more = config;
    more.steps = 3;
    EXPECT_THAT(resumed(folder / "run", more), HasSubstr("resumed after step 2")) << c.data;
  }
}

// A moved folder holds the same data.
// last.h5 and best.h5 are refused for the same reason.
TEST(Resume, WhatHoldsOfAllCheckpointsIsSaidOnce) {
  const TempFolder folder;
  const std::string net = "model: [flatten, {linear: {out: 10}}]\nepochs: 1\nbackend: cpu\n";
  std::ofstream(folder / "net.yaml") << net << "data: {glyphs: {train: 64, test: 20, batch: 16}}\n";
  const std::string run = "trainer --config " + (folder / "net.yaml").string() + " --run " + (folder / "run").string();
  ASSERT_EQ(run_program(run).code, 0);
  const Ran ran = run_program(run + " --resume --set data.glyphs.batch=32");
  EXPECT_EQ(ran.code, 6) << ran.output;
  for (const std::string words :
       {"changed since the checkpoint: data.glyphs.batch: 16 -> 32", "had steps per epoch 4"}) {
    EXPECT_THAT(ran.output, HasSubstr(words));
    EXPECT_EQ(ran.output.find(words), ran.output.rfind(words)) << ran.output;
  }
}

TEST(Resume, DataMayMove) {
  const TempFolder folder;
  write_pictures(folder / "old", "0.png");
  const auto config = [&](const char* name) {
    return config_with(fmt::format("{{image_folder: {{path: {}, crop: 8, batch: 4}}}}", (folder / name).string()));
  };
  fs::create_directories(folder / "run");
  train_all(folder / "run", config("old"));
  fs::rename(folder / "old", folder / "new");
  EXPECT_THAT(resumed(folder / "run", config("new"), {"data"}), testing::Not(HasSubstr("are not those")));
}

TEST(Resume, NumbersThatNoRunHasAreRefused) {
  const TempFolder folder;
  TrainConfig config = small_config();
  config.steps = 3;
  train_all(folder.path(), config);
  const Checkpoint whole = load_checkpoint(folder / "last.h5");
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
                {"batch", std::int64_t{99}, "/state holds batch 99, expected 3 at step 3 of 10 an epoch"},
                {"epoch", std::int64_t{1}, "/state holds epoch 1, expected 0 at step 3 of 10 an epoch"},
                {"evaluations_since_best", std::int64_t{-9}, "/state holds evaluations_since_best -9"},
                {"metrics_bytes", std::int64_t{-2}, "/state holds metrics_bytes -2"},
                {"steps_per_epoch", std::int64_t{0}, "/state holds steps_per_epoch 0"},
                {"loss_sum", std::nan(""), "/state holds loss_sum nan"},
                {"accuracy_sum", INFINITY, "/state holds accuracy_sum inf"},
                {"best_score", std::nan(""), "/state holds best_score nan"},
                {"best_score", INFINITY, "/state holds best_score inf, expected a finite number"},
                {"skipped", std::int64_t{4}, "/state holds skipped 4, expected 0 to 3"},
                {"skipped", 1.0, "/state holds skipped as another kind"},
                {"train_data", std::int64_t{1}, "/state holds train_data as another kind"},
                {"best_score", std::int64_t{1}, "/state holds best_score as another kind"},
                {"best_score", 2.0, "/state holds best_score 2, expected 0 to 1 of accuracy"},
                {"best_score", -0.5, "/state holds best_score -0.5, expected 0 to 1 of accuracy"},
                {"loss_sum", 1e300, "/state holds loss_sum 1e+300, expected a finite f32"},
                {"accuracy_sum", 3.5, "/state holds accuracy_sum 3.5, expected 0 to 3"},
                {"accuracy_sum", -1.0, "/state holds accuracy_sum -1"},
                {"train_samples", std::int64_t{-1}, "/state holds train_samples -1"},
                {"shared.step", std::int64_t{3}, "/state holds shared.step as another kind, expected a whole number"},
                {"shared.step", std::nan(""), "/state holds shared.step nan, expected a whole number, 0 to 3"},
                {"shared.step", 3.5, "/state holds shared.step 3.5"},
                {"shared.step", 1e9, "/state holds shared.step 1000000000"},
                {"shared.step", -3.0, "/state holds shared.step -3"},
                {"unheard_of", std::int64_t{1}, "/state holds the unknown \"unheard_of\""}};
  for (const auto& c : kCases) {
    Checkpoint changed = whole;
    changed.state[c.name] = c.value;
    save_checkpoint(changed, folder / "changed.h5");
    EXPECT_THAT(error_of(Fault::checkpoint, [&] { Trainer(config).resume(folder / "changed.h5"); }),
                HasSubstr(c.expected))
        << c.name;
  }
  for (Checkpoint::Values Checkpoint::*part : {&Checkpoint::rng, &Checkpoint::optimizer_options}) {
    Checkpoint changed = whole;
    (changed.*part)["unheard_of"] = std::int64_t{1};
    save_checkpoint(changed, folder / "changed.h5");
    EXPECT_THAT(error_of(Fault::checkpoint, [&] { Trainer(config).resume(folder / "changed.h5"); }),
                HasSubstr("holds the unknown \"unheard_of\""));
  }
}

// The optimizer's, its loss scale's and its plateau's: the owner of each states what it may be.
TEST(Resume, SharedNumbersThatNoRunHasAreRefused) {
  const TempFolder folder;
  TrainConfig config = small_config("precision: fp16\nschedule: {plateau: {rate: 0.1, patience: 1, cooldown: 2}}\n");
  config.steps = 12;
  config.epochs = 0;
  train_all(folder.path(), config);
  const Checkpoint whole = load_checkpoint(folder / "last.h5");
  EXPECT_NO_THROW(Trainer(config).resume(folder / "last.h5"));
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
      Checkpoint changed = whole;
      const std::string name = std::string("shared.") + c.name;
      ASSERT_TRUE(whole.state.contains(name)) << name;
      changed.state[name] = value;
      save_checkpoint(changed, folder / "changed.h5");
      const std::string error = error_of(Fault::checkpoint, [&] { Trainer(config).resume(folder / "changed.h5"); });
      EXPECT_THAT(error, HasSubstr("changed.h5: /state holds " + name)) << value;
      EXPECT_THAT(error, HasSubstr(c.expected)) << value;
    }
}

TEST(Resume, MissingRowsAreTold) {
  const TempFolder folder;
  const TrainConfig config = small_config();
  train_all(folder.path(), config);
  EXPECT_THAT(resumed(folder.path(), config), testing::Not(HasSubstr("rows")));
  for (const char* name : {"timing.csv", "metrics.csv"}) {
    std::string table = text_of(folder / name);
    const std::size_t row = table.find('\n') + 1;
    std::ofstream(folder / name, std::ios::binary) << table.erase(row, table.find('\n', row) + 1 - row);
    const char* words = name[0] == 'm' ? "rows are missing or were changed" : "timing.csv has no rows for 1 rows of";
    EXPECT_THAT(resumed(folder.path(), config), HasSubstr(words)) << name;
  }
}

// A change that the run's files refuse is not in its configuration the next time.
TEST(Resume, ARefusedChangeLeavesTheConfiguration) {
  const TempFolder folder;
  const TrainConfig config = small_config();
  train_all(folder.path(), config);
  const std::string before = text_of(folder / "config.yaml");
  EXPECT_THAT(error_of([&] { resumed(folder.path(), small_config("metrics: [f1]\n")); }), HasSubstr("has the columns"));
  EXPECT_EQ(text_of(folder / "config.yaml"), before);
}

// An accuracy of 0.1 is more than minus any loss, and a loss of one kind is less than one of another.
TEST(Resume, AnotherFigureBeginsAnewWithTheBest) {
  const struct {
    const char *before, *after;
    bool anew;
  } kCases[] = {{"", "best_by: loss\n", true},
                {"best_by: loss\n", "", true},
                {"best_by: loss\nloss: hinge\n", "best_by: loss\nloss: cross_entropy\n", true},
                {"loss: hinge\n", "loss: cross_entropy\n", false},
                {"best_by: loss\n", "best_by: loss\n", false}};
  for (const auto& c : kCases) {
    const TempFolder folder;
    train_all(folder.path(), small_config(c.before));
    TrainConfig more = small_config(c.after);
    more.steps = 30;
    more.epochs = 0;
    const std::string notes = resumed(folder.path(), more);
    const Checkpoint last = load_checkpoint(folder / "last.h5");
    EXPECT_EQ(notes.find("the next evaluation is the best until now") != std::string::npos, c.anew) << c.after;
    const bool is_of_loss = more.best_by == "loss";
    const double best = std::get<double>(last.state.at("best_score"));
    EXPECT_EQ(best < 0, is_of_loss) << c.before << c.after << best;
  }
}

TEST(Resume, AMissingBestCheckpointIsTold) {
  const TempFolder folder;
  train_all(folder.path(), small_config());
  EXPECT_THAT(resumed(folder.path(), small_config()), testing::Not(HasSubstr("best.h5")));
  fs::remove(folder / "best.h5");
  EXPECT_THAT(resumed(folder.path(), small_config()), HasSubstr("best.h5 is missing"));
}

/// The line that a run ends with after something was done to its folder, and its exit code.
Ran disturbed(const fs::path& folder, const std::function<void(const fs::path& run)>& disturb) {
  std::ofstream(folder / "net.yaml") << kRun;
  const fs::path run = folder / "run", log = folder / "log";
  fs::remove_all(run);
  Child child(
      {"--config", (folder / "net.yaml").string(), "--run", run.string(), "--set", "steps=0", "--set", "epochs=100000"},
      log.string());
  EXPECT_TRUE(wait_for([&] { return fs::exists(run / "last.h5"); }));
  disturb(run);
  const int code = exit_code(child.wait());
  return {code, text_of(log)};
}

TEST(Resume, ARunWhoseFolderWasTakenAwayEnds) {
  const TempFolder folder;
  const struct {
    std::function<void(const fs::path& run)> disturb;
    int code;
    const char* expected;
  } kCases[] = {
      {[](const fs::path& run) { fs::rename(run, run.string() + ".old"); }, 8, "No such file or directory"},
      {[](const fs::path& run) { fs::remove(run / "metrics.csv"); }, 8,
       "metrics.csv was removed or replaced while the run wrote to it"},
      {[](const fs::path& run) {
         const std::string text = text_of(run / "metrics.csv");
         fs::remove(run / "metrics.csv");
         std::ofstream(run / "metrics.csv") << text;  // as an editor does
       },
       8, "metrics.csv was removed or replaced while the run wrote to it"},
      {[](const fs::path& run) { fs::resize_file(run / "metrics.csv", 0); }, 8, "another program changed it"},
      {[](const fs::path& run) { std::ofstream(run / "timing.csv", std::ios::app) << "1,1,1,1\n"; }, 8,
       "another program changed it"},
  };
  for (const auto& c : kCases) {
    const Ran ran = disturbed(folder.path(), c.disturb);
    EXPECT_EQ(ran.code, c.code) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(c.expected));
  }
}

}  // namespace
}  // namespace nixie
