// Folders for trials: what is left over goes, what is in use or the user's own stays.
#include "nixie/apps/trainer/program/batch_advice.h"

#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

TEST(TrialFolder, OnlyThoseMadeHereAndLeftOverAreRemoved) {
  const TempFolder parent;
  const char* old = std::getenv("TMPDIR");
  const std::string before = old ? old : "";
  ::setenv("TMPDIR", parent.path().c_str(), 1);
  std::string mark;
  {
    const TrialFolder made;
    for (const auto& entry : fs::directory_iterator(made.path())) mark = entry.path().filename();
    ASSERT_FALSE(mark.empty());
  }
  const struct {
    const char* name;
    std::function<void(const fs::path& folder)> fill;
    bool stays;
  } kCases[] = {
      {"nixie-trial-left", [&](const fs::path& folder) { std::ofstream(folder / mark); }, false},
      {"nixie-trial-results", [](const fs::path& folder) { std::ofstream(folder / "thesis.txt") << "mine"; }, true},
      {"nixie-trial-empty", [](const fs::path&) {}, true},
      {"nixie-trial-folder", [&](const fs::path& folder) { fs::create_directory(folder / mark); }, true},
      {"nixie-trial-link", [&](const fs::path& folder) { fs::create_symlink("/dev/null", folder / mark); }, true},
      {"another", [&](const fs::path& folder) { std::ofstream(folder / mark); }, true},
  };
  const TrialFolder in_use;
  for (const auto& c : kCases) {
    fs::create_directory(parent / c.name);
    c.fill(parent / c.name);
    fs::last_write_time(parent / c.name, fs::file_time_type::clock::now() - std::chrono::hours(24));
  }
  fs::last_write_time(in_use.path(), fs::file_time_type::clock::now() - std::chrono::hours(24));
  { const TrialFolder next; }
  for (const auto& c : kCases) EXPECT_EQ(fs::exists(parent / c.name), c.stays) << c.name;
  EXPECT_TRUE(fs::exists(in_use.path())) << "a long trial";
  old ? ::setenv("TMPDIR", before.c_str(), 1) : ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace nixie
