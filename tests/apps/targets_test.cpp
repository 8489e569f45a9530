// Nets on every kind of target train, evaluate, save and predict; and what cannot be compared is said before a run.
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

/// 64 images of 5 channels, [6, 4]: noise, brighter in channel i % 3.
Bytes five_channels() {
  Bytes pixels;
  std::uint32_t state = 1;
  for (int i = 0; i < 64; ++i)
    for (int c = 0; c < 5; ++c)
      for (int p = 0; p < 24; ++p) {
        state = state * 1664525 + 1013904223;
        pixels.push_back(static_cast<std::uint8_t>((state >> 24) / 16 + (c == i % 3 ? 100 : 0)));
      }
  return npy("|u1", "(64, 5, 6, 4)", pixels);
}

/// Writes five channels and these labels into a folder; the configuration of a run on them.
std::string text_with(const TempFolder& folder, const Bytes& labels, const std::string& more,
                      const std::string& rate = "0.01", const std::string& loading = "batch: 8, holdout: 0.25") {
  write_file(folder / "data/images.npy", five_channels());
  write_file(folder / "data/labels.npy", labels);
  return fmt::format(R"(
data: {{arrays: {{path: "{}", layout: first, {}}}}}
optimizer: {{sgd: {{momentum: 0.9}}}}
schedule: {{constant: {{rate: {}}}}}
epochs: 20
backend: cpu
threads: 1
)",
                     (folder / "data").string(), loading, rate) +
         more;
}

TrainConfig config_with(const TempFolder& folder, const Bytes& labels, const std::string& more) {
  return config_in(text_with(folder, labels, more));
}

struct Case {
  const char* what;
  Bytes labels;  // labels.npy
  std::string model, more, rate;
  double loss;      // that the run has to reach
  double accuracy;  // NaN: there is none
};

std::vector<Case> cases() {
  Bytes classes, several, masks;
  std::vector<float> numbers;
  for (int i = 0; i < 64; ++i) {
    classes.push_back(static_cast<std::uint8_t>(i % 3));
    numbers.push_back(static_cast<float>(i % 3) - 1);
    several.push_back(i % 3 == 0), several.push_back(i % 3 != 1);
    for (int p = 0; p < 24; ++p) masks.push_back(static_cast<std::uint8_t>(i % 3 == 0));
  }
  const std::string head = "[flatten, {linear: {out: ";
  return {
      {"classes of five channels", npy("|u1", "(64,)", classes), head + "3}}]", "", "0.02", 0.2, 1},
      {"a number", npy("<f4", "(64,)", bytes_of_numbers(numbers)), head + "1}}]", "loss: mean_squared\n", "0.003", 0.1,
       NAN},
      {"several labels", npy("|u1", "(64, 2)", several), head + "2}}]", "loss: binary_cross_entropy\n", "0.02", 0.2, 1},
      {"masks", npy("|u1", "(64, 6, 4)", masks),
       "[{conv2d: {out: 4, kernel: 3, pad: 1}}, relu, {conv2d: {out: 2, kernel: 3, pad: 1}}]", "metrics: [iou]\n",
       "0.05", 0.35, 0.85},
      {"the input itself", npy("|u1", "(64,)", classes), "[flatten, {linear: {out: 12}}, {linear: {out: 120}}]",
       "loss: mean_squared\ntarget: input\nmetrics: [mean_error]\nbest_by: mean_error\n", "0.05", 0.9, NAN}};
}

/// An example's error from its output and the dataset's target.
double error_of_example(const Case& c, const Dataset& test, const Example& example) {
  const auto mean = [&]<class T>(const std::vector<T>& truth, const auto& error) {
    double sum = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) sum += error(truth[i] - example.output.data<T>()[i]);
    return sum / static_cast<double>(truth.size());
  };
  const auto size = [](float difference) { return std::abs(difference); };
  if (c.more.find("target: input") != std::string::npos) return mean(sample_values(test, example.index), size);
  if (!test.target().is_dense()) return mean(sample_target<float>(test, example.index), size);
  return mean(sample_target<std::int32_t>(test, example.index), [](int difference) { return difference != 0; });
}

TEST(Targets, OfEveryKindAreLearntSavedAndPredicted) {
  for (const Case& c : cases()) {
    const TempFolder folder;
    const TrainConfig config = config_in(text_with(folder, c.labels, c.more + "model: " + c.model + "\n", c.rate));
    SCOPED_TRACE(c.what);
    fs::create_directories(folder / "run");
    Trainer trainer(config, {.run = folder / "run"});
    EXPECT_TRUE(trainer.train());
    const Evaluation result = trainer.evaluate();
    EXPECT_LT(result.loss, c.loss);
    EXPECT_EQ(result.samples, 16);
    EXPECT_TRUE(std::isnan(c.accuracy) ? std::isnan(result.accuracy) : result.accuracy >= c.accuracy);
    EXPECT_EQ(result.predictions.empty(), c.what != std::string("classes of five channels"));
    const Splits data = config.data.open();
    // The worst samples are those that this loop finds, as far as it looks.
    EXPECT_EQ(result.worst.empty(), !result.predictions.empty());
    if (!result.worst.empty()) {
      EXPECT_EQ(result.worst.size(), 12u);
      const auto is_worse = [](const Example& a, const Example& b) { return a.error > b.error; };
      EXPECT_TRUE(std::is_sorted(result.worst.begin(), result.worst.end(), is_worse));
      for (const Example& example : result.worst)
        EXPECT_NEAR(example.error, error_of_example(c, *data.test, example), 1e-4);
    }
    EXPECT_THAT(text_of(folder / "run/metrics.csv"), Not(HasSubstr("nan")));
    EXPECT_THAT(text_of(folder / "run/report.html"), Not(HasSubstr(">nan<")));

    // The checkpoint holds all that predictions need.
    const TrainedModel trained = load_trained(folder / "run/last.h5");
    EXPECT_EQ(trained.preparation.channels, 5);
    const auto backend = make_cpu_backend(1);
    Predictor predictor(trained, *backend, 2);
    std::vector<Array> samples;
    for (std::int64_t i = 0; i < 3; ++i) samples.push_back(Array::from(sample_values(*data.test, i), {5, 6, 4}));
    const auto scores = predictor(samples);
    ASSERT_EQ(scores.size(), 3u);
    if (predictor.is_dense()) {  // the shares of a mask's classes
      const std::vector<Array> masks = predictor.outputs(samples);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(masks[i].shape(), (Shape{6, 4}));
        const auto pixels = masks[i].data<std::int32_t>();
        for (const auto& [name, share] : scores[i])
          EXPECT_NEAR(share, std::count(pixels.begin(), pixels.end(), std::stoi(name)) / 24.0, 1e-9);
      }
    }
    if (result.predictions.empty()) continue;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(scores[i][0].class_name, std::to_string(result.predictions[i].predicted));
  }
}

// Every other pixel of 16 masks has no class, and no pixel of every fourth mask: the figures count the others alone,
// in batches of any size.
TEST(Targets, ThatAreIgnoredCountNowhere) {
  const TempFolder folder;
  Bytes masks;
  for (int i = 0; i < 64; ++i)
    for (int p = 0; p < 24; ++p)
      masks.push_back(p % 2 == 1 || i % 4 == 0 ? 2 : static_cast<std::uint8_t>((i + p / 5) % 2));
  for (const char* loss : {"cross_entropy: {ignore_index: 2}", "focal: {ignore_index: 2}",
                           "loss_sum: {losses: [{loss: {cross_entropy: {ignore_index: 2}}, weight: 2}]}"}) {
    std::vector<Evaluation> results;
    for (const char* loading : {"batch: 8, holdout: 0.15", "batch: 1, holdout: 0.15"}) {
      const TrainConfig config = config_in(text_with(
          folder, npy("|u1", "(64, 6, 4)", masks),
          fmt::format("loss: {{{}}}\nmodel: [{{conv2d: {{out: 3, kernel: 3, pad: 1}}}}]\nmetrics: [iou, log_loss]\n",
                      loss),
          "0.01", loading));
      const Evaluation& result = results.emplace_back(Trainer(config, {}).evaluate());
      const std::shared_ptr<const Dataset> test = config.data.open().test;
      ASSERT_EQ(result.worst.size(), static_cast<std::size_t>(test->size())) << "all samples are examples";
      double right = 0, counted = 0;
      for (const Example& example : result.worst) {
        double wrong = 0;
        const std::vector<std::int32_t> truth = sample_target<std::int32_t>(*test, example.index);
        for (std::size_t p = 0; p < 24; ++p) {
          if (truth[p] == 2) continue;
          const bool is_right = truth[p] == example.output.data<std::int32_t>()[p];
          right += is_right, wrong += !is_right, ++counted;
        }
        EXPECT_NEAR(example.error, wrong / 24, 1e-6) << loss;
      }
      EXPECT_GT(counted, 0);
      EXPECT_NEAR(result.accuracy, right / counted, 1e-6) << loss;
    }
    EXPECT_NEAR(results[0].loss, results[1].loss, 1e-4) << loss;
    EXPECT_NEAR(results[0].accuracy, results[1].accuracy, 1e-6) << loss;
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(results[0].metrics[i].second, results[1].metrics[i].second, 1e-4) << loss;
  }
}

TEST(Targets, OfWhichNoneCountsHaveNoLoss) {
  const TempFolder folder;
  const TrainConfig config =
      config_with(folder, npy("|u1", "(64, 6, 4)", Bytes(64 * 24, 2)),
                  "loss: {cross_entropy: {ignore_index: 2}}\nmodel: [{conv2d: {out: 3, kernel: 3, pad: 1}}]\n");
  EXPECT_FAULT(
      data,
      testing::Eq(
          "the loss ignores every label of the 16 samples of the test half (ignore_index 2); mend the labels, or "
          "change ignore_index"),
      Trainer(config).evaluate());
}

// The configuration is the run's own, so advice to change the model would be of no use.
TEST(Targets, ThatFitTheRunNoLongerAreTheDatasFault) {
  const Workplace folder;
  const Case c = cases()[0];
  folder.write("net.yaml", text_with(folder, c.labels, "model: " + c.model + "\n"));
  ASSERT_EQ(folder.trainer("--config net.yaml --run run").code, 0);
  Bytes labels = c.labels;
  labels.back() = 9;
  write_file(folder / "data/labels.npy", labels);
  for (const char* set : {"", " --set steps=8"})
    expect_ran(folder.trainer(std::string("--resume --run run") + set), 5,
               "the model has 3 outputs, the data 10 classes",
               "; but the run trained with this configuration, so its data have changed: ");
}

TEST(Targets, ThatDoNotFitAreSaidBeforeTheRun) {
  auto all = cases();
  all.push_back({"masks of another size", npy("|u1", "(64, 4, 6)", Bytes(64 * 24)), "", "", "", 0, 0});
  for (const std::size_t mistakes : {1, 3}) {
    std::vector<std::uint16_t> classes;
    for (std::size_t i = 0; i < 64; ++i) classes.push_back(i % 21 == 7 && i < 21 * mistakes ? 65535 : i % 3);
    all.push_back({"a mistaken class", npy("<u2", "(64,)", bytes_of_numbers(classes)), "", "", "", 0, 0});
  }
  Bytes masks(64 * 24);
  for (std::size_t i = 0; i < masks.size(); ++i) masks[i] = i == 7 * 24 + 9 || i == 8 * 24 ? 77 : i % 3;
  all.push_back({"a mistaken pixel", npy("|u1", "(64, 6, 4)", masks), "", "", "", 0, 0});
  const struct {
    std::size_t data;
    std::string model, more, words;
  } kCases[] = {
      {8, "[{conv2d: {out: 3, kernel: 1}}]", "", "the model has 3 outputs for a pixel, the data 78 classes; "},
      {8, "[{conv2d: {out: 3, kernel: 1}}]", "",
       ": labels[7]: the pixel in row 2, column 1 and 1 more are of class 77, the next below is 2: correct it, or "
       "give "},
      {0, "[flatten, {linear: {out: 2}}]", "",
       "the model has 2 outputs, the data 3 classes; give the last layer as many outputs"},
      {0, "{mlp: {classes: 2}}", "", "the model has 2 outputs, the data 3 classes; set the model's classes"},
      {1, "[flatten, {linear: {out: 3}}]", "",
       "cross_entropy takes classes, the targets are a number; store classes as"},
      {5, "[{conv2d: {out: 3, kernel: 3}}]", "",
       "the targets are [4, 6] numbers; store classes as integers, those of pixels in the image's size [6, 4], or for"},
      {6, "[flatten, {linear: {out: 3}}]", "",
       ": labels[7] is of class 65535, the next below is 2: correct it, or give the last layer as many outputs"},
      {7, "[flatten, {linear: {out: 3}}]", "", " and 2 more are of class 65535, the next below is 2: correct it, or"},
      {1, "[flatten, {linear: {out: 3}}]", "target: input\n",
       "cross_entropy takes classes, the targets are the input; set another loss, for example mean_squared"},
      {0, "[{conv2d: {out: 3, kernel: 3}}]", "", "expected one number per class"},
      {1, "[flatten, {linear: {out: 3}}]", "loss: mean_squared\n",
       "its target [] numbers; give the last layer as many"},
      {2, "[flatten, {linear: {out: 3}}]", "loss: mean_squared\n", "its target [2] numbers"},
      {3, "[flatten, {linear: {out: 2}}]", "", "expected [classes, 6, 4]: the data has a class for each pixel"},
      {3, "[{conv2d: {out: 1, kernel: 3, pad: 1}}]", "", "the model has 1 outputs for a pixel, the data 2 classes"},
      {3, "[{conv2d: {out: 2, kernel: 3, pad: 1}}]", "mixing: {cutmix: 1}\n", "take mixing out"},
      {0, "[flatten, {linear: {out: 7}}]", "target: input\nloss: mean_squared\n", "target is input"},
  };
  for (const auto& c : kCases) {
    const TempFolder folder;
    const TrainConfig config = config_with(folder, all[c.data].labels, c.more + "model: " + c.model + "\n");
    EXPECT_FAULT(usage, c.words, Trainer trainer(config)) << c.model << c.more;
  }
}

TEST(Targets, OfMasksThatTeachNothingAreTold) {
  Bytes ignored(64 * 24, 255), one = ignored, two = ignored;
  for (std::size_t i = 0; i < one.size(); i += 24) one[i] = 1, two[i + 1] = static_cast<std::uint8_t>(i % 5 == 0);
  const struct {
    Bytes masks;
    std::string warning;  // "": none
  } kCases[] = {
      {ignored, "warning: the loss ignores the labels of all 48 training samples, so there is nothing to learn; check"},
      {one,
       "warning: all pixels of the 48 training samples are of one class, \"1\", so there is nothing to tell apart"},
      {two, ""},
  };
  for (const auto& [masks, warning] : kCases) {
    const TempFolder folder;
    const std::string text = Trainer(config_with(folder, npy("|u1", "(64, 6, 4)", masks),
                                                 "loss: {cross_entropy: {ignore_index: 255}}\n"
                                                 "model: [{conv2d: {out: 2, kernel: 1}}]\n"))
                                 .summary();
    EXPECT_THAT(text, HasSubstr(warning));
    EXPECT_EQ(text.find("warning") == std::string::npos, warning.empty()) << text;
  }
}

TEST(Targets, OfAClassApartAreTold) {
  const TempFolder folder;
  Bytes classes;
  for (std::size_t i = 0; i < 64; ++i) classes.push_back(i == 7 ? 255 : i % 3);
  const TrainConfig config =
      config_with(folder, npy("|u1", "(64,)", classes), "model: [flatten, {linear: {out: 256}}]\n");
  EXPECT_THAT(Trainer(config).summary(),
              HasSubstr(": labels[7] is of class 255, the next below is 2; correct it, unless"));
}

TEST(Targets, OutsideTheRangeOfTheLossAreRefused) {
  const std::string model = "model: [flatten, {linear: {out: 1}}]\n";
  for (const char* loss : {"binary_cross_entropy",
                           "{loss_sum: {losses: [{loss: mean_squared}, "
                           "{loss: binary_cross_entropy}]}}"}) {
    const TempFolder folder;
    const TrainConfig config = config_with(folder, cases()[1].labels, std::string("loss: ") + loss + "\n" + model);
    const std::string refused = " has the target -1, expected a number from 0 to 1, which the loss takes; mend the";
    EXPECT_FAULT(data, refused, Trainer(config).train()) << loss;
    EXPECT_FAULT(data, refused, Trainer(config).evaluate()) << loss;
  }
}

TEST(Targets, PredictReadsArrays) {
  const Workplace folder;
  folder.write("net.yaml", text_with(folder, cases()[0].labels, "model: " + cases()[0].model + "\n", "0.02"));
  ASSERT_EQ(folder.trainer("--config net.yaml --run run").code, 0);
  {
    Hdf5File file(folder / "new.h5");  // channels last, which the model's shape tells
    std::vector<std::uint8_t> pixels(2 * 24 * 5, 8);
    for (std::size_t p = 0; p < 24; ++p) pixels[p * 5 + 2] = 108, pixels[120 + p * 5] = 108;
    file.dataset("images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 6, 4, 5}, pixels);
  }
  expect_ran(folder.trainer("predict new.h5 --csv --topk 1 --run run"), 0, "new.h5[0],1,2,", "new.h5[1],1,0,");
  expect_ran(folder.trainer("eval --run run"), 0, "test accuracy 1.0000 loss ");
  // A picture has no five channels.
  write_file(folder / "cat.png", {0x89});
  EXPECT_THAT(folder.trainer("predict cat.png --run run").output, HasSubstr("takes 5 channels, which no picture has"));
}

}  // namespace
}  // namespace nixie
