// Refusals and notes of a resumed run: other data, a folder that was changed under it.
#include <sys/stat.h>

#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/apps/printed.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

/// The output of a trainer that goes on with the folder's run.
std::string resumed(const fs::path& run, const TrainConfig& config, const std::vector<std::string>& changes = {}) {
  const Printed out;
  Trainer trainer(config, {.run = run, .out = out.file()});
  trainer.resume_last(changes);
  trainer.train();
  return out.text();
}

const std::string kLinear = "model: [flatten, {linear: {out: 10}}]\nbackend: cpu\n";

TrainConfig config_with(const std::string& data) { return config_in(kLinear + "steps: 2\ndata: " + data); }

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
    train_all(folder / "run", config);
    for (int version = 1; version < c.versions; ++version) {
      c.write(folder / "data", version);
      EXPECT_FAULT(checkpoint, "the training data are not those of the checkpoint's run",
                   resumed(folder / "run", config))
          << c.data << version;
    }
    EXPECT_THAT(resumed(folder / "run", config, {"data"}), HasSubstr("the training data are not those"));
    c.write(folder / "data", 0);
    TrainConfig more = config;
    more.steps = 3;
    EXPECT_THAT(resumed(folder / "run", more), HasSubstr("resumed after step 2")) << c.data;
  }
}

// last.h5 and best.h5 are refused for the same reason.
TEST(Resume, WhatHoldsOfAllCheckpointsIsSaidOnce) {
  const Workplace folder;
  folder.write("net.yaml", kLinear + "steps: 4\ndata: {glyphs: {train: 64, test: 20, batch: 16}}\n");
  ASSERT_EQ(folder.trainer("--config net.yaml --run run").code, 0);
  const Ran ran = expect_ran(folder.trainer("--config net.yaml --run run --resume --set data.glyphs.batch=32"), 6);
  for (const char* words : {"changed since the checkpoint: data.glyphs.batch: 16 -> 32", "had steps per epoch 4"})
    EXPECT_EQ(count_of(ran.output, words), 1u) << ran.output;
}

// Advice to take smaller batches would be of no use, and what --set names may have nothing to do with it.
TEST(Resume, DataOfWhichTooFewAreLeftAreToldSo) {
  const Workplace folder;
  folder.write("net.yaml", kLinear + "steps: 2\naccumulate: 2\ndata: {arrays: {path: data, batch: 4}}\n");
  write_arrays(folder / "data", 0);
  ASSERT_EQ(folder.trainer("--config net.yaml --run run").code, 0);
  const auto resume = [&](int samples, const std::string& set) {
    if (samples > 0) {
      write_file(folder / "data" / "x_train.npy",
                 npy("|u1", fmt::format("({}, 2, 2)", samples), Bytes(static_cast<std::size_t>(4 * samples))));
      write_file(folder / "data" / "y_train.npy",
                 npy("|u1", fmt::format("({},)", samples), Bytes(static_cast<std::size_t>(samples))));
    }
    return folder.trainer("--run run --resume" + set);
  };
  const char* hint = "; but the run trained with this configuration, so its data have changed: mend them";
  const struct {
    int samples;
    const char *set, *expected;
    bool has_hint;
  } kCases[] = {{0, " --set accumulate=9", "a step takes 9", false},
                {4, "", "an epoch has 1 batches of 4, a step takes 2", true},
                {4, " --set steps=8", "an epoch has 1 batches of 4, a step takes 2", true},
                {2, "", "too few for a batch of 4", true},
                {2, " --set steps=8", "too few for a batch of 4", true},
                {2, " --set data.arrays.batch=3", "too few for a batch of 3", false}};
  for (const auto& c : kCases) {
    const Ran ran = resume(c.samples, c.set);
    expect_ran(ran, 5, c.expected);
    EXPECT_EQ(ran.output.find(hint) != std::string::npos, c.has_hint) << ran.output;
  }
  fs::remove_all(folder / "data");
  EXPECT_THAT(resume(0, "").output, Not(HasSubstr(hint)));
}

TEST(Resume, DataMayMove) {
  const TempFolder folder;
  write_pictures(folder / "old", "0.png");
  const auto config = [&](const char* name) {
    return config_with(fmt::format("{{image_folder: {{path: {}, crop: 8, batch: 4}}}}", (folder / name).string()));
  };
  train_all(folder / "run", config("old"));
  fs::rename(folder / "old", folder / "new");
  EXPECT_THAT(resumed(folder / "run", config("new"), {"data"}), Not(HasSubstr("are not those")));
}

TEST(Resume, MissingRowsAreTold) {
  const TempFolder folder;
  const TrainConfig config = small_config();
  train_all(folder.path(), config);
  EXPECT_THAT(resumed(folder.path(), config), Not(HasSubstr("rows")));
  for (const char* name : {"timing.csv", "metrics.csv"}) {
    std::string table = text_of(folder / name);
    const std::size_t row = table.find('\n') + 1;
    std::ofstream(folder / name, std::ios::binary) << table.erase(row, table.find('\n', row) + 1 - row);
    const char* words = name[0] == 'm' ? "rows are missing or were changed" : "timing.csv has no rows for 1 rows of";
    EXPECT_THAT(resumed(folder.path(), config), HasSubstr(words)) << name;
  }
}

TEST(Resume, ChangedRowsOfTheSameSizeAreTold) {
  const TempFolder folder;
  const TrainConfig config = small_config();
  train_all(folder.path(), config);
  const std::string whole = text_of(folder / "metrics.csv");
  const std::size_t row = whole.find('\n') + 1, dot = whole.find('.', row);
  std::string swapped = whole, other = whole;
  std::swap(swapped[dot + 1], swapped[dot + 2]);
  other[dot + 1] = other[dot + 1] == '9' ? '0' : '9';
  for (const std::string& table : {swapped, other, whole}) {
    ASSERT_EQ(table.size(), whole.size());
    std::ofstream(folder / "metrics.csv", std::ios::binary) << table;
    const std::string notes = resumed(folder.path(), config);
    EXPECT_EQ(notes.find("has other rows up to step 23") != std::string::npos, table != whole) << table;
  }
  // Those that older versions wrote tell the size alone.
  for (const char* name : {"last.h5", "best.h5"}) {
    Checkpoint older = load_checkpoint(folder / name);
    older.state.erase("metrics_checksum");
    save_checkpoint(older, folder / name);
  }
  std::ofstream(folder / "metrics.csv", std::ios::binary) << other;
  EXPECT_THAT(resumed(folder.path(), config), Not(HasSubstr("rows")));
}

TEST(Resume, SecondsThatAreNoneAreLeftBehind) {
  for (const std::string cell : {"nan", "inf", "-1e300", "1e300", "words", ""}) {
    const TempFolder folder;
    train_all(folder.path(), small_config());
    std::string table = text_of(folder / "timing.csv");
    const std::size_t line = table.rfind('\n', table.size() - 2) + 1,
                      first = table.find(',', table.find(',', line) + 1) + 1;
    table.replace(first, table.find(',', first) - first, cell);
    std::ofstream(folder / "timing.csv", std::ios::binary) << table;
    EXPECT_THAT(resumed(folder.path(), small_config("", {"steps=30", "epochs=0"})),
                HasSubstr("timing.csv has 1 rows whose seconds are no number"))
        << cell;
    const CsvTable timing = read_csv(folder / "timing.csv");
    EXPECT_LT(std::stod(timing.rows.back()[2]), 1e6) << cell;
    EXPECT_GT(std::stod(timing.rows.back()[2]), 0) << cell;
  }
}

// A change that the run's files refuse is not in its configuration the next time.
TEST(Resume, ARefusedChangeLeavesTheConfiguration) {
  const TempFolder folder;
  const TrainConfig config = small_config();
  train_all(folder.path(), config);
  const std::string before = text_of(folder / "config.yaml");
  EXPECT_FAULT(usage, "has the columns", resumed(folder.path(), small_config("metrics: [f1]\n")));
  EXPECT_EQ(text_of(folder / "config.yaml"), before);
}

// config.yaml tells what a checkpoint of the run was trained with; where a kill left it ahead of the checkpoint, a
// resume takes what the checkpoint says.
TEST(Resume, AChangeIsInTheConfigurationOnceACheckpointIsOfIt) {
  const Workplace folder;
  const fs::path run = folder / "run";
  folder.write("net.yaml",
               kLinear + "steps: 2\nkeep: 2\noptimizer: sgd\ndata: {glyphs: {train: 64, test: 20, batch: 16}}\n");
  ASSERT_EQ(folder.trainer("--config net.yaml --run run").code, 0);
  const std::string own = text_of(run / "config.yaml"), last = text_of(run / "last.h5");
  const auto resume = [&](const std::string& set, const std::string& expected) {
    expect_ran(folder.trainer("--resume run" + set), 0, expected);
    return text_of(run / "config.yaml");
  };
  EXPECT_EQ(resume(" --set optimizer.sgd.momentum=0.5", "momentum: 0.9 -> 0.5"), own) << "no step was left";
  EXPECT_EQ(resume("", "resumed after step 2"), own);
  EXPECT_TRUE(text_of(run / "last.h5") == last);

  std::string ahead = own;
  ahead.replace(ahead.find("momentum: 0.9"), 13, "momentum: 0.5");
  write_text(run / "config.yaml", ahead);
  EXPECT_EQ(resume("",
                   "config.yaml differs from the configuration in run/last.h5, which is used (optimizer.sgd.momentum: "
                   "0.5 -> 0.9); change it with --set"),
            own);

  const std::string changed = resume(" --set optimizer.sgd.momentum=0.5 --set steps=4", "resumed after step 2");
  EXPECT_THAT(changed, HasSubstr("momentum: 0.5"));
  EXPECT_EQ(changed, load_checkpoint(run / "last.h5").config);
  EXPECT_EQ(resume("", "resumed after step 4"), changed);
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
    const TrainConfig more = small_config(c.after, {"steps=30", "epochs=0"});
    const std::string notes = resumed(folder.path(), more);
    const Checkpoint last = load_checkpoint(folder / "last.h5");
    EXPECT_EQ(notes.find("the next evaluation is the best until now") != std::string::npos, c.anew) << c.after;
    const bool is_of_loss = more.best_by == "loss";
    const double best = std::get<double>(last.state.at("best_score"));
    EXPECT_EQ(best < 0, is_of_loss) << c.before << c.after << best;
  }
}

// Missing, damaged or of another model: the next evaluation writes it, though the score that is lost was better.
TEST(Resume, AMissingBestOrADamagedOneIsToldAndWrittenAnew) {
  const TempFolder folder, other;
  train_all(other.path(), config_in(kLinear + "steps: 1\ndata: {glyphs: {train: 40, test: 20, batch: 20}}"));
  const struct {
    std::function<void(const fs::path& best)> harm;
    const char* expected;
  } kCases[] = {
      {[](const fs::path& best) { fs::remove(best); }, "best.h5 is missing"},
      {[](const fs::path& best) { fs::resize_file(best, 0); }, "best.h5 is no nixie checkpoint"},
      {[](const fs::path& best) { fs::resize_file(best, fs::file_size(best) - 1); }, " bytes long, expected "},
      {[](const fs::path& best) {
         std::string bytes = text_of(best);
         bytes[bytes.size() / 2] ^= 1;
         std::ofstream(best, std::ios::binary) << bytes;
       },
       "best.h5 is damaged"},
      {[&](const fs::path& best) { fs::copy_file(other / "best.h5", best, fs::copy_options::overwrite_existing); },
       "best.h5: "}};
  TrainConfig config = small_config();
  train_all(folder.path(), config);
  for (const auto& c : kCases) {
    EXPECT_THAT(resumed(folder.path(), config), Not(HasSubstr("best.h5")));
    Checkpoint last = load_checkpoint(folder / "last.h5");
    last.state["best_score"] = 1.0;  // no evaluation is better
    const std::int64_t step = std::get<std::int64_t>(last.state.at("step"));
    save_checkpoint(last, folder / "last.h5");
    c.harm(folder / "best.h5");
    config.epochs = 0;
    config.steps += 10;
    EXPECT_THAT(resumed(folder.path(), config),
                AllOf(HasSubstr(c.expected), HasSubstr("; the next evaluation writes it anew")));
    EXPECT_GT(saved(folder / "best.h5"), step) << c.expected;
  }
}

// A run that was killed between its last best.h5 and last.h5, or whose last.h5 is damaged, has no step left to do.
TEST(Resume, ARunWithoutItsLastCheckpointEndsWithIt) {
  const std::function<void(const fs::path& last)> kHarms[] = {
      [](const fs::path& last) { fs::remove(last); },
      [](const fs::path& last) { fs::resize_file(last, fs::file_size(last) / 2); }};
  for (const char* more : {"", "keep: 2\n", "non_finite: roll_back\nsave_every: 3\n"})
    for (const auto& harm : kHarms) {
      const TrainConfig config = small_config(more, {"steps=10", "epochs=0"});  // one evaluation
      const TempFolder whole, run;
      train_all(whole.path(), config);
      fs::copy(whole.path(), run.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
      harm(run / "last.h5");
      resumed(run.path(), config);
      expect_same_files(whole.path(), run.path(), more);
      EXPECT_THAT(resumed(run.path(), config), Not(HasSubstr("h5"))) << "all is well again";
      fs::remove(run / "last.h5");
      Trainer named(config, {.run = run.path()});
      named.resume(run / "best.h5");
      EXPECT_TRUE(named.train());
      expect_same_files(whole.path(), run.path(), more);
    }
}

// What SIGKILL leaves of a run that went on from an earlier checkpoint, before it saved: no later checkpoint whose rows
// were cut.
TEST(Resume, ARunFromAnEarlierCheckpointIsKilledBeforeItSaves) {
  const TrainConfig config = small_config("keep: 3\n", {"steps=30", "epochs=0"});
  const TempFolder whole;
  train_all(whole.path(), config);
  struct Copier final : Callback {
    Copier(fs::path from, fs::path to) : run(std::move(from)), copy(std::move(to)) {}
    void step_ends(Trainer&, std::int64_t) override {
      if (fs::is_empty(copy)) fs::copy(run, copy, fs::copy_options::recursive);
    }
    fs::path run, copy;
  };
  int tried = 0;
  for (const auto& entry : fs::directory_iterator(whole.path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("step-") || name == "step-30.h5") continue;
    const TempFolder run, killed;
    fs::copy(whole.path(), run.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    Trainer trainer(config, {.run = run.path(), .callbacks = {std::make_shared<Copier>(run.path(), killed.path())}});
    trainer.resume(run / name);
    EXPECT_TRUE(trainer.train());
    expect_same_files(whole.path(), run.path(), name);
    EXPECT_THAT(resumed(killed.path(), config), Not(HasSubstr("rows are missing"))) << name;
    expect_same_files(whole.path(), killed.path(), name);
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace nixie
