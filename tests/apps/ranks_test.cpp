// Runs of several ranks that are threads of one process, against the same run by one.
#include "nixie/tests/ranks.h"

#include "nixie/apps/trainer/ranks/shards.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/families/collective.h"
#endif
#include "nixie/core/state/graph_walk.h"
#include "nixie/core/step.h"
#include "nixie/tests/apps/bearable_at_half.h"
#include "nixie/tests/apps/colour_run.h"
#include "nixie/tests/apps/ranks_run.h"
#include "nixie/tests/cuda_plans_backend.h"

namespace nixie {
namespace {

/// Trains on ranks that are threads: the first one's files are in the folder. Without a size: without ranks. Goes on
/// with what is in the folder, and stops after a step if one is given.
Evaluation train_in_threads(const fs::path& run, const TrainConfig& config, int size, std::int64_t last = 0) {
  Evaluation result;
  const auto train = [&](const World& world, Backend& backend) {
    Trainer trainer(config, {.run = world.is_first() ? run : "",
                             .backend = std::shared_ptr<Backend>(std::shared_ptr<void>(), &backend),
                             .world = world});
    if (world.is_first() && fs::exists(run / "last.h5")) trainer.resume();
    EXPECT_EQ(trainer.train([&] { return world.is_first() && trainer.step() == last; }), last == 0);
    const Evaluation own = trainer.evaluate();
    if (world.is_first()) result = own;
  };
  fs::create_directories(run);
  size == 0 ? train({}, *make_cpu_backend(1)) : on_ranks(size, train);
  return result;
}

// Shuffling, dropout, clipping, averages, losses and evaluations are those of the whole batch; sums round otherwise.
TEST(RanksInOneProcess, TrainAsOneDoes) {
  const TempFolder folder;
  const struct {
    const char* what;
    std::vector<std::string> changes;
    double allowed = 2e-5;
    int least = 1;  // ranks: those that it is compared with
  } rows[] = {
      {"plain", {}},
      {"parts", {"accumulate=2"}},
      {"mixing", {"mixing.mixup=0.4"}},
      {"weights", {"loss={cross_entropy: {class_weights: [1, 2, 0, 1, 1, 3, 1, 1, 1, 1]}}", "accumulate=2"}},
      {"halves", {"precision=fp16", "loss_scale=128", "steps=10"}, 2e-3},
      // One process has filter gradients of f32, whose scale falls later than that of halves on the wire.
      {"dynamic", {"precision=fp16", "loss_scale=0", "non_finite=skip", "steps=10"}, 2e-3, 2},
  };
  for (const auto& row : rows) {
    const TrainConfig config = parse_config(kNet, "net.yaml", row.changes);
    const std::string what = row.what;
    const Evaluation one = train_in_threads(folder / what, config, row.least > 1 ? row.least : 0);
    for (int size = row.least + 1; size <= 3; ++size) {
      const std::string name = what + std::to_string(size);
      const Evaluation several = train_in_threads(folder / name, config, size);
      EXPECT_LT(difference_of(folder / what, folder / name), row.allowed) << name;
      EXPECT_NEAR(several.loss, one.loss, 10 * row.allowed) << name;
      EXPECT_EQ(several.samples, 50);
      ASSERT_EQ(several.predictions.size(), one.predictions.size());
      for (std::size_t i = 0; i < one.predictions.size(); ++i)
        EXPECT_EQ(several.predictions[i].label, one.predictions[i].label) << i;
    }
  }
}

// Weights travel as halves where products are of halves; few numbers, and what f32 runs and one process sum, do not.
TEST(GradientSum, TravelsAsHalvesUnderHalves) {
  const World two = alone_of(2);
  const struct {
    PrecisionPolicy precision;
    Shape shape;
    Dtype dtype;
  } rows[] = {{PrecisionPolicy::fp16, {4, 3}, Dtype::f16},
              {PrecisionPolicy::bf16, {4, 3, 2, 2}, Dtype::bf16},
              {PrecisionPolicy::fp16, {4}, Dtype::f32},
              {PrecisionPolicy::tf32, {4, 3}, Dtype::f32},
              {PrecisionPolicy::fp32, {4, 3}, Dtype::f32}};
  for (const auto& row : rows) {
    const Tensor sum = gradient_sum(two, placeholder(row.shape), row.precision);
    EXPECT_EQ(sum.dtype(), Dtype::f32);
    Tensor exchange = sum;
    while (!std::holds_alternative<Collective>(exchange.node().op)) exchange = exchange.inputs()[0];
    EXPECT_EQ(exchange.dtype(), row.dtype) << to_string(row.precision) << row.shape;
  }
  const Tensor x = placeholder({4, 3});
  EXPECT_EQ(gradient_sum({}, x, PrecisionPolicy::fp16).id(), x.id());
}

TrainConfig ordered(const std::vector<std::string>& changes) {
  std::vector<std::string> assignments = {"reduction=ordered", "data.glyphs.batch=16"};
  assignments.insert(assignments.end(), changes.begin(), changes.end());
  return parse_config(kRun, "run.yaml", assignments);
}

/// A configuration under `ordered`: batches of 24, the last of them smaller in an evaluation.
TrainConfig ordered_net(const std::string& model, const std::string& data = "generated: {height: 16, width: 16") {
  return parse_config(fmt::format(R"(
model: [{}, flatten, {{linear: {{out: 10}}}}]
data: {{{}, train: 72, test: 20, batch: 24}}}}
optimizer: {{sgd: {{momentum: 0.9}}}}
schedule: {{constant: {{rate: 0.02}}}}
reduction: ordered
epochs: 1
seed: 6
backend: cpu
)",
                                  model, data),
                      "net.yaml", {});
}

TEST(RanksInOneProcess, OrderedRunsAreEqualBitByBit) {
  const TempFolder folder;
  for (unsigned i = 0; i < 60; ++i)
    write_file(folder / fmt::format("colours/{}/{}.png", i % 3, i), coloured(static_cast<int>(i % 3), i));
  const TrainConfig augmented = parse_config(fmt::format(R"(
model: [{{conv2d: {{out: 4, kernel: 3}}}}, batch_norm, relu, global_avg_pool, flatten, {{linear: {{out: 3}}}}]
data: {{image_folder: {{path: "{}", crop: 8, resize: 10, pad: 1, flip: true, batch: 16,
        augment: {{rotation: 20, brightness: 0.3, hue: 0.1, erase: 0.5}}}}}}
reduction: ordered
epochs: 2
backend: cpu
)",
                                                         (folder / "colours").string()),
                                             "augmented.yaml", {});
  const std::string wide =
      "flatten, {linear: {out: 300}}, relu, {dropout: {rate: 0.3}}, {linear: {out: 200}, name: again}, relu";
  const struct {
    const char* what;
    TrainConfig config;
    std::vector<int> ranks = {2, 8};
  } rows[] = {
      // Dropout, batch norm, Adam, a plateau, clipping, an uneven evaluation.
      {"state", ordered({}), {2, 4, 8}},
      // Shards of 8,192 values a channel, which kernels of two shards would cut otherwise than those of one.
      {"large shards",
       parse_config(R"(
model: [{conv2d: {out: 32, kernel: 3, pad: 1, bias: false}}, batch_norm, max_pool2d, flatten, {linear: {out: 10}}]
data: {generated: {height: 32, width: 32, train: 64, test: 16, batch: 64}}
reduction: ordered
steps: 1
seed: 6
backend: cpu
)",
                    "images.yaml", {}),
       {2, 4}},
      // Ordered ranks exchange f32, also where a net computes in halves.
      {"fp16", ordered({"precision=fp16", "epochs=1"}), {4}},
      {"bf16", ordered({"precision=bf16", "epochs=1"}), {4}},
      {"augmentation", augmented},
      {"strides", ordered_net("{conv2d: {out: 8, kernel: 5, stride: 2, pad: 2}}, batch_norm, relu, "
                              "{conv2d: {out: 12, kernel: 3, stride: 2, pad: 1, bias: false}}, relu")},
      {"groups", ordered_net("{conv2d: {out: 8, kernel: 3, pad: 1}}, relu, {dropout2d: {rate: 0.2}}, "
                             "{conv2d: {out: 8, kernel: 3, pad: 1, groups: 8}}, batch_norm, relu, "
                             "{conv2d: {out: 16, kernel: 3, groups: 2}}, {max_pool2d: {window: 2}}")},
      // Neighbouring samples share Winograd's tiles.
      {"tiles",
       ordered_net("{conv2d: {out: 32, kernel: 3, pad: 1}}, relu, {conv2d: {out: 32, kernel: 3, pad: 1}}, "
                   "{avg_pool2d: {window: 4}}"),
       {2, 4}},
      // The gradients of wide layers are products of all samples, but for weights that two layers share.
      {"wide", ordered_net(wide), {2, 4, 8}},
      {"wide in halves", ordered_net(wide, "glyphs: {normalize: true")},
      {"shared", ordered_net(wide + ", {linear: {out: 300}}, {shared: {layer: again}}, relu")},
  };
  for (const auto& row : rows) {
    TrainConfig config = row.config;
    if (std::string(row.what).ends_with("halves")) config.precision = "fp16";
    train_in_threads(folder / row.what / "0", config, 0);
    for (const int size : row.ranks) {
      const auto run = folder / row.what / std::to_string(size);
      train_in_threads(run, config, size);
      expect_same_files(folder / row.what / "0", run, fmt::format("{} on {}", row.what, size));
    }
  }
  EXPECT_FAULT(usage, "reduction: ordered cuts a batch into 8 shards, which 3 ranks cannot share equally",
               train_in_threads(folder / "odd", ordered({"data.glyphs.batch=24"}), 3));
  EXPECT_FAULT(usage, "but batch is 20; take a multiple of 8", Trainer trainer(ordered({"data.glyphs.batch=20"})));
}

// Few numbers travel: the samples of the wide layer, not its gradient, and the others' gradients.
TEST(RanksInOneProcess, OrderedWideLayersExchangeTheirSamples) {
  const TrainConfig config = ordered_net("flatten, {linear: {out: 300}}, relu");
  for (const int ranks : {1, 2, 8}) {
    const World world = ranks == 1 ? World() : alone_of(ranks);
    Trainer trainer(config, {.backend = make_cpu_backend(1), .world = world});
    std::int64_t gathered = 0, most = 0;
    for (const Tensor& x : topological(trainer.graph()))
      if (const auto* op = std::get_if<Collective>(&x.node().op)) {
        if (op->kind == CollectiveKind::all_gather) gathered += x.shape().size();
        most = std::max(most, x.shape().size());
      }
    EXPECT_EQ(gathered, 24 * (3 * 16 * 16 + 300)) << ranks;
    EXPECT_LE(most, 24 * 3 * 16 * 16) << ranks;
  }
}

#ifdef NIXIE_WITH_CUDA
// What computes a shard on a GPU does not depend on how many a rank has: the same programs, tiles and products of
// cuBLASLt on 1 to 8 ranks, but for the sums of a rank's shards.
TEST(RanksInOneProcess, OrderedShardsHaveProgramsOfTheirOwn) {
  for (const auto& [net, precision] : {std::pair("convolution", "fp32"),
                                       {"convolution", "tf32"},
                                       {"convolution", "fp16"},
                                       {"wide", "fp32"},
                                       {"wide", "fp16"}}) {
    const TrainConfig config =
        ordered({std::string(net) == "wide"
                     ? "model=[flatten, {linear: {out: 512}}, relu, {linear: {out: 10}}]"
                     : "model=[{conv2d: {out: 16, kernel: 3, pad: 1}}, batch_norm, relu, max_pool2d, flatten, "
                       "{dropout: {rate: 0.3}}, {linear: {out: 10}}]",
                 "data.glyphs.batch=128"});
    const auto programs_on = [&](const World& world) {
      const auto backend = std::make_shared<CudaPlansBackend>();
      TrainConfig of_precision = config;
      of_precision.precision = precision;
      Trainer trainer(of_precision, {.backend = backend, .world = world});
      const Plan plan = plan_of(trainer.graph(), *backend, Fusion::full);
      std::map<std::string, std::string> programs;
      for (const Group& group : plan.groups) {
        const std::string label = label_of(plan, group);
        if (const auto* product = cuda::blas_problem(group))
          programs.emplace(
              fmt::format("{} x {} x {} x {}", product->batches, product->rows, product->columns, product->inner),
              label);
        else if (cuda::collective_calls(plan, group).empty() && label != "add" && !label.starts_with("add x "))
          programs.emplace(cuda::generate(plan, group, backend->chip()).source, label);
      }
      return programs;
    };
    const auto one = programs_on({});
    EXPECT_GT(one.size(), 10u);
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} {} on {}", net, precision, ranks));
      const auto several = programs_on(alone_of(ranks));
      for (const auto& [source, label] : several) EXPECT_TRUE(one.contains(source)) << label;
    }
  }
}
#endif

// A run of four ranks goes on with two, from the first one's folder alone.
TEST(RanksInOneProcess, ResumeOnAnotherNumber) {
  const TempFolder folder;
  train_in_threads(folder / "whole", ordered({}), 0);
  train_in_threads(folder / "moved", ordered({}), 4, 9);
  train_in_threads(folder / "moved", ordered({}), 2);
  EXPECT_EQ(difference_of(folder / "whole", folder / "moved"), 0);
}

// All ranks find the same loss, or the same state at a save, and go back together.
TEST(RanksInOneProcess, GoBackTogether) {
  const TempFolder folder;
  for (const char* more : {"save_every=100", "save_every=3"}) {
    const TrainConfig config =
        with_assignments(bearable_at_half("reduction: ordered\n"), "a test", {"data.glyphs.batch=24", more});
    const auto one = folder / more / "1", two = folder / more / "2";
    train_in_threads(one, config, 0);
    train_in_threads(two, config, 2);
    expect_same_files(one, two, more);
    EXPECT_GT(std::get<std::int64_t>(last_of(two).state.at("roll_backs")), 0);
  }
}

// A state that is not finite is found at the save that it is due at, by each rank.
TEST(RanksInOneProcess, SaveNoStateThatIsNotFinite) {
  const TempFolder folder;
  const TrainConfig config = ordered({"non_finite=roll_back", "save_every=3"});
  on_ranks(2, [&](const World& world, Backend& backend) {
    Trainer trainer(config, {.run = world.is_first() ? folder.path() : "",
                             .backend = std::shared_ptr<Backend>(std::shared_ptr<void>(), &backend),
                             .world = world});
    int spoilt = 0;
    EXPECT_TRUE(trainer.train([&] {
      if (trainer.step() == 5 && spoilt++ == 0)
        for (const Variable& value : trainer.optimizer().state().all())
          if (value.name() == "1.bias.exp_avg_sq")
            value.set(Array::from(std::vector<double>(16, std::numeric_limits<double>::infinity()), {16}));
      return false;
    }));
  });
  EXPECT_EQ(std::get<std::int64_t>(last_of(folder.path()).state.at("roll_backs")), 1);
}

}  // namespace
}  // namespace nixie
