// Commands for a configuration: its summary, a dry run, a profile and a sweep over learning rates. The state of a
// measurement goes to a terminal alone.
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/profile/profile.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

std::string summary_text(const TrainConfig& config) {
  Trainer trainer(config, {.reads_init_from = false});
  std::string memory;
  within_batch(config, [&] { memory = trainer.memory_text(); });
  const std::string warnings = trainer.large_arrays_text();
  return fmt::format("{}\n{}\n{}\n{}", layer_table(config.model, trainer.model().batch_shape()), trainer.summary(),
                     memory, warnings.empty() ? "" : warnings + "\n");
}

constexpr std::size_t kMostRows = 20;

void print_table(const RateCurve& curve) {
  tell("{:>9} {:>10} {:>10}\n", "rate", "loss", "smooth");
  const std::size_t stride = (curve.steps.size() + kMostRows - 1) / kMostRows;
  for (std::size_t i = 0; i < curve.steps.size(); ++i)
    if (i % stride == 0 || i + 1 == curve.steps.size())
      tell("{:>9.2g} {:>10.4g} {:>10.4g}\n", curve.steps[i].rate, curve.steps[i].loss, curve.steps[i].smooth);
}

std::string page(const TrainConfig& config, const RateCurve& curve, const std::string& advice) {
  Chart chart{.title = "Loss over the learning rate",
              .x_label = "learning rate",
              .series = {{"smooth", {}}, {"of a step", {}}},
              .scale = Chart::Scale::wide,
              .has_log_x = true};
  for (const RateLoss& step : curve.steps) {
    chart.series[0].points.emplace_back(step.rate, step.smooth);
    chart.series[1].points.emplace_back(step.rate, step.loss);
  }
  return html_page("Learning rates",
                   fmt::format("<p>{}</p>\n<div class=\"charts\">\n{}</div>\n", html_text(advice), chart_html(chart)) +
                       section("Configuration", preformatted(config_text(config))));
}

}  // namespace

void run_summary(const TrainConfig& config) {
  std::string text;
  with_batch_advice(
      config, [&] { text = summary_text(config); }, try_training);
  tell("{}", text);
}

void run_dry(const TrainConfig& config) {
  run_summary(config);
  const std::string limit =
      fmt::format("data.{}.limit={}", config.data.kind(), config.data.batch() * config.accumulate);
  bool evaluates = true;
  const auto train = [&] {
    Trainer trainer(with_assignments(config, "--dry-run", {limit, "steps=1"}), {.out = stdout});
    evaluates = trainer.evaluates();
    trainer.take_memory();
    within_batch(config, [&] { trainer.train(); });
  };
  with_batch_advice(config, train, try_training);
  tell("dry run: one step {} done, nothing was written\n", evaluates ? "and one evaluation are" : "is");
}

void run_profile(const TrainConfig& config, const ProfileCommand& command) {
  Profile profile;
  {
    const MovingLine line;
    with_batch_advice(
        config, [&] { profile = take_profile(config, command.steps, std::cref(line)); },
        [](const TrainConfig& smaller, const std::filesystem::path&) { take_profile(smaller, 1); });
  }
  tell("{}", profile_text(profile));
  if (command.trace.empty()) return;
  write_trace(profile, command.trace);
  tell("\n{}: the same as a trace; open it in chrome://tracing or ui.perfetto.dev\n", command.trace);
}

void run_find_rate(const TrainConfig& config, const FindRateCommand& command) {
  check_output(command.html);
  RateCurve curve;
  {
    const MovingLine line;
    const auto sweep = [&] {
      curve = sweep_rates(config, command.range, [&](const RateCurve& so_far) {
        const RateLoss last = so_far.steps.empty() ? RateLoss{} : so_far.steps.back();
        line(fmt::format("step {}/{} rate {:.2g} loss {:.4g}", so_far.steps.size(), command.range.steps, last.rate,
                         last.loss));
      });
    };
    with_batch_advice(config, sweep, [&](const TrainConfig& smaller, const std::filesystem::path&) {
      sweep_rates(smaller, {.low = command.range.low, .high = command.range.high, .steps = 2});
    });
  }
  print_table(curve);
  const std::string advice = rate_advice(curve, command.range);
  tell("{}\n", advice);
  if (const auto rate = suggested_rate(curve)) tell("--set schedule.{}.rate={:.2g}\n", config.schedule.kind(), *rate);
  if (command.html.empty()) return;
  write_text(command.html, page(config, curve, advice));
  tell("{}: the chart\n", command.html);
}

}  // namespace nixie
