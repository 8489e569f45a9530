// Histograms, the net as a graph, and what report_detail adds to the page.
#include <regex>

#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/gradient_probe.h"
#include "nixie/apps/trainer/report/net_graph.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

TEST(Histogram, CountsEqualParts) {
  const std::vector<float> values = {0, 0.5f, 1, 1.5f, 2, 3.9f, 4, NAN, INFINITY};
  const Histogram histogram = histogram_of("w", values, 4);
  EXPECT_THAT(histogram.counts, ElementsAre(2, 2, 1, 2));
  EXPECT_EQ(histogram.low, 0);
  EXPECT_EQ(histogram.high, 4);
  EXPECT_NEAR(histogram.mean, 12.9 / 7, 1e-6);
  double squares = 0;
  for (int i = 0; i < 7; ++i) squares += std::pow(values[static_cast<std::size_t>(i)] - 12.9 / 7, 2);
  EXPECT_NEAR(histogram.deviation, std::sqrt(squares / 7), 1e-6);
  EXPECT_EQ(histogram.not_finite, 2);
  EXPECT_THAT(histogram_html(histogram), HasSubstr("2 not finite"));

  const Histogram same = histogram_of("bias", std::vector<float>{3, 3, 3}, 5);
  EXPECT_THAT(same.counts, ElementsAre(3, 0, 0, 0, 0));
  EXPECT_EQ(same.deviation, 0);
  for (const auto& none : {std::vector<float>{}, {NAN}}) {
    EXPECT_TRUE(histogram_of("x", none).counts.empty());
    EXPECT_THAT(histogram_html(histogram_of("<x>", none)), HasSubstr("&lt;x&gt;"));
  }
}

TEST(Histogram, LargestKeepTheirOrder) {
  std::vector<Variable> variables;
  for (const std::int64_t size : {5, 1, 9, 5, 5, 2})
    variables.emplace_back(std::to_string(variables.size()), Array(Dtype::f32, Shape{size}));
  std::vector<std::string> names;
  for (const Variable& variable : largest(variables, 3)) names.push_back(variable.name());
  ASSERT_EQ(names.size(), 3u);
  EXPECT_THAT(names, testing::Contains("2"));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(largest(variables, 10).size(), 6u);
}

TEST(NetGraph, HasABoxForEachLayer) {
  const TrainConfig config = config_in(R"(
model:
  - {conv2d: {out: 4, kernel: 3, pad: 1}, name: stem}
  - sum: {branches: [identity, {sequential: [{conv2d: {out: 4, kernel: 3, pad: 1}}, relu]}]}
  - flatten
  - linear: {out: 2}
data: glyphs
epochs: 1
)");
  const std::string svg = net_graph(config.model, {2, 1, 6, 6});
  EXPECT_EQ(count_of(svg, "class=\"box\""), 6u);  // stem, identity, conv, relu, flatten, linear
  EXPECT_EQ(count_of(svg, "class=\"join\""), 1u);
  EXPECT_THAT(svg, HasParts(">stem conv2d<", ">1.1.0 conv2d<", ">[4, 6, 6]<"));
  EXPECT_EQ(count_of(svg, "<g "), count_of(svg, "</g>"));
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 (\\d+) (\\d+)\"")));
  EXPECT_GT(std::stoi(size[1]), 2 * 170);  // two branches side by side

  std::string many = "model: [";
  for (int i = 0; i < 301; ++i) many += "relu, ";
  const TrainConfig large = config_in(many + "relu]\ndata: glyphs\nepochs: 1\n");
  EXPECT_EQ(net_graph(large.model, {2, 1, 6, 6}), "");
}

TEST(GradientProbe, GivesTheGradientsOfABatchAndChangesNothing) {
  const TrainConfig config = small_config();
  const auto backend = make_cpu_backend(1);
  const Splits data = config.data.open();
  const Model model(config.model, {20, 1, 28, 28}, config.seed);
  const Optimizer optimizer(model.parameters(), {});
  std::vector<std::vector<float>> before;
  for (const Variable& variable : model.parameters().all()) before.push_back(variable.array().to_vector<float>());
  GradientProbe probe(*backend, config, model, optimizer, data.test, {.batch = 20});
  const std::vector<Histogram> histograms = probe(100), again = probe(2);
  ASSERT_EQ(histograms.size(), model.parameters().trainable().size());
  EXPECT_EQ(again.size(), 2u);
  for (const Histogram& histogram : histograms) {
    EXPECT_EQ(histogram.not_finite, 0) << histogram.name;
    EXPECT_FALSE(histogram.counts.empty()) << histogram.name;
  }
  // The gradients of the last bias sum to 0 under the cross entropy: softmax minus one-hot.
  EXPECT_NEAR(histograms.back().mean, 0, 1e-6) << histograms.back().name;
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(model.parameters().all()[i].array().to_vector<float>(), before[i]);
}

TEST(ReportDetail, IsThereWhereItIsAskedFor) {
  for (const bool is_asked : {false, true}) {
    const TempFolder folder;
    Trainer trainer(small_config(is_asked ? "report_detail: true\n" : ""), {.run = folder.path()});
    trainer.train();
    const std::string page = text_of(folder / "report.html");
    EXPECT_THAT(page, HasParts("<h2>Net</h2>", "<h2>Weights</h2>"));
    for (const char* title : {"<h2>Time by layer</h2>", "<h2>Gradients of one batch</h2>"}) {
      if (is_asked) {
        EXPECT_THAT(page, HasSubstr(title));
      } else {
        EXPECT_THAT(page, Not(HasSubstr(title)));
      }
    }
    EXPECT_LT(page.size(), 1'000'000u);
  }
}

// The measurement leaves the run as it is, bit for bit.
TEST(ReportDetail, ChangesNoResult) {
  std::vector<std::string> metrics;
  for (const char* more : {"", "report_detail: true\n"}) {
    const TempFolder folder;
    Trainer trainer(small_config(more), {.run = folder.path()});
    trainer.train();
    metrics.push_back(text_of(folder / "metrics.csv"));
  }
  EXPECT_EQ(metrics[0], metrics[1]);
}

}  // namespace
}  // namespace nixie
