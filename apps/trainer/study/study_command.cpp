// The run is an ordinary one without evaluations, whose products are measured.
#include "nixie/apps/trainer/study/study_command.h"

#include <cmath>

#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

constexpr std::size_t kMostFormats = 8;

/// Ends the run before an evaluation, whose operands would be measured, too.
class Steps final : public Callback {
 public:
  explicit Steps(std::int64_t steps) : steps_(steps) {}
  void step_ends(Trainer& trainer, std::int64_t step) override {
    if (step >= steps_) trainer.stop();
  }

 private:
  std::int64_t steps_;
};

TrainConfig studied(TrainConfig config, std::int64_t steps) {
  config.formats = {};
  config.steps = steps + 1;
  config.epochs = 0;
  config.evaluate_every = 1'000'000'000;
  config.save_every = 0;
  config.patience = 0;
  config.ema = 0;
  return config;
}

std::string error_text(double error) { return error == 0 ? "0" : fmt::format("{:.1e}", error); }

void print_table(const FormatStudy& study, const std::vector<OperandErrors>& rows) {
  std::size_t width = 5;
  for (const OperandErrors& row : rows) width = std::max(width, row.layer.size());
  std::string head =
      fmt::format("{:{}} {:11} {:>8} {:>8} {:>6}", "layer", width, "operand", "largest", "mean", "zeros");
  for (const Format& format : study.formats()) head += fmt::format(" {:>8}", format.name);
  tell("{}\n", head);
  for (const OperandErrors& row : rows) {
    std::string line = fmt::format("{:{}} {:11} {:>8.2g} {:>8.2g} {:>6.3f}", row.layer, width, to_string(row.role),
                                   row.largest, row.magnitude, row.zeros);
    for (const FormatError& each : row.formats) line += fmt::format(" {:>8}", error_text(each.error));
    tell("{}{}\n", line, row.not_finite > 0 ? "  has infinities or NaN" : "");
  }
}

/// A cell's share of red: from 1e-8, the error of halves, to 1, where nothing is left.
double share_of(double error) { return std::clamp(1 + std::log10(std::max(error, 1e-8)) / 8, 0.0, 1.0); }

std::string heat_map(const FormatStudy& study, const std::vector<OperandErrors>& rows) {
  std::string html = "<table class=\"confusion\">\n<tr><th>layer</th><th>operand</th>";
  for (const Format& format : study.formats()) html += fmt::format("<th>{}</th>", html_text(format.name));
  html += "</tr>\n";
  for (const OperandErrors& row : rows) {
    html += fmt::format("<tr><th>{}</th><th>{}</th>", html_text(row.layer), to_string(row.role));
    for (const FormatError& each : row.formats)
      html += fmt::format(
          "<td class=\"wrong\" style=\"--share:{:.2f}\" title=\"{:.2g} of the elements saturated, "
          "{:.2g} lost to 0\">{}</td>",
          0.8 * share_of(each.error), each.saturated, each.lost, error_text(each.error));
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string page(const TrainConfig& chosen, const StudyCommand& command, const FormatStudy& study,
                 const std::vector<OperandErrors>& rows) {
  const std::string body = fmt::format(
      "<p>What each format would have made of the operands of each layer's products: the sum "
      "of squared errors over the sum of squares, mean of {} steps, one scale per {}. A cell's title says how much "
      "saturated and how much was lost to 0.</p>\n<div class=\"wide\">{}</div>\n<h2>Formats with errors up to "
      "{}</h2>\n<pre>formats: {}</pre>\n",
      command.steps, command.scaling.scale == "none" ? "number (none)" : command.scaling.scale, heat_map(study, rows),
      error_text(command.threshold), html_text(field_text(chosen.formats)));
  return html_page("Number formats", body);
}

}  // namespace

void run_study(const TrainConfig& config, const StudyCommand& command) {
  check_output(command.out);
  check_output(command.html);
  check(!command.formats.empty() && command.formats.size() <= kMostFormats, "--formats names ", command.formats.size(),
        " formats, expected 1 to ", kMostFormats);
  std::vector<Format> formats;
  for (const std::string& name : command.formats) formats.push_back(format_named(name));
  check_fields(command.scaling);
  FormatStudy study(formats, command.scaling);
  std::vector<OperandErrors> rows;
  {
    const OperandScope scope(study.rule());
    const TrainConfig run = studied(config, command.steps);
    Trainer trainer(run, {.callbacks = {std::make_shared<Steps>(command.steps)}});
    within_batch(run, [&] { trainer.train(); });
    rows = study.results();  // while the backend exists that holds them
  }
  print_table(study, rows);
  TrainConfig chosen = config;
  chosen.formats = narrowest_formats(study, rows, command.threshold);
  for (FormatRule& rule : chosen.formats) {
    rule.scale = command.scaling.scale;
    rule.block = command.scaling.block;
  }
  tell("formats: {}\n", field_text(chosen.formats));
  if (!command.out.empty()) {
    write_text(command.out, config_text(chosen));
    tell("{0}: the configuration with these formats; trainer --config {0}\n", command.out);
  }
  if (!command.html.empty()) {
    write_text(command.html, page(chosen, command, study, rows));
    tell("{}: the heat map\n", command.html);
  }
}

}  // namespace nixie
