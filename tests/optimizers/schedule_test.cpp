// The schedules against PyTorch's formulas, on the host and on the device; warm-up; the plateau's decisions.
#include "nixie/optimizers/schedule.h"

#include <numbers>

#include "nixie/core/step.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

struct ScheduleCase {
  AnySchedule schedule;
  RunLength run;
  std::function<double(double step)> torch;
};

std::vector<ScheduleCase> cases() {
  const double pi = std::numbers::pi;
  return {
      {ConstantRate{.rate = 0.3}, {}, [](double) { return 0.3; }},
      {StepRate{.rate = 0.1, .factor = 0.5, .every = 30},
       {},
       [](double t) { return 0.1 * std::pow(0.5, std::floor(t / 30)); }},
      {StepRate{.rate = 0.1, .factor = 0.1, .every = 3},
       {.steps_per_epoch = 7},
       [](double t) { return 0.1 * std::pow(0.1, std::floor(t / 21)); }},
      {MultistepRate{.rate = 1, .factor = 0.1, .milestones = {10, 25, 80}},
       {},
       [](double t) { return std::pow(0.1, (t >= 10) + (t >= 25) + (t >= 80)); }},
      {MultistepRate{.rate = 1, .factor = 0.5, .milestones = {0.5, 2}},
       {.steps_per_epoch = 40},
       [](double t) { return std::pow(0.5, (t >= 20) + (t >= 80)); }},
      {MultistepRate{.rate = 2, .milestones = {10, 25}, .factors = {0.25, 4}},
       {},
       [](double t) { return 2 * (t >= 10 ? 0.25 : 1) * (t >= 25 ? 4 : 1); }},
      {ExponentialRate{.rate = 0.2, .factor = 0.97}, {}, [](double t) { return 0.2 * std::pow(0.97, t); }},
      {PolynomialRate{.rate = 0.1, .power = 2, .epochs = 70},
       {},
       [](double t) { return 0.1 * std::pow(1 - std::min(t, 70.0) / 70, 2); }},
      {PolynomialRate{.rate = 0.1},
       {.steps_per_epoch = 5, .epochs = 10},
       [](double t) { return 0.1 * (1 - std::min(t, 50.0) / 50); }},
      {CosineRate{.rate = 0.1, .low = 0.001, .epochs = 90},
       {},
       [=](double t) { return 0.001 + (0.1 - 0.001) * (1 + std::cos(pi * std::min(t, 90.0) / 90)) / 2; }},
      {CosineRate{.rate = 0.1, .warmup = {.epochs = 2, .start = 0.1}},
       {.steps_per_epoch = 10, .epochs = 9},
       [=](double t) {
         const double warm = 0.1 + 0.9 * std::min(t, 20.0) / 20;  // LinearLR(start_factor=0.1, total_iters=20)
         return warm * 0.1 * (1 + std::cos(pi * std::min(t, 90.0) / 90)) / 2;
       }},
      {ConstantRate{.rate = 0.3, .warmup = {.epochs = 10}},
       {},
       [](double t) { return 0.3 * (0.01 + 0.99 * std::min(t, 10.0) / 10); }},
      // shorter than any step
      {CosineRate{.rate = 0.1, .epochs = 1e-300}, {}, [](double t) { return t > 0 ? 0 : 0.1; }},
      {PolynomialRate{.rate = 0.1, .epochs = 1e-300}, {}, [](double t) { return t > 0 ? 0 : 0.1; }},
      {ConstantRate{.rate = 0.3, .warmup = {.epochs = 1e-300}}, {}, [](double t) { return t > 0 ? 0.3 : 0.003; }},
      {PlateauRate{.rate = 0.4}, {}, [](double) { return 0.4; }},
  };
}

TEST(Schedules, MatchPyTorchsFormulasOnHostAndDevice) {
  for (const ScheduleCase& c : cases()) {
    SCOPED_TRACE(c.schedule.text());
    const Parameters state;
    const Schedule schedule(c.schedule, c.run, state);
    Step step(test_backend(), [&](const Inputs& in) { return Outputs{{"rate", schedule.rate(in["step"])}}; });
    for (std::int32_t t = 0; t <= 100; ++t) {
      const double expected = c.torch(t);
      EXPECT_NEAR(schedule.rate(std::int64_t{t}), expected, 1e-15);
      const Outputs outputs = step({{"step", Array::from(std::vector<std::int32_t>{t}, {})}});
      ASSERT_EQ(outputs.at("rate").shape(), Shape{});
      ASSERT_EQ(outputs.at("rate").dtype(), Dtype::f32);
      EXPECT_NEAR(outputs.at("rate").item(), expected, 3e-7 * c.torch(0) + 2e-8) << t;
    }
  }
}

// In hundredths of an epoch, whose products with the steps of one are rounded: 0.55 * 100 is 55.00000000000001.
TEST(Schedules, ChangeAtTheSameStepOnHostAndDevice) {
  for (const std::int32_t steps : {3, 7, 10, 30, 51, 100})
    for (std::int32_t hundredths = 1; hundredths <= 110; ++hundredths) {
      if (hundredths * steps % 100 != 0) continue;
      const std::int32_t change = hundredths * steps / 100;
      const double epochs = hundredths / 100.0;
      const RunLength run{.steps_per_epoch = static_cast<double>(steps)};
      for (const AnySchedule& options :
           {AnySchedule(StepRate{.rate = 1, .factor = 0.5, .every = epochs}),
            AnySchedule(MultistepRate{.rate = 1, .factor = 0.5, .milestones = {epochs}}),
            AnySchedule(MultistepRate{.rate = 1, .milestones = {epochs}, .factors = {0.5}})})
        for (const std::int32_t step : {change - 1, change}) {
          const Schedule schedule(options, run, Parameters());
          const double expected = step < change ? 1 : 0.5;
          EXPECT_EQ(schedule.rate(std::int64_t{step}), expected) << options.text() << ", " << steps << ", " << step;
          EXPECT_EQ(
              evaluate(schedule.rate(Tensor(Array::from(std::vector<std::int32_t>{step}, {}))), test_backend()).item(),
              expected)
              << options.text() << ", " << steps << ", " << step;
        }
    }
}

TEST(Schedules, EveryScheduleOfTheRegistryHasACase) {
  std::set<std::string> seen;
  for (const ScheduleCase& c : cases()) seen.insert(c.schedule.kind());
  AllSchedules::for_each([&]<class T>() { EXPECT_TRUE(seen.count(T::name)) << T::name; });
}

// torch.optim.lr_scheduler.ReduceLROnPlateau, threshold_mode rel, eps 0.
struct TorchPlateau {
  double lr, factor, threshold, min_lr;
  int patience, cooldown;
  bool max;
  double best = max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  int num_bad_epochs = 0, cooldown_counter = 0;

  void step(double metric) {
    const bool better = max ? metric > best * (threshold + 1) : metric < best * (1 - threshold);
    if (better) {
      best = metric;
      num_bad_epochs = 0;
    } else {
      ++num_bad_epochs;
    }
    if (cooldown_counter > 0) {
      --cooldown_counter;
      num_bad_epochs = 0;
    }
    if (num_bad_epochs > patience) {
      lr = std::max(lr * factor, min_lr);
      cooldown_counter = cooldown;
      num_bad_epochs = 0;
    }
  }
};

TEST(Schedules, PlateauDecidesAsPyTorchDoes) {
  for (const bool maximize : {false, true}) {
    const Parameters state;
    const Schedule schedule(PlateauRate{.rate = 0.5,
                                        .factor = 0.3,
                                        .threshold = 0.01,
                                        .low = 0.001,
                                        .patience = 2,
                                        .cooldown = 1,
                                        .maximize = maximize},
                            {}, state);
    TorchPlateau torch{
        .lr = 0.5, .factor = 0.3, .threshold = 0.01, .min_lr = 0.001, .patience = 2, .cooldown = 1, .max = maximize};
    std::set<double> rates;
    for (int i = 0; i < 60; ++i) {
      const double metric = (maximize ? 1 - 1.0 / (i + 2) : 1.0 / (i + 1)) + 0.2 * std::sin(i);
      schedule.observe(metric);
      torch.step(metric);
      ASSERT_NEAR(schedule.rate(std::int64_t{i}), torch.lr, 1e-12) << i;
      ASSERT_NEAR(evaluate(schedule.rate(Tensor(i)), test_backend()).item(), torch.lr, 1e-7);
      rates.insert(torch.lr);
    }
    EXPECT_GT(rates.size(), 3u);
  }
}

TEST(Schedules, APlateauOnlyLowersTheRate) {
  EXPECT_EQ(error_of([] { Schedule(PlateauRate{.rate = 0.001, .low = 0.1}, {}, Parameters()); }),
            "schedule (plateau): plateau: low is 0.1, above the rate, 0.001, which a plateau only lowers");
}

TEST(Schedules, APlateauGoesOnFromItsState) {
  const AnySchedule options = PlateauRate{.rate = 1, .patience = 1};
  const Parameters first, second;
  const Schedule a(options, {}, first), b(options, {}, second);
  for (double metric : {1.0, 2.0}) a.observe(metric);
  for (const Variable& v : first.all()) second.find(v.name())->set(v.array());
  for (const Schedule* schedule : {&a, &b}) schedule->observe(2.0);
  EXPECT_NEAR(b.rate(std::int64_t{0}), 0.1, 1e-15);
  EXPECT_EQ(a.rate(std::int64_t{0}), b.rate(std::int64_t{0}));
}

std::string schedule_error(const AnySchedule& schedule, const RunLength& run = {}) {
  return error_of([&] { Schedule(schedule, run, Parameters()); });
}

TEST(Schedules, SayWhatDoesNotFit) {
  EXPECT_EQ(schedule_error(CosineRate{}),
            "schedule (cosine): cosine: epochs is 0 and the run's length is not known; set epochs");
  EXPECT_EQ(schedule_error(ConstantRate{.rate = -1}), "schedule (constant): rate is -1, expected a number from 0 up");
  EXPECT_EQ(schedule_error(MultistepRate{.milestones = {3, 4}, .factors = {0.1}}),
            "schedule (multistep): multistep: 1 factors for 2 milestones, expected one for each");
  EXPECT_EQ(schedule_error(MultistepRate{.milestones = {3, -2}}),
            "schedule (multistep): milestones is -2, expected a number from 0 up");
  EXPECT_EQ(schedule_error(ConstantRate{.warmup = {.start = 2}}),
            "schedule (constant): start is 2, expected a number from 0 to 1");
  EXPECT_EQ(schedule_error(ConstantRate{}, {.steps_per_epoch = 0}), "schedule (constant): an epoch has 0 steps");
}

TEST(Schedules, PrintAsAConfigurationWouldSay) {
  EXPECT_EQ(
      AnySchedule(MultistepRate{.milestones = {30, 60}}).text(),
      "multistep: {rate: 0.01, factor: 0.1, milestones: [30, 60], factors: [], warmup: {epochs: 0, start: 0.01}}");
}

}  // namespace
}  // namespace nixie
