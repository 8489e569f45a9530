// Runs on datasets of one's own: what they change later, halves that do not go together, values that are not finite.
#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/own_samples.h"

namespace nixie {
namespace {

struct OwnData {
  std::int64_t batch = 8;
  static constexpr const char* name = "own_data";
  static constexpr auto fields() { return field_list(field("batch", &OwnData::batch, "samples per step")); }
  std::function<Splits()> halves = {};
  Splits open() const { return halves(); }
};

Splits halves(SampleFacts train, SampleFacts test) {
  return {own_samples(std::move(train)), own_samples(std::move(test))};
}

TrainConfig config_of(const std::function<Splits()>& open) {
  TrainConfig config = parse_config(
      "{model: [flatten, {linear: {out: 3}}], data: glyphs, epochs: 3, log_every: 1, backend: cpu, threads: 1}", "own");
  config.data = OwnData{.halves = open};
  return config;
}

TEST(OwnData, MayChangeItsSizeLater) {
  for (const std::int64_t later : {0, -5, 3, 400}) {
    const TempFolder folder;
    const SampleFacts changes{.size = [later](int call) { return call == 1 ? 40 : later; }};
    Trainer trainer(config_of([&] { return halves(changes, changes); }), {.run = folder.path()});
    EXPECT_TRUE(trainer.train()) << later;
    EXPECT_EQ(trainer.evaluate().samples, 40) << later;
  }
}

TEST(OwnData, HalvesThatDoNotGoTogetherAreRefused) {
  const struct {
    Splits halves;
    std::string error;
    Fault fault = Fault::data;
  } kCases[] = {
      {{}, "there is no training half (null)"},
      {{own_samples({}), nullptr}, "there is no test half (null)"},
      {halves({}, {.sample = {1, 5, 5}}), "the shapes of samples differ: [1, 4, 5] in the training half"},
      {halves({}, {.names = {"b", "a", "c"}}), "the names of class 0 differ: \"a\" in the training half"},
      {halves({}, {.names = {"a", "b", "c", "d"}}), "the numbers of classes differ: 3 in the training"},
      {halves({}, {.size = [](int) { return 0; }}), "the dataset is empty: it has 0 samples"},
      {halves({.sample = {0, 4, 5}}, {.sample = {0, 4, 5}}), "the dataset's samples are [0, 4, 5], ", Fault::usage},
  };
  for (const auto& c : kCases) {
    const TrainConfig config = config_of([&] { return c.halves; });
    EXPECT_THAT(error_of(c.fault, [&] { Trainer trainer(config); }), HasSubstr(c.error));
  }
}

// No smaller rate helps against a number that the data hold.
TEST(OwnData, ValuesThatAreNotFiniteAreNamedByTheirSample) {
  const SampleFacts bad{.pixel = NAN};
  const struct {
    SampleFacts train, test;
    std::string first;
  } kCases[] = {
      {bad,
       {},
       "; the first to be so is the images of the training half: sample 11 has nan at [0, 0, 2] (the last good"},
      {{}, bad, "; the first to be so is the images of the test half: sample 11 has nan at [0, 0, 2] (the last"},
      {{.pixel = INFINITY}, {}, ": sample 11 has inf at [0, 0, 2] (the last good"},
  };
  for (const auto& c : kCases) {
    const TempFolder folder;
    Trainer trainer(config_of([&] { return halves(c.train, c.test); }), {.run = folder.path()});
    EXPECT_FAULT(non_finite, HasParts(c.first, EndsWith("); mend the dataset, or take that sample out")),
                 trainer.train());
  }
}

}  // namespace
}  // namespace nixie
