// Sections of the page, each from the facts or the run's tables; one that has nothing to show is left out.
#include "nixie/apps/trainer/report/report.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/progress.h"
#include "nixie/apps/trainer/record/csv_file.h"
#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/gradient_probe.h"
#include "nixie/apps/trainer/report/net_graph.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/report/picture.h"
#include "nixie/apps/trainer/report/run_curves.h"
#include "nixie/apps/trainer/report/statistics_table.h"

namespace nixie {
namespace {

constexpr std::int64_t kSide = 96;

/// A sample of several rows and columns can be looked at.
bool is_picture(const Shape& sample) { return sample.rank() == 3 && sample[1] > 1 && sample[2] > 1; }

/// The sample's class and the model's answer.
std::string figure_of(const Dataset& data, const Example& example, bool is_input) {
  const Shape sample = data.sample_shape();
  const SampleTarget target = data.target();
  const std::string own = is_picture(sample) ? image_html(picture_of(data, example.index, kSide), "sample") : "";
  if (is_input)
    return own + (own.empty() ? "" : image_html(picture_of(example.output.data<float>(), sample, kSide), "model"));
  Array truth(target.dtype, target.shape);
  data.load_target(example.index, {}, {truth.bytes(), static_cast<std::size_t>(truth.size_bytes())});
  if (target.is_dense())
    return own + image_html(picture_of(truth.data<std::int32_t>(), target.shape, kSide), "is") +
           image_html(picture_of(example.output.data<std::int32_t>(), target.shape, kSide), "model");
  return fmt::format("{}<div>is <b>{}</b><br>model <b>{}</b></div>", own, numbers_text(truth.data<float>()),
                     numbers_text(example.output.data<float>()));
}

/// The samples that a model without single classes is worst at: pictures beside masks, numbers or their reconstruction.
/// Nothing where samples have a single class. `is_input`: the target of the loss is the sample itself.
std::string worst_samples_html(const Dataset& data, const Evaluation& evaluation, bool is_input) {
  std::vector<Captioned> figures;
  for (const Example& example : evaluation.worst)
    figures.push_back({.images = figure_of(data, example, is_input),
                       .caption = fmt::format("<span class=\"soft\">{}: {:.4g}</span>",
                                              html_text(sample_name(data, example.index)), example.error)});
  if (figures.empty()) return {};
  const bool is_mask = !is_input && data.target().is_dense();
  const char* what = is_input  ? "The sample and what the model makes of it, with the mean error"
                     : is_mask ? "The sample, its mask and the model's mask, with the share of wrong pixels"
                               : "What the sample is and what the model says, with the mean error";
  return fmt::format("<p>{}; the worst of {}.</p>\n{}", what, evaluation.samples, strip_html("examples", figures));
}

// So many fit on a page and, with pictures of this side, in a megabyte.
constexpr std::size_t kMostClasses = 30, kMostPairs = 12, kMostMistakes = 24, kMostLayers = 400;
constexpr std::size_t kMostHistograms = 24;
constexpr std::int64_t kPictureSide = 64, kMostFilters = 64;

std::string tile(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<div>{}<b>{}</b></div>\n", name, html_text(value));
}

/// Nothing where there is no such figure.
std::string figure(double value) { return std::isnan(value) ? "" : fmt::format("{:.4f}", value); }

std::string tiles(const ReportFacts& facts, const RunCurves& curves) {
  const Evaluation& last = facts.evaluation;
  double best = last.accuracy;
  for (const auto& [step, accuracy] : curves.test_accuracy) best = std::max(best, accuracy);
  std::string further;
  for (const auto& [name, value] : last.metrics)
    further += tile(html_text("test " + name).c_str(), fmt::format("{:.4f}", value));
  return "<div class=\"tiles\">\n" + tile("test accuracy", figure(last.accuracy)) + tile("best so far", figure(best)) +
         tile("test loss", figure(last.loss)) + further +
         tile("step", fmt::format("{} of {}", facts.step, facts.total_steps)) +
         tile("time", curves.seconds.empty() ? "" : clock_text(curves.seconds.back().second)) +
         tile("parameters", fmt::format("{}", facts.model.parameters().count())) + "</div>\n";
}

std::string charts(const RunCurves& curves) {
  std::vector<Chart> all = {{.title = "Loss",
                             .series = {{"training", curves.train_loss}, {"test", curves.test_loss}},
                             .scale = Chart::Scale::wide},
                            {.title = "Accuracy",
                             .series = {{"training", curves.train_accuracy}, {"test", curves.test_accuracy}},
                             .scale = Chart::Scale::share},
                            {.title = "Learning rate", .series = {{"rate", curves.rate}}},
                            {.title = "Images per second",
                             .series = {{"images/s", curves.images_per_second}},
                             .scale = Chart::Scale::from_zero}};
  for (const auto& [name, curve] : curves.metrics) all.push_back({.title = "Test " + name, .series = {{name, curve}}});
  return charts_html(all, curves.steps_per_epoch);
}

std::string confusion_table(const Dataset& data, const Confusions& pairs) {
  const auto classes = static_cast<std::int32_t>(data.classes());
  std::vector<std::int64_t> totals(static_cast<std::size_t>(classes));
  for (const auto& [pair, count] : pairs) totals[static_cast<std::size_t>(pair.first)] += count;
  std::vector<Cell> names{{}};
  for (std::int32_t c = 0; c < classes; ++c) names.push_back({html_text(class_name(data, c))});
  std::vector<std::vector<Cell>> rows;
  for (std::int32_t row = 0; row < classes; ++row) {
    std::vector<Cell>& cells = rows.emplace_back();
    cells.push_back({.html = html_text(class_name(data, row)), .is_heading = true});
    for (std::int32_t column = 0; column < classes; ++column) {
      const auto found = pairs.find({row, column});
      if (found == pairs.end()) {
        cells.emplace_back();
        continue;
      }
      const double share =
          static_cast<double>(found->second) / static_cast<double>(totals[static_cast<std::size_t>(row)]);
      cells.push_back(
          {std::to_string(found->second), fmt::format("class=\"{}\" style=\"--share:{:.2f}\"",
                                                      row == column ? "right" : "wrong", 0.15 + 0.65 * share)});
    }
  }
  return "<p>Rows are what the samples are, columns what the model says.</p>\n" +
         table_html("confusion", "samples by what they are and what the model says", names, rows);
}

std::string confusion(const ReportFacts& facts) {
  if (facts.evaluation.predictions.empty()) return {};
  const Confusions pairs = confusions_of(facts.evaluation.predictions);
  if (facts.test.classes() <= static_cast<std::int64_t>(kMostClasses) &&
      std::all_of(pairs.begin(), pairs.end(),
                  [&](const auto& each) { return each.first.second < facts.test.classes(); }))
    return confusion_table(facts.test, pairs);
  std::vector<std::vector<Cell>> rows;
  for (const auto& [pair, count] : most_confused(pairs, kMostPairs))
    rows.push_back({{html_text(class_name(facts.test, pair.first))},
                    {html_text(class_name(facts.test, pair.second))},
                    {.html = std::to_string(count), .is_number = true}});
  return rows.empty() ? ""
                      : table_html("pairs", "the classes most often confused",
                                   {{"is"}, {"taken for"}, {.html = "samples", .is_number = true}}, rows);
}

std::string mistakes(const ReportFacts& facts) {
  std::vector<std::pair<float, std::int64_t>> wrong;
  const auto& predictions = facts.evaluation.predictions;
  for (std::size_t i = 0; i < predictions.size(); ++i)
    if (predictions[i].label != predictions[i].predicted)
      wrong.emplace_back(-predictions[i].score, static_cast<std::int64_t>(i));
  std::sort(wrong.begin(), wrong.end());
  const std::size_t all = wrong.size();
  wrong.resize(std::min(all, kMostMistakes));
  std::vector<Captioned> figures;
  for (const auto& [score, index] : wrong) {
    const Prediction& prediction = predictions[static_cast<std::size_t>(index)];
    const std::string is = class_name(facts.test, prediction.label),
                      taken = class_name(facts.test, prediction.predicted);
    figures.push_back(
        {.images = image_html(picture_of(facts.test, index, kPictureSide), fmt::format("sample {}", index), true),
         .caption =
             fmt::format("<b>{}</b>, taken for <b>{}</b><br>{} <span class=\"soft\">{:.2f}</span>", html_text(is),
                         html_text(taken), html_text(sample_name(facts.test, index)), prediction.score)});
  }
  return figures.empty() ? ""
                         : fmt::format("<p>{} of {} test samples are wrong; those the model was surest of:</p>\n{}",
                                       all, predictions.size(), strip_html("pictures", figures));
}

/// The first weights that read pixels: filters of 1 or 3 channels, or rows of a matrix over the whole image.
std::string filters(const ReportFacts& facts) {
  const Shape image = facts.model.input_shape();
  for (const Variable& variable : facts.model.parameters().trainable()) {
    const Shape shape = variable.shape();
    if (shape.rank() < 2) continue;
    const bool is_matrix = shape.rank() == 2 && image.rank() == 3 && shape[1] == image.size();
    const Shape filter = is_matrix ? Shape{shape[0], image[0], image[1], image[2]} : shape;
    if (filter.rank() != 4 || (filter[1] != 1 && filter[1] != 3) || filter[2] * filter[3] < 2) return {};
    std::string pictures;
    int output = 0;
    for (const PagePicture& picture : weight_pictures(variable.array().to_vector<float>(), filter, kMostFilters))
      pictures += image_html(picture, fmt::format("output {}", output++), true) + "\n";
    return fmt::format("<p>{} {}: what each output looks for; grey is 0.</p>\n<div class=\"filters\">\n{}</div>\n",
                       html_text(variable.name()), shape, pictures);
  }
  return {};
}

std::string histograms(const std::vector<Histogram>& all) {
  std::string text;
  for (const Histogram& histogram : all) text += histogram_html(histogram);
  return text.empty() ? "" : "<div class=\"charts histograms\">\n" + text + "</div>\n";
}

std::string weights(const ReportFacts& facts) {
  std::vector<Histogram> all;
  for (const Variable& variable : largest(facts.model.parameters().trainable(), kMostHistograms))
    all.push_back(histogram_of(variable.name(), variable.array().to_vector<float>()));
  return histograms(all);
}

std::string layers(const ReportFacts& facts) {
  const std::vector<LayerRow> rows = layer_rows(facts.config.model, facts.model.batch_shape());
  std::vector<std::vector<Cell>> cells;
  const auto number = [](const std::string& text) { return Cell{.html = text, .is_number = true}; };
  for (std::size_t i = 0; i < std::min(rows.size(), kMostLayers); ++i)
    cells.push_back({{html_text(rows[i].name)},
                     {html_text(rows[i].kind)},
                     {rows[i].shape},
                     number(rows[i].parameters),
                     number(rows[i].mflop),
                     number(rows[i].kib),
                     {html_text(rows[i].options), "class=\"soft\""}});
  return table_html(
      "layers", "the layers",
      {{"layer"}, {"kind"}, {"output"}, number("parameters"), number("MFLOP"), number("KiB"), {"options"}}, cells);
}

/// Nothing here turns false when the run is stopped or killed.
std::string state_text(const ReportFacts& facts) {
  const std::string when = fmt::format("{:%F %R}", fmt::localtime(std::time(nullptr)));
  if (facts.is_done) return fmt::format("The run is done (written at {}).", when);
  return fmt::format("Written at {} after step {} of {}; each {} writes this page again.", when, facts.step,
                     facts.total_steps, facts.evaluation.samples > 0 ? "evaluation" : "save");
}

}  // namespace

std::string report_html(const ReportFacts& facts) {
  const RunCurves curves = read_curves(facts.run);
  const std::string body =
      "<p>" + state_text(facts) + "</p>\n" + tiles(facts, curves) + charts(curves) +
      section("Confusion", confusion(facts)) + section("Worst mistakes", mistakes(facts)) +
      section("Worst samples", worst_samples_html(facts.test, facts.evaluation, facts.config.target == "input")) +
      section("First layer", filters(facts)) +
      section("Net", net_graph(facts.config.model, facts.model.batch_shape()), true) +
      section("Layers", layers(facts)) + section("Time by layer", preformatted(facts.layer_times)) +
      section("Weights", weights(facts)) +
      section("Statistics", statistics_html(facts.statistics, facts.config.statistics.shadow)) +
      section("Gradients of one batch", histograms(facts.gradients)) +
      section("Machine, model and data", preformatted(facts.summary)) +
      section("Configuration", preformatted(config_text(facts.config)));
  return html_page(facts.run.path().lexically_normal().string(), body,
                   facts.is_done ? "" : "<meta http-equiv=\"refresh\" content=\"30\">\n");
}

}  // namespace nixie
