// The report of a run, taken apart: every part is there, tags are balanced, figures agree with the evaluation.
#include "nixie/apps/trainer/report/report.h"

#include <png.h>

#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/report/picture.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

/// RFC 4648, section 10.
TEST(Picture, Base64) {
  const std::pair<const char*, const char*> kCases[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xff\xfe", "//4="}};
  for (const auto& [bytes, text] : kCases) EXPECT_EQ(base64(bytes), text);
}

std::string decoded64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(digit));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

std::vector<std::uint8_t> pixels_of(const std::string& uri, std::uint32_t width, std::uint32_t height, int format) {
  const std::string start = "data:image/png;base64,";
  EXPECT_TRUE(uri.starts_with(start));
  const std::string bytes = decoded64(uri.substr(start.size()));
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) << png.message;
  EXPECT_EQ(png.width, width);
  EXPECT_EQ(png.height, height);
  png.format = static_cast<png_uint_32>(format);
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
  EXPECT_TRUE(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr)) << png.message;
  return pixels;
}

TEST(Picture, APngHoldsThePixels) {
  for (const std::int64_t channels : {1, 3}) {
    PagePicture picture{.channels = channels, .height = 5, .width = 7};
    for (std::int64_t i = 0; i < channels * 35; ++i) picture.bytes.push_back(static_cast<std::uint8_t>(i * 37));
    EXPECT_EQ(pixels_of(data_uri(picture), 7, 5, channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY), picture.bytes);
  }
}

/// One sample: planes of rising bytes.
struct Rising final : ByteDataset {
  explicit Rising(const Shape& shape) : ByteDataset(Normalization(shape[0])), shape_(shape) {}
  std::int64_t size() const override { return 1; }
  Shape sample_shape() const override { return shape_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int32_t load_bytes(std::int64_t, const AugmentKey&, std::span<std::uint8_t> bytes) const override {
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    return 0;
  }

  Shape shape_;
  std::vector<std::string> names_ = {"only"};
};

TEST(Picture, IsOfASample) {
  const Rising grey({1, 4, 6});
  std::vector<std::uint8_t> all(24);
  std::iota(all.begin(), all.end(), std::uint8_t{0});
  EXPECT_EQ(picture_of(grey, 0, 64).bytes, all);
  const PagePicture half = picture_of(grey, 0, 3);  // means of 2 x 2
  EXPECT_EQ(half.width, 3);
  EXPECT_EQ(half.height, 2);
  EXPECT_THAT(half.bytes, ElementsAre(4, 6, 8, 16, 18, 20));  // 0, 1, 6, 7 have the mean 3.5
  EXPECT_THAT(picture_of(Rising({3, 1, 2}), 0, 9).bytes, ElementsAre(0, 2, 4, 1, 3, 5));  // interleaved
}

TEST(Picture, IsOfWeights) {
  const auto grey = weight_pictures({1, -1, 0, 0.5, 4, 4, 4, 4, -2, 0, 0, 0}, {3, 1, 2, 2}, 2);
  ASSERT_EQ(grey.size(), 2u);
  EXPECT_THAT(grey[0].bytes, ElementsAre(255, 1, 128, 192));
  EXPECT_THAT(grey[1].bytes, ElementsAre(255, 255, 255, 255));
  EXPECT_THAT(weight_pictures({1, 0, -1, 0, 0.5, 0}, {1, 3, 1, 2}, 9).at(0).bytes,
              ElementsAre(255, 1, 192, 128, 128, 128));  // interleaved
}

/// All texts between two others, the shortest.
std::vector<std::string> between(const std::string& text, const std::string& before, const std::string& after) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
    at += before.size();
    const std::size_t end = text.find(after, at);
    if (end == std::string::npos) break;
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

TEST(Chart, ThinsOutAndMarksRoundNumbers) {
  Chart chart{.title = "a < b", .series = {{"one", {}}, {"two", {{0, 0.5}, {1000, 0.25}}}, {"none", {}}}};
  for (int i = 0; i <= 10'000; ++i) chart.series[0].points.emplace_back(i / 10.0, i / 10'000.0);
  chart.series[0].points.emplace_back(5, NAN);
  const std::string html = chart_html(chart);
  EXPECT_THAT(html, HasSubstr("<figcaption>a &lt; b</figcaption>"));
  const auto lines = between(html, "class=\"line line-", "\"");
  EXPECT_THAT(lines, ElementsAre("0", "1"));
  const auto paths = between(html, "class=\"line line-0\" d=\"", "\"");
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(std::count(paths[0].begin(), paths[0].end(), 'L'), 399);
  EXPECT_THAT(between(html, "class=\"end\">", "<"), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(html, HasSubstr("two <b>0.25</b>"));
  EXPECT_EQ(chart_html({.title = "nothing", .series = {{"none", {}}}}), "");
  const std::string wide =
      chart_html({.title = "", .series = {{"loss", {{1, 5}, {2, 0.003}}}}, .scale = Chart::Scale::wide});
  EXPECT_THAT(between(wide, "class=\"end\">", "<"), ElementsAre("0.01", "0.1", "1"));           // logarithmic
  EXPECT_THAT(chart_html({.title = "", .series = {{"one", {{7, 3}}}}}), HasSubstr("<circle"));  // a single point
  // Powers of ten along x, and a last mark that the right edge does not cut off: 8 a letter of 440.
  const std::string along = chart_html({.title = "", .series = {{"loss", {{0.01, 5}, {100, 4}}}}, .has_log_x = true});
  EXPECT_THAT(between(along, "class=\"middle\">", "<"), ElementsAre("0.01", "0.1", "1", "10", "100", "step"));
  const std::string longest = chart_html({.title = "", .series = {{"loss", {{0, 5}, {123'456, 4}}}}});
  const std::size_t last = longest.find(">150k<");
  ASSERT_NE(last, std::string::npos) << longest;
  EXPECT_LE(std::stod(longest.substr(longest.rfind("x=\"", last) + 3)), 440 - 8 * 4 / 2.0);
}

// Two rows of marks, and under the pointer the name of a point.
TEST(Chart, StepsAreEpochsToo) {
  Chart chart{.title = "Loss", .series = {{"a & b", {{10, 4}, {50, 3}, {100, 2.5}}}}, .steps_per_epoch = 25};
  const std::string html = chart_html(chart);
  EXPECT_THAT(between(html, "class=\"middle\">", "<"),
              ElementsAre("0", "20", "40", "60", "80", "100", "1", "2", "3", "4"));
  EXPECT_THAT(between(html, "class=\"name\">", "<"), ElementsAre("step", "epoch"));
  EXPECT_THAT(between(html, "<title>", "</title>"),
              ElementsAre("a &amp; b: 4 at step 10, epoch 0.4", "a &amp; b: 3 at step 50, epoch 2",
                          "a &amp; b: 2.5 at step 100, epoch 4"));
  EXPECT_THAT(html, HasSubstr("role=\"img\" aria-label=\"Loss: at the end a &amp; b 2.5\""));
  chart.steps_per_epoch = 0;
  for (int i = 0; i < 5000; ++i) chart.series[0].points.emplace_back(100 + i, 2);
  const auto names = between(chart_html(chart), "<title>", "</title>");
  EXPECT_EQ(names.size(), 24u);
  EXPECT_EQ(names.back(), "a &amp; b: 2 at step 5099");
}

TEST(Chart, SharesNearOneDifferByTheirErrors) {
  const auto marks = [](std::vector<double> shares, const std::string& expected) {
    Chart chart{.title = "Accuracy", .series = {{"test", {}}}, .scale = Chart::Scale::share};
    for (const double share : shares)
      chart.series[0].points.emplace_back(static_cast<double>(chart.series[0].points.size()), share);
    const std::string html = chart_html(chart);
    EXPECT_EQ(html.find("(the error is logarithmic)") != std::string::npos, expected != "plain");
    EXPECT_THAT(html, Not(HasSubstr("nan")));
    return between(html, "class=\"end\">", "<");
  };
  EXPECT_THAT(marks({0.1, 0.4, 0.8}, "plain"), ElementsAre("0", "0.2", "0.4", "0.6", "0.8"));
  EXPECT_THAT(marks({0.1, 0.9, 0.9995, 1}, "errors"), ElementsAre("0.999", "0.99", "0.9"));
  EXPECT_THAT(marks({0.95, 0.98, 0.993}, "errors"), ElementsAre("0.99", "0.98", "0.95"));
  EXPECT_THAT(marks({1, 1}, "plain"), testing::Contains("1"));
}

/// Every tag that opens is closed, in order.
void expect_balanced(const std::string& html) {
  std::vector<std::string> open;
  for (const std::string& tag : between(html, "<", ">")) {
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name == "meta" || name == "img" || name == "br" || name == "!DOCTYPE" || tag.ends_with('/')) continue;
    if (!name.starts_with('/')) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    ASSERT_EQ("/" + open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(Report, IsWrittenAtEachEvaluation) {
  const TempFolder folder;
  TrainConfig config = small_config();
  config.model = AnyModel(Sequential{Conv2d{.out = 6, .kernel = 5}, Relu{}, Flatten{}, Linear{.out = 10}});
  Trainer trainer(config, {.run = folder.path()});
  std::vector<std::string> pages;
  const auto keep = [&] {
    if (fs::exists(folder / "report.html")) pages.push_back(text_of(folder / "report.html"));
    return false;
  };
  EXPECT_TRUE(trainer.train(keep));
  const std::string last = text_of(folder / "report.html");
  EXPECT_THAT(pages.at(0), HasSubstr("http-equiv=\"refresh\""));
  // A run that is stopped or killed leaves this page behind, and all it says is still true.
  EXPECT_THAT(pages.at(0), ContainsRegex("Written at 20[0-9-]+ [0-9]+:[0-9]+ after step 10 of 23; each"));
  EXPECT_THAT(last, HasParts("The run is done", "\nmemory: parameters "));
  EXPECT_NE(pages.at(0), last);
  EXPECT_THAT(last, Not(HasSubstr("refresh")));
  expect_balanced(last);
  EXPECT_LT(last.size(), 1'000'000u);
  for (const char* elsewhere : {"http:", "https:", "<script", "<link", "url(", "@import"})
    EXPECT_THAT(last, Not(HasSubstr(elsewhere)));

  EXPECT_THAT(between(last, "<h2>", "</h2>"), ElementsAre("Confusion", "Worst mistakes", "First layer", "Net", "Layers",
                                                          "Weights", "Machine, model and data", "Configuration"));
  EXPECT_THAT(between(last, "<figcaption>", "<"), ElementsAre("Loss", "Accuracy", "Learning rate", "Images per second",
                                                              "0.weight", "0.bias", "3.weight", "3.bias"));
  // The matrix holds every test sample once, the diagonal those that are right.
  const Evaluation result = trainer.evaluate();
  const auto sum = [&](const std::string& kind) {
    std::int64_t total = 0;
    for (const std::string& cell : between(last, "<td class=\"" + kind + "\"", "<"))
      total += std::stoll(cell.substr(cell.find('>') + 1));
    return total;
  };
  const std::int64_t right = sum("right"), wrong = sum("wrong");
  EXPECT_EQ(right + wrong, 50);
  EXPECT_NEAR(static_cast<double>(right) / 50, result.accuracy, 1e-9);
  ASSERT_GT(wrong, 0);
  const auto pictures = between(last, "<figure><img src=\"", "\"");
  EXPECT_EQ(static_cast<std::int64_t>(pictures.size()), std::min<std::int64_t>(wrong, 24));
  for (const std::string& picture : pictures) pixels_of(picture, 28, 28, PNG_FORMAT_GRAY);
  const auto scores = between(last, "<span class=\"soft\">", "</span></div></figure>");
  EXPECT_TRUE(std::is_sorted(scores.rbegin(), scores.rend()));
  EXPECT_THAT(last, HasSubstr("0.weight [6, 1, 5, 5]"));
  const auto filters = between(between(last, "<div class=\"filters\">", "</div>").at(0), "src=\"", "\"");
  EXPECT_EQ(filters.size(), 6u);
  for (const std::string& filter : filters) pixels_of(filter, 5, 5, PNG_FORMAT_GRAY);
  std::vector<std::string> kinds;
  for (const std::string& row : between(last, "<table class=\"layers\"", "</table>"))
    for (const std::string& cells : between(row, "<tr><td>", "</tr>"))
      kinds.push_back(between(cells, "<td>", "<").at(0));
  EXPECT_THAT(kinds, ElementsAre("conv2d", "relu", "flatten", "linear"));
  EXPECT_THAT(last, HasSubstr("seed: 7"));
  // Ten steps an epoch; the net is folded; whatever is drawn has a name for those who do not see it.
  EXPECT_THAT(last, HasParts("at step 20, epoch 2</title>", "<details>\n<summary><h2>Net</h2></summary>"));
  for (const std::string& tag : between(last, "<svg ", ">"))
    EXPECT_THAT(tag, ContainsRegex("role=\"img\" aria-label=\"[^\"]")) << tag;
  for (const std::string& tag : between(last, "<img ", ">")) EXPECT_THAT(tag, ContainsRegex("alt=\"[^\"]"));
  for (const std::string& tag : between(last, "<table ", ">")) EXPECT_THAT(tag, ContainsRegex("aria-label=\"[^\"]"));
}

// They would hide or turn around the text beside them.
TEST(Report, ControlAndBidirectionalCharactersAreEscaped) {
  EXPECT_EQ(html_text("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(html_text("gnp.\u202etxt"), "gnp.\\u202etxt");
  EXPECT_EQ(html_text("two\nlines\tof <text>"), "two\nlines\tof &lt;text&gt;");
}

// A hundred classes have no matrix; names with HTML's letters stay text.
TEST(Report, ManyClassesAndOddNames) {
  const TempFolder folder;
  TrainConfig config = small_config();
  config.data =
      Generated{.channels = 3, .height = 90, .width = 120, .classes = 100, .train = 40, .test = 200, .batch = 20};
  config.model = AnyModel(Sequential{GlobalAvgPool{}, Flatten{}, Linear{.out = 100}});
  config.steps = 1;
  const fs::path run = folder / "a<b>&c";
  fs::create_directory(run);
  Trainer trainer(config, {.run = run});
  EXPECT_TRUE(trainer.train());
  const std::string page = text_of(run / "report.html");
  expect_balanced(page);
  EXPECT_LT(page.size(), 1'000'000u);
  EXPECT_THAT(page, HasParts("a&lt;b&gt;&amp;c</h1>", "class=\"pairs\"", Not(HasSubstr("class=\"confusion\""))));
  const auto pictures = between(page, "<figure><img src=\"", "\"");
  ASSERT_EQ(pictures.size(), 24u);
  pixels_of(pictures[0], 64, 48, PNG_FORMAT_RGB);  // scaled down
}

TEST(Compare, SetsRunsBesideEachOther) {
  const Workplace folder;
  train_all(folder / "a", small_config("", {"steps=12"}));
  train_all(folder / "b", small_config("", {"optimizer=sgd", "metrics=[f1]"}));
  const CsvTable metrics = read_csv(folder / "b/metrics.csv");
  expect_ran(folder.trainer("compare a b --html both.html"), 0, ContainsRegex("\na +12 +0[.].*\nb +23 +0[.]"),
             fmt::format("{:.4f}", std::stod(metrics.rows.back().at(3))), " last f1\n",
             fmt::format(" {:.4f}\n", std::stod(metrics.rows.back().back())), "\nb: steps: 12 -> 23\n",
             "\nb: optimizer: adam -> sgd\n", Not(HasSubstr("-> nothing")));
  const std::string html = folder.text("both.html");
  expect_balanced(html);
  EXPECT_THAT(between(html, "<figcaption>", "<"), ElementsAre("Test accuracy", "Test loss", "Training loss",
                                                              "Learning rate", "Images per second", "Test f1"));
  EXPECT_THAT(between(html, "class=\"line line-", "\""),
              ElementsAre("0", "1", "0", "1", "0", "1", "0", "1", "0", "1", "1"));
  expect_ran(folder.trainer("compare a ."), 2, "holds no metrics.csv; name folders of runs");
}

TEST(Compare, TablesThatNoRunWroteAreRefusedWithTheirLine) {
  const TempFolder folder;
  EXPECT_TRUE(Trainer(small_config(), {.run = folder.path()}).train());
  const std::string head = "epoch,step,split,loss,accuracy,learning_rate\n", row = "1,4,train,0.5,0.25,0.01\n";
  const struct {
    const char* file;
    std::string text;
    int code;
    std::string expected;
  } kCases[] = {
      {"metrics.csv", head + row + "1,8,train,words,0.25,0.01\n", 2,
       "metrics.csv:3: loss is \"words\", expected a number"},
      {"metrics.csv", head + "1,8,train,0.5x,0.25,0.01\n", 2, "metrics.csv:2: loss is \"0.5x\", expected a number"},
      {"metrics.csv", head + "1,,train,0.5,0.25,0.01\n", 2, "metrics.csv:2: step is \"\", expected a number"},
      {"metrics.csv", head + "1,8,best,0.5,0.25,0.01\n", 2, "metrics.csv:2: split is \"best\", expected train or test"},
      {"metrics.csv", head + row + "1,8,train\n" + row, 2, "metrics.csv:3: expected 6 cells, as line 1 has"},
      {"metrics.csv", std::string(300, '\0'), 2,
       "metrics.csv:1: holds bytes of 0x00, which no run writes: the disk lost what was there; correct it"},
      {"metrics.csv", head + row + std::string(3, '\0'), 2, "metrics.csv:3: holds bytes of 0x00"},
      {"timing.csv", std::string(3, '\0') + "\n", 2, "timing.csv:1: holds bytes of 0x00"},
      {"metrics.csv", "a,step,split\n", 2, "metrics.csv:1: no column is named loss"},
      {"metrics.csv", "", 0, "metrics.csv: no rows behind line 1; the run has not logged a step"},
      {"metrics.csv", head, 0, "metrics.csv: no rows behind line 1; the run has not logged a step"},
      {"metrics.csv", head + "1,4,train,nan,,1e-2\n1,8,tr", 0, " 4 "},  // a row that is being written
      {"timing.csv", "epoch,step,seconds\n1,4,soon\n", 2, "timing.csv:2: seconds is \"soon\", expected a number"},
  };
  for (const auto& [file, text, code, expected] : kCases) {
    const std::string before = text_of(folder / file);
    std::ofstream(folder / file) << text;
    expect_ran(run_program("trainer compare '" + folder.path().string() + "'"), code, expected,
               Not(HasSubstr(" 0.0000")));
    std::ofstream(folder / file) << before;
  }
}

}  // namespace
}  // namespace nixie
