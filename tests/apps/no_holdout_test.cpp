// A run on everything: no evaluations, no best.h5, and every command takes last.h5.
#include "nixie/tests/apps/colour_run.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

class NoHoldout : public ColourRun {
 protected:
  static std::string train(const std::string& run, const std::string& more = "") {
    return "train --config net.yaml --set data.image_folder.holdout=0 --run " + path(run) + more;
  }
};

TEST_F(NoHoldout, TrainsOnEverythingAndWritesLast) {
  expect_ran(trainer(train("all", " --set keep=2")), 0, "60 training and 0 test samples",
             "nothing is held out: there are no evaluations, and last.h5 is the checkpoint",
             EndsWith("the run is in " + path("all") + "\n"));
  const fs::path run = path("all");
  EXPECT_TRUE(fs::exists(run / "last.h5") && fs::exists(run / "step-56.h5") && !fs::exists(run / "best.h5"));
  EXPECT_THAT(text_of(run / "metrics.csv"), Not(HasSubstr("test")));
  const std::string page = text_of(run / "report.html");
  EXPECT_THAT(page, HasSubstr("The run is done"));
  for (const char* absent : {"test loss", "test accuracy", "Worst mistakes", "Confusion", "nan"})
    EXPECT_THAT(page, Not(HasSubstr(absent)));

  const std::string picture = path("colours/green/3.png");
  for (const std::string& command : {"predict " + picture + " --run all", std::string("eval --split train --run all")})
    EXPECT_THAT(trainer(command).output, HasSubstr("all/last.h5")) << command;
  EXPECT_EQ(trainer("export all.onnx --run all").code, 0);
  expect_runs(
      trainer,
      {{"eval --run all", 2, "nothing of the data is held out (holdout: 0); evaluate on other data with --data"},
       {"data pack colours packed --set data.image_folder.holdout=0", 2,
        "nothing is held out (holdout: 0), but packed data have both halves"},
       {train("no", " --set patience=3"), 2, "patience counts evaluations, but nothing is held out (holdout: 0)"},
       {train("no", " --set schedule=plateau"), 2, "the plateau watches evaluations, but nothing is held out"}});
  EXPECT_FALSE(fs::exists(path("no")));
  EXPECT_EQ(trainer("eval --split all --run all").code, 0);
  EXPECT_THAT(trainer("data inspect colours --set data.image_folder.holdout=0").output,
              HasSubstr("60 training and 0 test samples"));
  EXPECT_THAT(trainer("--dry-run --config net.yaml --set data.image_folder.holdout=0").output,
              HasSubstr("one step is done, nothing was written"));
}

TEST_F(NoHoldout, AResumedRunEndsAsOneThatWasNotStopped) {
  ASSERT_EQ(trainer(train("whole")).code, 0);
  ASSERT_EQ(trainer(train("parts", " --set epochs=3")).code, 0);
  ASSERT_EQ(trainer("train --resume parts --set epochs=8").code, 0);
  for (const char* file : {"metrics.csv", "last.h5", "config.yaml"})
    EXPECT_TRUE(text_of(path("whole/") + file) == text_of(path("parts/") + file)) << file;
}

}  // namespace
}  // namespace nixie
