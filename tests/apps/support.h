// Helpers for tests of the programs: a small run, whole files, and running a program.
#pragma once

#include "nixie/apps/trainer/trainer.h"
#include "nixie/tests/data/support.h"
#include "nixie/tests/shell.h"

namespace nixie::test {

/// Dropout, batch norm, Adam and a plateau: everything that has state. 10 steps an epoch, 23 in all.
inline const std::string kRun = R"(
model: [flatten, {linear: {out: 16}}, batch_norm, relu, {dropout: {rate: 0.3}}, {linear: {out: 10}}]
data: {glyphs: {train: 205, test: 50, batch: 20}}
optimizer: {adam: {weight_decay: 1e-3}}
schedule: {plateau: {rate: 0.01, patience: 0, threshold: 0.5, factor: 0.5, warmup: {epochs: 0.5}}}
clip_norm: 5
epochs: 3
steps: 23
seed: 7
backend: cpu
log_every: 4
)";

inline TrainConfig config_in(const std::string& text) { return read_config(parse_yaml(text, "run.yaml")); }

/// kRun with further lines, and with assignments as those of --set.
inline TrainConfig small_config(const std::string& more = "", const std::vector<std::string>& assignments = {}) {
  return parse_config(kRun + more, "run.yaml", assignments);
}

inline void train_all(const fs::path& run, const TrainConfig& config) {
  fs::create_directories(run);
  Trainer trainer(config, {.run = run});
  EXPECT_TRUE(trainer.train());
  EXPECT_TRUE(config.patience > 0 || trainer.step() == trainer.total_steps()) << trainer.step();
}

/// Stops the run after a step.
inline void train_until(std::int64_t step, const fs::path& run, const TrainConfig& config) {
  fs::create_directories(run);
  Trainer trainer(config, {.run = run});
  EXPECT_FALSE(trainer.train([&] { return trainer.step() == step; }));
  EXPECT_EQ(trainer.step(), step);
}

/// Goes on with the folder's run to its end.
inline void train_rest(const fs::path& run, const TrainConfig& config) {
  Trainer trainer(config, {.run = run});
  trainer.resume();
  EXPECT_TRUE(trainer.train());
}

/// A number of a checkpoint's /state.
template <class T = std::int64_t>
T saved(const fs::path& file, const char* name = "step") {
  return std::get<T>(load_checkpoint(file).state.at(name));
}

/// How often a text has a part.
inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

inline void expect_same_files(const fs::path& a, const fs::path& b, const std::string& what = "") {
  for (const char* file : {"metrics.csv", "config.yaml", "last.h5", "best.h5"})
    EXPECT_TRUE(text_of(a / file) == text_of(b / file)) << file << " differs " << what;
}

/// Runs a program of the build through the shell; `before` is what the shell does first.
inline Ran run_program(const std::string& command, const std::string& before = "") {
  return run_shell(before + NIXIE_BINARY_DIR + "/" + command);
}

/// A folder in which programs run, so that their arguments name its files alone.
class Workplace : public TempFolder {
 public:
  Ran run(const std::string& command, const std::string& before = "") const {
    return run_program(command, "cd '" + path().string() + "'; " + before);
  }
  Ran trainer(const std::string& arguments, const std::string& before = "") const {
    return run("trainer " + arguments, before);
  }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((*this / file).parent_path());
    std::ofstream(*this / file, std::ios::binary) << text;
  }
  std::string text(const std::string& file) const { return text_of(*this / file); }
};

}  // namespace nixie::test
