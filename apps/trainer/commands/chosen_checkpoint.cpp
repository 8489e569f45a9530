// The best checkpoint goes before the last.
#include "nixie/apps/trainer/commands/command_line.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/csv_file.h"
#include "nixie/configs/parse/config.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> checkpoint_of(const fs::path& run, std::error_code& error) {
  for (const char* name : {"best.h5", "last.h5"})
    if (fs::exists(run / name, error)) return run / name;
  return std::nullopt;
}

/// A run's best evaluation.
struct Score {
  std::string figure = {};  ///< `accuracy`
  std::string basis = {};   ///< what has to be equal where two are compared
  double value = NAN;       ///< NaN before the first evaluation
  bool is_loss = false;     ///< smaller is better

  bool is_better_than(const Score& other) const {
    if (figure != other.figure || basis != other.basis || std::isnan(value)) return false;
    return std::isnan(other.value) || (is_loss ? value < other.value : value > other.value);
  }
};

/// The keys that decide which samples are evaluated.
std::string test_data_of(const Tree& config) {
  std::string text;
  for (const Tree::Entry& dataset : config.find("data")->entries) {
    text += dataset.key;
    for (const char* key : {"path", "holdout", "limit", "train", "test"})
      if (const Tree* value = dataset.value.find(key)) text += fmt::format(" {}={}", key, value->text);
  }
  return text;
}

std::optional<Score> score_of(const fs::path& run) try {
  const TrainConfig config = load_config(run / "config.yaml");
  const CsvTable table = read_csv(run / "metrics.csv");
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(table.columns, name) - table.columns.begin());
  };
  const std::size_t split = column("split"), loss = column("loss"), wanted = column(config.best_by);
  if (split == table.columns.size() || loss == table.columns.size()) return std::nullopt;
  const auto metric =
      std::ranges::find_if(config.metrics, [&](const auto& each) { return each.kind() == config.best_by; });
  Score score{.figure = config.best_by,
              .basis = test_data_of(parse_yaml(config_text(config), "config")),
              .is_loss = config.best_by == "loss" || (metric != config.metrics.end() && metric->is_error())};
  for (const auto& row : table.rows) {
    if (row[split] != "test") continue;
    const bool has_wanted = wanted < row.size() && !row[wanted].empty();
    if (!has_wanted) score.figure = "loss", score.is_loss = true;  // targets without an accuracy
    const double value = std::strtod(row[has_wanted ? wanted : loss].c_str(), nullptr);
    if (std::isnan(score.value) || (score.is_loss ? value < score.value : value > score.value)) score.value = value;
  }
  if (score.figure == "loss") score.basis += " " + config.loss.text();
  return score;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> newest_checkpoint(const fs::path& runs) {
  std::optional<fs::path> newest;
  fs::file_time_type newest_time = fs::file_time_type::min();
  std::error_code ignored;
  for (const auto& name : fs::directory_iterator(runs, ignored))
    for (const auto& run : fs::directory_iterator(name.path(), ignored)) {
      const auto checkpoint = checkpoint_of(run.path(), ignored);
      if (!checkpoint) continue;
      const auto time = fs::last_write_time(*checkpoint, ignored);
      if (newest && time <= newest_time) continue;
      newest = checkpoint;
      newest_time = time;
    }
  return newest;
}

fs::path chosen_checkpoint(const CheckpointChoice& choice) {
  check(choice.file.empty() || choice.run.empty(), "both --checkpoint and --run are given, expected one of them");
  if (!choice.file.empty()) {
    check(fs::exists(choice.file), choice.file.string(), ": no such checkpoint");
    return choice.file;
  }
  std::error_code error;
  const auto found = choice.run.empty() ? newest_checkpoint("runs") : checkpoint_of(choice.run, error);
  if (error) throw fs::filesystem_error("checkpoint", choice.run, error);
  check(found.has_value(), choice.run.empty()
                               ? "runs/ holds no checkpoint; name one with --checkpoint FILE or --run DIR"
                               : choice.run.string() + " holds neither best.h5 nor last.h5");
  if (choice.run.empty())
    if (const std::string better = better_run_text(*found); !better.empty())
      fmt::print(stderr, "{}\n", printable(better));  // apart from the results
  return *found;
}

std::string better_run_text(const fs::path& checkpoint) {
  const fs::path own = checkpoint.parent_path();
  const std::optional<Score> mine = score_of(own);
  if (!mine) return {};
  std::optional<std::pair<Score, fs::path>> best;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(own.parent_path(), ignored)) {
    if (!fs::exists(entry.path() / "best.h5", ignored)) continue;
    const std::optional<Score> score = score_of(entry.path());
    if (score && score->is_better_than(best ? best->first : *mine)) best = {*score, entry.path()};
  }
  if (!best) return {};
  const auto& [score, run] = *best;
  const std::string here = std::isnan(mine->value) ? "was not evaluated yet" : fmt::format("has {:.4f}", mine->value);
  return fmt::format("{} is better: its best {} is {:.4f}, {} {}; take it with --run {}", run.string(), score.figure,
                     score.value, own.string(), here, shell_word(run.string()));
}

}  // namespace nixie
