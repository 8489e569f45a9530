// trainer profile: what it counts against formulas, and that measuring changes nothing.
#include "nixie/apps/trainer/profile/profile.h"

#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

const std::string kNet = R"(
model:
  - conv2d: {out: 4, kernel: 3, pad: 1}
  - relu
  - sum: {branches: [identity, {conv2d: {out: 4, kernel: 3, pad: 1}}]}
  - conv2d: {out: 4, kernel: 3, pad: 1}
  - flatten
  - {linear: {out: 5}, name: head}
data: {generated: {channels: 2, height: 6, width: 7, classes: 5, train: 64, test: 8, batch: 8}}
optimizer: {sgd: {momentum: 0.9}}
schedule: {constant: {rate: 0.01}}
epochs: 1
seed: 3
backend: cpu
threads: 1
)";

TEST(LayerTimes, CountWhatFormulasSay) {
  const auto backend = make_cpu_backend(1);
  const TrainConfig config = config_in(kNet);
  const std::vector<LayerTimes> layers = time_layers(*backend, config, {8, 2, 6, 7});
  struct Expected {
    const char *name, *kind;
    double forward, backward, update_bytes;  // products by hand; the update reads w, v, g and writes w, v
  };
  const double conv = 2.0 * 8 * 4 * 42 * 4 * 9;
  const Expected expected[] = {
      {"0", "conv2d", conv / 2, conv / 2, 4.0 * 5 * (4 * 2 * 9 + 4)},  // the images need no gradient
      {"1", "relu", 0, 0, 0},
      {"2.0", "identity", 0, 0, 0},
      {"2.1", "conv2d", conv, 2 * conv, 4.0 * 5 * (4 * 4 * 9 + 4)},
      {"2", "sum", 0, 0, 0},
      {"3", "conv2d", conv, 2 * conv, 4.0 * 5 * (4 * 4 * 9 + 4)},
      {"4", "flatten", 0, 0, 0},
      {"head", "linear", 2.0 * 8 * 168 * 5, 4.0 * 8 * 168 * 5, 4.0 * 5 * (168 * 5 + 5)},
      {"loss", "cross_entropy", 0, 0, 0},
  };
  ASSERT_EQ(layers.size(), std::size(expected));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerTimes& layer = layers[i];
    EXPECT_EQ(layer.name, expected[i].name);
    EXPECT_EQ(layer.kind, expected[i].kind) << layer.name;
    EXPECT_EQ(layer.forward.work.flop, expected[i].forward) << layer.name;
    EXPECT_EQ(layer.backward.work.flop, expected[i].backward) << layer.name;
    EXPECT_NEAR(layer.update.work.bytes, expected[i].update_bytes, 64) << layer.name;  // and a counter
    const bool works = layer.kind != "identity" && layer.kind != "sum" && layer.kind != "flatten";
    EXPECT_EQ(layer.forward.ms > 0, works) << layer.name;
  }
  // conv 3 is conv 2.1 again: measured once.
  EXPECT_EQ(layers[3].forward.ms, layers[5].forward.ms);
  // Bytes of relu: 8 x 4 x 6 x 7 floats in and out; back also the slope, and out again.
  EXPECT_EQ(layers[1].forward.work.bytes, 2 * 4.0 * 8 * 4 * 42);
  EXPECT_EQ(layers[1].backward.work.bytes, 3 * 4.0 * 8 * 4 * 42);
}

// As a backend that compiles kernels: counts what is compiled before anything runs, and what is stored by then.
class Compiling final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::string name() const override { return "compiling"; }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override {
    ++stored;
    return inner()->allocate(size_bytes);
  }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    if (stored == 0) ++compiled_ahead;
    if (fails && plan.kernels.size() > 1) fail(Fault::device, "no such kernel");
    return inner()->compile(plan);
  }
  std::atomic<int> compiled_ahead = 0, stored = 0;
  bool fails = false;
};

TEST(LayerTimes, CompilesAllLayersBeforeAnythingIsStored) {
  Compiling backend(make_cpu_backend(1));
  const TrainConfig config = config_in(kNet);
  const std::vector<LayerTimes> layers = time_layers(backend, config, {8, 2, 6, 7});
  // Two steps of each distinct one (conv 0, relu, conv 2.1, head, loss), and the updates of three.
  EXPECT_EQ(backend.compiled_ahead, 2 * 5 + 3);
  ASSERT_EQ(layers.size(), 9u);
  EXPECT_GT(layers[0].update.ms, 0);

  Compiling failing(make_cpu_backend(1));  // where the layer is timed
  failing.fails = true;
  EXPECT_FAULT(device, "no such kernel", static_cast<void>(time_layers(failing, config, {8, 2, 6, 7})));
  EXPECT_GT(failing.compiled_ahead, 5);
}

TEST(NoiseOperand, RepeatsAFewThousandNumbersInEveryType) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const std::vector<float> values = noise_operand("x", dtype, {3, 4099}).array().to_vector<float>(),
                             few = noise_operand("x", dtype, {5, 7}).array().to_vector<float>();
    EXPECT_TRUE(std::equal(few.begin(), few.end(), values.begin()));
    EXPECT_TRUE(std::equal(values.begin() + 4099, values.end(), values.begin()));
    EXPECT_GT(std::set<float>(values.begin(), values.begin() + 100).size(), 50u);
  }
}

TEST(LayerTimes, RooflineIsTheLongerOfTheTwo) {
  const MachineRates rates{.flop_per_second = 1e9, .bytes_per_second = 1e8};
  EXPECT_DOUBLE_EQ(rates.least_ms({.flop = 3e6, .bytes = 1e5}), 3);
  EXPECT_DOUBLE_EQ(rates.least_ms({.flop = 3e6, .bytes = 1e6}), 10);
  const LayerTimes layer{.forward = {4, {.flop = 1e6}}, .backward = {8, {.flop = 2e6}}};
  EXPECT_DOUBLE_EQ(layer.roofline(rates), 0.25);
}

TEST(RecordingBackend, ComputesTheSame) {
  const TrainConfig config = small_config();
  const auto recording = std::make_shared<RecordingBackend>(make_cpu_backend(1));
  Trainer plain(config, {.backend = make_cpu_backend(1)}), recorded(config, {.backend = recording});
  for (Trainer* trainer : {&plain, &recorded}) trainer->train([&] { return trainer->step() >= 3; });
  recording->record(true);
  for (Trainer* trainer : {&plain, &recorded}) trainer->train([&] { return trainer->step() >= 6; });
  recording->record(false);
  const auto &expected = plain.model().parameters().all(), &found = recorded.model().parameters().all();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(found[i].array().to_vector<float>(), expected[i].array().to_vector<float>()) << expected[i].name();
  ASSERT_EQ(recording->records().size(), 1u);  // the training step's plan
  const PlanRecord& groups = recording->records().front();
  EXPECT_EQ(groups.size(), recorded.plan().groups.size());
  for (const GroupRecord& group : groups) EXPECT_EQ(group.ms.size(), 3u) << group.piece.name;
}

TEST(ProfileCommand, PrintsTablesAndWritesATrace) {
  const Workplace folder;
  folder.write("net.yaml", kNet);
  expect_ran(folder.trainer("profile --config net.yaml --steps 4 --trace trace.json"), 0,
             "a step of 8 samples: ", "% of the time waiting for data (mean of 4 steps)", "of roofline", "\n2.1 ",
             "\nhead ", "kernels of one step as they run in it", "memory: parameters ");
  const auto events = nlohmann::json::parse(folder.text("trace.json")).at("traceEvents");
  std::map<int, double> end;  // of each row: its events follow one another
  int kernels = 0;
  for (const auto& event : events) {
    if (event.at("ph") != "X") continue;
    const int row = event.at("tid");
    EXPECT_GE(event.at("ts").get<double>(), end[row] - 1e-6);
    EXPECT_GT(event.at("dur").get<double>(), 0);
    end[row] = event.at("ts").get<double>() + event.at("dur").get<double>();
    kernels += row == 1;
  }
  EXPECT_GT(kernels, 5);
  EXPECT_GT(events.size(), 15u);

  expect_runs([&](const std::string& arguments) { return folder.trainer("profile " + arguments); },
              {{"--config net.yaml --steps 0", 2, "--steps"},
               {"", 2, "--config"},
               {"--config net.yaml --steps 1 --trace /nowhere/t.json", 8, "/nowhere"}});
}

}  // namespace
}  // namespace nixie
