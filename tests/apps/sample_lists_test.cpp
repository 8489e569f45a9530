// Lists of samples by their files: what is held out, and what the model makes of each.
#include "nixie/tests/apps/colour_run.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/apps/pages.h"

namespace nixie {
namespace {

class SampleLists : public ColourRun {
 protected:
  /// A command's standard output alone, in lines.
  static std::vector<std::string> lines_from(const std::string& arguments) {
    const Ran ran = trainer(arguments + " 2>/dev/null | cat");
    EXPECT_EQ(ran.code, 0) << arguments;
    return lines_of(ran.output);
  }
  static std::set<std::string> files_in(const std::vector<std::string>& lines, const std::string& with = ",") {
    std::set<std::string> files;
    for (const std::string& line : lines)
      if (line.find(with) != std::string::npos && line.find(".png") != std::string::npos) {
        std::string file = line.substr(0, line.find(".png") + 4);
        files.insert(file.starts_with('"') ? file.substr(1) : file);
      }
    return files;
  }
};

TEST_F(SampleLists, NameWhatIsHeldOutAndWhatTheModelSays) {
  const auto halves = lines_from("data split colours --set data.image_folder.holdout=0.2");
  ASSERT_EQ(halves.size(), 61u);
  EXPECT_EQ(halves[0], "file,half,class");
  const std::set<std::string> held = files_in(halves, ",test,");
  EXPECT_EQ(held.size(), 12u);
  for (const std::string& file : held) EXPECT_TRUE(fs::exists(file)) << file;

  const auto samples = lines_from("eval --csv --run run");
  ASSERT_EQ(samples.size(), 13u);
  EXPECT_EQ(samples[0], "file,truth,guess,score");
  EXPECT_EQ(files_in(samples), held);
  for (std::size_t i = 1; i < samples.size(); ++i)
    if (samples[i].find("/green/") != std::string::npos) {
      EXPECT_THAT(samples[i], HasSubstr(".png,green,green,"));
    } else if (samples[i].find("/blue") != std::string::npos) {
      EXPECT_THAT(samples[i], HasSubstr(".png\",\"blue, or so\",\"blue, or so\","));
    }
  EXPECT_EQ(lines_from("eval --csv --split all --run run").size(), 61u);
}

// Without files a sample is named by its number.
TEST_F(SampleLists, WithoutFilesCountTheSamples) {
  std::ofstream(path("glyphs.yaml")) << "model: [flatten, {linear: {out: 10}}]\nsteps: 2\nbackend: cpu\n"
                                     << "data: {glyphs: {train: 40, test: 7, batch: 20}}\n";
  ASSERT_EQ(trainer("--config glyphs.yaml --run glyphs").code, 0);
  const auto samples = lines_from("eval --csv --run glyphs");
  ASSERT_EQ(samples.size(), 8u);
  for (std::size_t i = 1; i < samples.size(); ++i) EXPECT_THAT(samples[i], StartsWith(std::to_string(i - 1) + ","));

  std::ofstream(path("numbers.csv")) << "1,2.5\n2,3.5\n3,4.5\n4,5.5\n5,6.5\n6,7.5\n";
  std::ofstream(path("numbers.yaml"))
      << "model: [flatten, {linear: {out: 1}}]\nsteps: 2\nbackend: cpu\nloss: mean_squared\n"
      << "data: {arrays: {path: \"" << path("numbers.csv") << "\", batch: 2, holdout: 0.4}}\n";
  ASSERT_EQ(trainer("--config numbers.yaml --run numbers").code, 0);
  expect_ran(trainer("eval --csv --run numbers"), 2, "so samples have no classes; leave --csv out");
}

// Samples that a report shows as wrong can be found.
TEST_F(SampleLists, TheReportNamesTheFilesOfMistakes) {
  ASSERT_EQ(trainer("--config net.yaml --run bad --set epochs=1 --set schedule.constant.rate=1e-6").code, 0);
  const std::string page = text_of(path("bad/report.html"));
  ASSERT_THAT(page, HasSubstr("Worst mistakes"));
  EXPECT_THAT(page, ContainsRegex("taken for <b>[a-z, ]*</b><br>" + path("colours") + "/[a-z, ]*/[0-9]*.png"));
}

}  // namespace
}  // namespace nixie
