// Runs of several ranks that are threads of one process, against the same run by one.
#include "nixie/tests/ranks.h"

#include "nixie/apps/trainer/ranks/gradient_sum.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/families/collective.h"
#endif
#include "nixie/core/step.h"
#include "nixie/tests/apps/bearable_at_half.h"
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

// kRun has dropout, batch norm, Adam, a plateau, clipping, an uneven evaluation.
TEST(RanksInOneProcess, OrderedRunsAreEqualBitByBit) {
  const TempFolder folder;
  const TrainConfig config = ordered({});
  train_in_threads(folder / "0", config, 0);
  for (const int size : {2, 4, 8}) {
    const std::string name = std::to_string(size);
    train_in_threads(folder / name, config, size);
    expect_same_files(folder / "0", folder / name, "on " + name);
  }
  // Shards of 8,192 values a channel, which kernels of two shards would cut otherwise than those of one.
  const TrainConfig images = parse_config(R"(
model: [{conv2d: {out: 32, kernel: 3, pad: 1, bias: false}}, batch_norm, max_pool2d, flatten, {linear: {out: 10}}]
data: {generated: {height: 32, width: 32, train: 64, test: 16, batch: 64}}
reduction: ordered
steps: 1
seed: 6
backend: cpu
)",
                                          "images.yaml", {});
  train_in_threads(folder / "images0", images, 0);
  for (const int size : {2, 4}) {
    const std::string name = "images" + std::to_string(size);
    train_in_threads(folder / name, images, size);
    expect_same_files(folder / "images0", folder / name, name);
  }
  // Ordered ranks exchange f32, also where a net computes in halves.
  for (const char* precision : {"precision=fp16", "precision=bf16"}) {
    const TrainConfig halves = ordered({precision, "epochs=1"});
    train_in_threads(folder / precision / "0", halves, 0);
    train_in_threads(folder / precision / "4", halves, 4);
    expect_same_files(folder / precision / "0", folder / precision / "4", precision);
  }
  EXPECT_FAULT(usage, "reduction: ordered cuts a batch into 8 shards, which 3 ranks cannot share equally",
               train_in_threads(folder / "odd", ordered({"data.glyphs.batch=24"}), 3));
  EXPECT_FAULT(usage, "but batch is 20; take a multiple of 8", Trainer trainer(ordered({"data.glyphs.batch=20"})));
}

#ifdef NIXIE_WITH_CUDA
// What computes a shard on a GPU does not depend on how many a rank has: the same programs, tiles and products of
// cuBLASLt on 1 to 8 ranks, but for the sums of a rank's shards.
TEST(RanksInOneProcess, OrderedShardsHaveProgramsOfTheirOwn) {
  const TrainConfig config =
      ordered({"model=[{conv2d: {out: 16, kernel: 3, pad: 1}}, batch_norm, relu, max_pool2d, "
               "flatten, {dropout: {rate: 0.3}}, {linear: {out: 10}}]",
               "data.glyphs.batch=128"});
  for (const char* precision : {"fp32", "tf32", "fp16"}) {
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
    EXPECT_GT(one.size(), 20u);
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on {}", precision, ranks));
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
