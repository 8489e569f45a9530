// The best checkpoint goes before the last.
#include "nixie/apps/trainer/commands/chosen_checkpoint.h"

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/better_run.h"
#include "nixie/core/base/error.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> checkpoint_of(const fs::path& run, std::error_code& error) {
  for (const char* name : {"best.h5", "last.h5"})
    if (fs::exists(run / name, error)) return run / name;
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

}  // namespace nixie
