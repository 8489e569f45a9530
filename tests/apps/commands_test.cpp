// The trainer's commands after training: eval, predict, export, summary, inspection, and starting from other weights.
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/core/graph/storage.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/io/safetensors.h"
#include "nixie/models/io/weights.h"
#include "nixie/tests/apps/colour_run.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

class Commands : public ColourRun {};

TEST_F(Commands, EvalRepeatsTheRunsResult) {
  expect_ran(trainer("eval --run run --set metrics='[f1]'"), 0, "run/best.h5, after step ",
             "test f1 1.0000\ntest accuracy 1.0000 loss ");
  EXPECT_THAT(trainer("eval --split train --checkpoint run/last.h5").output, HasSubstr("(48 samples)"));
}

// A green picture among the blue ones is the one mistake.
TEST_F(Commands, EvalPrintsWhichClassIsTakenForWhich) {
  const char* names[] = {"blue, or so", "green", "red"};
  for (int c = 0; c < 3; ++c)
    for (unsigned i = 0; i < 4; ++i)
      write_file(*folder_ / fmt::format("odd/{}/{}/{}.png", i < 2 ? "train" : "val", names[c], i),
                 coloured(c == 0 && i == 3 ? 1 : 2 - c, 700 + i));
  const std::string odd = "eval --run run --data odd";
  expect_ran(trainer(odd + " --confusion --set data.image_folder.batch=2"), 0,
             "class       blue, or so green   red   right\n"
             "blue, or so           1     1     0  0.5000\n"
             "green                 0     2     0  1.0000\n"
             "red                   0     0     2  1.0000\n"
             "test accuracy 0.8333");
  EXPECT_THAT(trainer(odd).output, Not(HasSubstr("class ")));
}

TEST_F(Commands, EvalWantsTheSameClasses) {
  for (const char* name : {"green", "purple"})
    for (int i = 0; i < 20; ++i) write_file(*folder_ / fmt::format("other/{}/{}.png", name, i), coloured(0, 1));
  expect_ran(trainer("eval --run run --split train --data other"), 5,
             "class \"purple\" of the data is none of those that the model was trained with");
  // It may lack some.
  for (unsigned i = 0; i < 20; ++i) write_file(*folder_ / fmt::format("fewer/red/{}.png", i), coloured(0, 30 + i));
  const Ran fewer = trainer("eval --run run --split train --confusion --data fewer");
  expect_ran(fewer, 0, "red      16  1.0000\ntrain accuracy 1.0000");
  write_file(*folder_ / "fewer/red/left_out.gif", {'x'});
  const Ran all = trainer("eval --run run --split all --data fewer");
  EXPECT_THAT(all.output,
              ContainsRegex("data image_folder: 20 samples, both halves\ndata: .*/fewer: took 20 pictures, left "
                            "out 1 .gif files\nall accuracy 1.0000 loss "));
}

TEST_F(Commands, PredictNamesTheClass) {
  write_file(*folder_ / "new/a.png", coloured(0, 900));
  write_file(*folder_ / "new/b.png", coloured(2, 901));
  expect_ran(trainer("predict --run run --topk 2 new/a.png"), 0,
             ContainsRegex("new/a.png\n +[01]\\.[0-9]{4}  red\n +[01]\\.[0-9]{4}  "));

  const Ran csv = trainer("predict --csv --topk 1 --run run new");
  EXPECT_THAT(csv.output, HasParts(ContainsRegex("^file,rank,class,score\n[^\n]*new/a.png,1,red,[01][.0-9e-]*\n"),
                                   ContainsRegex("new/b.png,1,\"blue, or so\",[01][.0-9e-]*\n$")));
}

// A picture that cannot be read is named; the rest is predicted.
TEST_F(Commands, PredictGoesOnAfterADamagedPicture) {
  write_file(*folder_ / "mixed/a.png", coloured(1, 7));
  std::ofstream(*folder_ / "mixed/b.png") << "no picture";
  write_file(*folder_ / "mixed/c.png", coloured(0, 8));
  expect_ran(trainer("predict --csv --topk 1 --run run mixed"), 5, "b.png: 10 bytes: neither JPEG nor PNG",
             "mixed/a.png,1,green,", "mixed/c.png,1,red,");
}

TEST_F(Commands, SayWhatIsWrong) {
  for (const char* own : {"own.json", "own.h5"}) std::ofstream(path(own)) << "{}";
  ASSERT_EQ(trainer("export --run run run/w.safetensors").code, 0);
  expect_runs(
      trainer,
      {{"predict", 2, "PICTURES is required"},
       {"predict --run run /nonexistent.jpg", 5, "/nonexistent.jpg: no such file or folder"},
       {"predict --topk 0 x.png", 2, "--topk"},
       {"predict --checkpoint /nonexistent.h5 x.png", 2, "/nonexistent.h5: no such checkpoint"},
       {"eval --run nothing", 2, "holds neither best.h5 nor last.h5"},
       {"eval --run a --checkpoint b", 2, "both --checkpoint and --run"},
       {"eval --run run --data nothing", 5, "no such folder, .csv, .tar, .npz or .h5 file; name one with --data"},
       {"eval --run run --set data.image_folder.crop=9", 2, "the model was trained with [3, 8, 8]"},
       {"export --run run x.pth", 2, "expected .onnx, .safetensors or .h5"},
       {"export --config net.yaml x.h5", 2, "add --set init_from=FILE"},
       {"export --config net.yaml --run run x.h5", 2, "give one of them"},
       {"export --set seed=1 x.h5", 2, "--set and --data are for --config"},
       {"export --run run /proc/x.onnx", 8, "/proc/x.onnx"},
       {"export --fold --run run x.safetensors", 2, "--fold is for .onnx"},
       // nothing good is replaced by mistake
       {"export --run run run/last.h5", 2, "last.h5 is there already; name another file, or"},
       {"export --overwrite --run run run/last.h5", 2, "last.h5 is a run's checkpoint, with"},
       {"export --overwrite --checkpoint run/best.h5 run/best.h5", 2, "best.h5 is the same"},
       {"export --overwrite --run run own.h5", 2, "own.h5 is no checkpoint of export, so it"},
       {"export --overwrite --config net.yaml --set init_from=run/w.safetensors run/../run/w.safetensors", 2,
        "w.safetensors is the same file as run/w.safetensors, which this command uses; name another"},
       {"compare run --html run/report.html", 2, "report.html is there already; name another"},
       {"profile --config net.yaml --trace own.json", 2, "own.json is there already; name"},
       {"checkpoint convert run/best.h5 c.onnx", 2, "c.onnx ends neither in .h5 nor in"},
       {"compare run --html net.yaml", 2, "net.yaml does not end in .html"},
       {"profile --config net.yaml --trace net.yaml", 2, "net.yaml does not end in .json"},
       {"checkpoint mend x.h5", 2, "inspect"},
       {"checkpoint inspect net.yaml", 6, "net.yaml"},
       {"evaluate", 2, "evaluate"},
       {"--data colours", 2, "needs --config"}});
}

TEST_F(Commands, ExportWritesWhatTheCheckpointHolds) {
  ASSERT_EQ(trainer("export --run run w.safetensors").code, 0);
  const Safetensors file = load_safetensors(*folder_ / "w.safetensors");
  const NamedArrays weights = read_weights(*folder_ / "run/best.h5");
  EXPECT_EQ(file.metadata.at("format"), "pt");
  ASSERT_EQ(file.arrays.size(), weights.size());
  for (const auto& [name, array] : weights)
    EXPECT_EQ(file.arrays.at(name).to_vector<float>(), array.to_vector<float>()) << name;
  expect_ran(trainer("export --fold --run run net.onnx"), 0);
  EXPECT_THAT(text_of(*folder_ / "net.onnx"), HasSubstr("blue, or so"));
}

TEST_F(Commands, CheckpointsAreComparedAndConverted) {
  const std::string last = path("run/last.h5"), best = path("run/best.h5"), copy = path("copy.h5"),
                    model = path("model.safetensors");
  EXPECT_THAT(trainer("checkpoint convert " + last + " " + copy).output, HasSubstr("copy.h5: written"));
  expect_ran(trainer("checkpoint diff " + last + " " + copy), 0,
             ContainsRegex("^[0-9]+ of [0-9]+ arrays are equal\n$"));
  EXPECT_EQ(trainer("checkpoint convert " + last + " " + model).code, 0);
  const NamedArrays weights = read_weights(model), expected = read_weights(last);
  EXPECT_EQ(weights.size(), expected.size());
  for (const auto& [name, array] : expected)
    EXPECT_EQ(weights.at(name).to_vector<float>(), array.to_vector<float>()) << name;

  Checkpoint changed = load_checkpoint(last);
  changed.model.at("head.bias").data<float>()[1] += 0.5f;
  changed.state["step"] = std::int64_t{999};
  changed.model.erase("0.weight");
  changed.class_names.back() = "another";
  changed.mean.at(0) = 0.125;
  changed.optimizer_options["momentum"] = 0.25;
  changed.config.clear();
  save_checkpoint(changed, path("changed.h5"));
  expect_ran(trainer("checkpoint diff " + last + " changed.h5"), 1, ContainsRegex("step: [0-9]+ -> 999"),
             "model head.bias: 1 of 3 elements differ, by 0.5 at most", "model 0.weight: only in the first",
             ContainsRegex("classes: .* -> .*another\n"), ContainsRegex("mean: .* -> 0.125"),
             ContainsRegex("optimizer momentum: .* -> 0.25\n"), "config: only in the first\n");

  EXPECT_EQ(trainer("checkpoint convert " + last + " " + copy).code, 2);  // it is there
  EXPECT_THAT(trainer("checkpoint diff " + last).output, HasSubstr("checkpoint diff takes 2 files"));
  EXPECT_THAT(trainer("checkpoint inspect " + last + " " + best).output, HasSubstr("checkpoint inspect takes 1 files"));
}

// A key that did not exist when the checkpoint was written has its default.
TEST_F(Commands, RunsOfEarlierVersionsAreResumed) {
  fs::copy(path("run"), path("old"), fs::copy_options::recursive);
  for (const char* file : {"old/last.h5", "old/best.h5"}) {
    Checkpoint checkpoint = load_checkpoint(path(file));
    const std::size_t at = checkpoint.config.find("      hue: ");
    ASSERT_NE(at, std::string::npos) << checkpoint.config;
    checkpoint.config.erase(at, checkpoint.config.find('\n', at) + 1 - at);
    checkpoint.writer = "nixie 0.0.9";
    save_checkpoint(checkpoint, path(file));
  }
  expect_ran(trainer("--resume --run old --set epochs=9"), 0, "changed since the checkpoint: epochs: 8 -> 9",
             "the checkpoint was written by nixie 0.0.9, this is nixie ");
}

TEST_F(Commands, ExportedCheckpointsPredictAlike) {
  ASSERT_EQ(trainer("export --run run net.h5").code, 0);
  const Checkpoint exported = load_checkpoint(*folder_ / "net.h5");
  EXPECT_TRUE(exported.optimizer.empty() && exported.ema.empty());
  EXPECT_LT(fs::file_size(*folder_ / "net.h5"), fs::file_size(*folder_ / "run/best.h5"));
  EXPECT_THAT(trainer("--resume net.h5 --config net.yaml --run run").output,
              HasSubstr("net.h5: has no optimizer, as what `export` writes; begin a new run with --set init_from="));
  const std::string predict = "predict --csv colours --";
  const Ran before = trainer(predict + "run run"), after = trainer(predict + "checkpoint net.h5");
  EXPECT_EQ(after.code, 0) << after.output;
  EXPECT_EQ(before.output, after.output);
  // The same out of weights that were never trained here; a file that lacks some is refused.
  ASSERT_EQ(trainer("export --overwrite --run run w.safetensors").code, 0);
  const std::string from = "export --overwrite --config net.yaml from.h5 --set init_from=";
  const Ran made = trainer(from + path("w.safetensors"));
  ASSERT_EQ(made.code, 0) << made.output;
  EXPECT_EQ(trainer(predict + "checkpoint from.h5").output, before.output);
  Safetensors partial = load_safetensors(*folder_ / "w.safetensors");
  partial.arrays.erase("head.bias");
  save_safetensors(partial, *folder_ / "partial.safetensors");
  expect_ran(trainer(from + path("partial.safetensors")), 6, "head.bias [3]");
}

TEST_F(Commands, InspectionsPrint) {
  const Ran inspected = trainer("checkpoint inspect run/best.h5");
  EXPECT_THAT(inspected.output,
              HasParts("written by nixie", "step", "input [3, 8, 8] of a picture whose short side is 10, mean [0.485",
                       "3 classes: blue, or so, green, red", "head.weight", "f32   [3, 4]", "momentum_buffer"));
  EXPECT_THAT(trainer("checkpoint verify run/best.h5").output, HasSubstr("best.h5: whole"));
  EXPECT_THAT(trainer("checkpoint config run/best.h5").output, HasSubstr("image_folder:"));
  const Ran summary = trainer("summary --config net.yaml");
  // 4 x 36 values of 27 products and sums, 3 of 4; the convolution gives 576 bytes.
  EXPECT_THAT(summary.output,
              HasParts("conv2d", "[4, 6, 6]", "      0.008        0.6", "forward pass of a sample: 0.008 MFLOP",
                       "model sequential: 135 parameters", "memory: parameters 0.0 MiB"));
  EXPECT_THAT(trainer("config --config net.yaml --set epochs=9").output, HasSubstr("epochs: 9\n"));
  EXPECT_THAT(trainer("list").output, HasSubstr("hard_swish"));
  EXPECT_THAT(trainer("--version").output, testing::MatchesRegex("nixie [0-9.]+\n"));
  EXPECT_THAT(trainer("--help").output, HasSubstr("predict"));
}

TEST_F(Commands, ADryRunWritesNothing) {
  expect_ran(trainer("--dry-run --config net.yaml --run dry"), 0, "step 1/1", "nothing was written");
  EXPECT_FALSE(fs::exists(*folder_ / "dry"));
}

TEST_F(Commands, LargeArraysAreWarnedOf) {
  const std::string net = " --config net.yaml --set model='[flatten, {linear: {out: 300000}}, {linear: {out: 3}}]'";
  const std::string warning = "warning: 1.weight [300000, 192] has 57600000 parameters; is the input [3, 8, 8]";
  EXPECT_THAT(trainer("summary" + net).output, HasSubstr(warning));
  EXPECT_THAT(trainer("train" + net + " --run /proc/nixie").output, HasSubstr(warning)) << "before a run, too";
}

// Weights go on where another run stopped; a head for other classes begins anew; what is frozen stays.
TEST_F(Commands, FineTuningTakesWhatFits) {
  const NamedArrays before = read_weights(*folder_ / "run/best.h5");
  const Ran ran = trainer(
      "--config net.yaml --run tuned --set init_from=run/best.h5 --set freeze='[\"0.*\"]' --set epochs=1 --set "
      "model.5.linear.out=5");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("best.h5: 6 of 8 arrays taken\n  of another shape, left as they were (2): "
                                    "head.weight [5, 4] (the file has [3, 4]), head.bias [5] (the file has [3])"));
  const NamedArrays after = read_weights(*folder_ / "tuned/last.h5");
  EXPECT_EQ(after.at("0.weight").to_vector<float>(), before.at("0.weight").to_vector<float>());
  EXPECT_NE(after.at("1.weight").to_vector<float>(), before.at("1.weight").to_vector<float>());
  EXPECT_EQ(after.at("head.weight").shape(), (Shape{5, 4}));

  const std::string start = "--config net.yaml --run none ";
  expect_ran(trainer(start + "--set freeze='[\"*\"]'"), 2, "leave no parameter to train");
  expect_ran(trainer(start + "--set freeze='[\"feature*\"]'"), 2, ": freeze.0: feature* is the name of no parameter");
  save_safetensors({.arrays = {{"other", Array(Dtype::f32, {1})}}}, *folder_ / "other.safetensors");
  expect_ran(trainer(start + "--set init_from=other.safetensors"), 6, "it has other, the model 0.weight");
}

// The page of every key is the program's own; `trainer list --markdown > docs/configuration.md` brings it up to date.
TEST_F(Commands, TheReferenceIsUpToDate) {
  const Ran printed = trainer("list --markdown");
  EXPECT_EQ(printed.code, 0);
  EXPECT_TRUE(printed.output == text_of(fs::path(NIXIE_SOURCE_DIR) / "docs/configuration.md"))
      << "docs/configuration.md differs from what `trainer list --markdown` prints; write it anew";
}

// A checkpoint may come from a stranger: what predictions would be made with is looked at first.
TEST_F(Commands, OddPreparationsAreRefusedAndNamesEscaped) {
  const Checkpoint whole = load_checkpoint(*folder_ / "run/best.h5");
  const struct {
    std::function<void(Checkpoint&)> change;
    const char* expected;
  } kCases[] = {
      {[](Checkpoint& c) { c.mean[1] = std::nan(""); }, "its mean holds nan"},
      {[](Checkpoint& c) { c.deviation[2] = 0; }, "its deviation holds 0"},
      {[](Checkpoint& c) { c.deviation.pop_back(); }, "its deviation has 2 numbers for 3 channels"},
      {[](Checkpoint& c) { c.input_shape[1] = 1e12; }, "its input_shape holds 1000000000000"},
      {[](Checkpoint& c) { c.class_names.push_back("more"); }, "names 4 classes, its model has 3 outputs"},
  };
  for (const auto& c : kCases) {
    Checkpoint changed = whole;
    c.change(changed);
    save_checkpoint(changed, *folder_ / "odd.h5");
    EXPECT_FAULT(checkpoint, c.expected, load_trained(*folder_ / "odd.h5"));
  }
  Checkpoint named = whole;
  named.class_names[2] = "red\n\x1b[31m";
  save_checkpoint(named, *folder_ / "odd.h5");
  const std::string picture = "'colours/red/0.png' ", checkpoint = "--checkpoint odd.h5";
  for (const std::string& arguments : {"predict " + picture + checkpoint, "predict --csv " + picture + checkpoint,
                                       std::string("checkpoint inspect odd.h5")})
    EXPECT_THAT(trainer(arguments).output, HasSubstr("red\\n\\x1b[31m")) << arguments;
  named.class_names[2] = "\xff\xfe";  // the name of a folder is in any encoding
  save_checkpoint(named, *folder_ / "odd.h5");
  for (const char* name : {"odd.onnx", "odd.safetensors", "odd2.h5"})
    expect_ran(trainer("export " + path(name) + " " + checkpoint), 0);
}

// In C++: thirty lines of a program that classifies pictures.
TEST_F(Commands, APredictorIsAFewLines) {
  const TrainedModel trained = load_trained(*folder_ / "run/best.h5");
  const auto backend = make_cpu_backend(1);
  Predictor predictor(trained, *backend, 2);
  std::vector<Array> samples;
  for (const int colour : {0, 1, 2}) {
    write_file(*folder_ / "one.png", coloured(colour, 77));
    samples.push_back(prepare_picture(*folder_ / "one.png", trained.preparation));
  }
  const auto scores = predictor(samples);
  ASSERT_EQ(scores.size(), 3u);
  const char* expected[] = {"red", "green", "blue, or so"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(scores[i][0].class_name, expected[i]);
    EXPECT_NEAR(scores[i][0].value + scores[i][1].value + scores[i][2].value, 1, 1e-6);
    EXPECT_GE(scores[i][0].value, scores[i][1].value);
  }
  EXPECT_FAULT(usage, "expected [3, 8, 8]", predictor({Array(Dtype::f32, {3, 9, 8})}));
}

// Each thread has a backend of its own; one const model, whose weights are in memory once.
TEST_F(Commands, PredictorsOfAPoolShareAModel) {
  const TrainedModel trained = load_trained(*folder_ / "run/best.h5");
  std::vector<Array> samples;
  for (const int colour : {0, 1, 2}) {
    write_file(*folder_ / "one.png", coloured(colour, 77));
    samples.push_back(prepare_picture(*folder_ / "one.png", trained.preparation));
  }
  std::vector<std::shared_ptr<Backend>> backends;
  std::vector<Predictor> predictors;  // which moves them
  for (int thread = 0; thread < 4; ++thread) {
    backends.push_back(make_cpu_backend(1));
    predictors.emplace_back(trained, *backends.back());
  }
  std::vector<std::vector<Array>> outputs(predictors.size());
  {
    std::vector<std::jthread> pool;
    for (std::size_t t = 0; t < predictors.size(); ++t)
      pool.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round) outputs[t] = predictors[t].outputs(samples);
      });
  }
  for (const std::vector<Array>& found : outputs)
    for (std::size_t i = 0; i < samples.size(); ++i)
      EXPECT_EQ(found[i].to_vector<float>(), outputs[0][i].to_vector<float>());
  const auto storage = trained.model.parameters().all()[0].state()->stored();
  for (const auto& backend : backends) EXPECT_EQ(storage->on(*backend), storage->on(*backends[0]));
}

}  // namespace
}  // namespace nixie
