// The run is an ordinary one without evaluations, whose products are measured.
#include "nixie/apps/trainer/commands/command_line.h"

#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/report/statistics_table.h"
#include "nixie/apps/trainer/study/narrowest_formats.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

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

TrainConfig studied(TrainConfig config, const StudyCommand& command) {
  config = bare_run(std::move(config), command.steps + 1);
  config.formats = {};
  config.statistics = command.statistics;
  config.ema = 0;
  return config;
}

void print_table(const std::vector<std::string>& formats, const std::vector<TensorStatistics>& rows) {
  std::size_t width = 5;
  for (const TensorStatistics& row : rows) width = std::max(width, row.layer.size());
  std::string head =
      fmt::format("{:{}} {:11} {:>8} {:>8} {:>6}", "layer", width, "operand", "largest", "mean", "zeros");
  for (const std::string& format : formats) head += fmt::format(" {:>8}", format);
  tell("{}\n", head);
  for (const TensorStatistics& row : rows) {
    std::string line = fmt::format("{:{}} {:11} {:>8.2g} {:>8.2g} {:>6.3f}", row.layer, width, row.role, row.largest,
                                   row.mean, static_cast<double>(row.zeros) / static_cast<double>(row.elements));
    for (const FormatError& each : row.formats) line += fmt::format(" {:>8}", error_text(each.error));
    tell("{}{}\n", line, row.infinite + row.nan > 0 ? "  has infinities or NaN" : "");
  }
}

std::string heat_map(const std::vector<std::string>& formats, const std::vector<TensorStatistics>& rows) {
  std::string html = "<table class=\"confusion\">\n<tr><th>layer</th><th>operand</th>";
  for (const std::string& format : formats) html += fmt::format("<th>{}</th>", html_text(format));
  html += "</tr>\n";
  for (const TensorStatistics& row : rows) {
    html += fmt::format("<tr><th>{}</th><th>{}</th>", html_text(row.layer), row.role);
    for (const FormatError& each : row.formats) html += error_cell(each);
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string page(const TrainConfig& chosen, const StudyCommand& command, const std::vector<TensorStatistics>& rows) {
  const std::string body = fmt::format(
      "<p>What each format would have made of the operands of each layer's products: the sum "
      "of squared errors over the sum of squares, mean of {} steps, one scale per {}. A cell's title says how much "
      "saturated and how much was lost to 0.</p>\n<div class=\"wide\">{}</div>\n<h2>Formats with errors up to "
      "{}</h2>\n<pre>formats: {}</pre>\n",
      command.steps, command.statistics.scale == "none" ? "number (none)" : command.statistics.scale,
      heat_map(command.statistics.shadow, rows), error_text(command.threshold), html_text(field_text(chosen.formats)));
  return html_page("Number formats", body);
}

}  // namespace

void run_study(const TrainConfig& config, const StudyCommand& command) {
  check_output(command.out);
  check_output(command.html);
  check(!command.statistics.shadow.empty(), "--formats names no format, expected 1 to ", Statistics::kMostFormats);
  std::vector<Format> formats;
  for (const std::string& name : command.statistics.shadow) formats.push_back(format_named(name));
  const TrainConfig run = studied(config, command);
  std::vector<TensorStatistics> rows;
  {
    Trainer trainer(run, {.callbacks = {std::make_shared<Steps>(command.steps)}});
    within_batch(run, [&] { trainer.train(); });
    rows = trainer.statistics();  // while the backend exists that holds them
  }
  std::erase_if(rows, [](const TensorStatistics& row) { return row.role == "updates"; });
  print_table(command.statistics.shadow, rows);
  TrainConfig chosen = config;
  chosen.formats = narrowest_formats(formats, rows, command.threshold);
  for (FormatRule& rule : chosen.formats) {
    rule.scale = command.statistics.scale;
    rule.block = command.statistics.block;
  }
  tell("formats: {}\n", field_text(chosen.formats));
  if (!command.out.empty()) {
    write_text(command.out, config_text(chosen));
    tell("{0}: the configuration with these formats; trainer --config {0}\n", command.out);
  }
  if (!command.html.empty()) {
    write_text(command.html, page(chosen, command, rows));
    tell("{}: the heat map\n", command.html);
  }
}

}  // namespace nixie
