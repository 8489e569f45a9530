// The short door to checkpoints: what is saved comes back bit by bit, and training goes on where it was.
#include "nixie/models/io/save.h"

#include <unistd.h>

#include "nixie/core/graph/storage.h"
#include "nixie/core/step.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/registry.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

Sequential net(int width) {
  return {Flatten{}, Linear{.out = width}, Relu{}, Dropout{.rate = 0.25f}, Linear{.out = 3}};
}

struct Training {
  Model model;
  Optimizer optimizer;
  Step step;
  explicit Training(std::uint64_t seed, int width = 8)
      : model(net(width), {4, 5}, seed),
        optimizer(model.parameters(), {.rule = Adam{}, .schedule = ConstantRate{.rate = 0.01}}),
        step(test_backend(), [this](const Inputs& in) {
          Pass pass{.training = true, .step = optimizer.count(), .seed = 1};
          const Tensor loss = cross_entropy(model(in["x"], pass), in["labels"]);
          optimizer.minimize(loss);
          return Outputs{{"loss", loss}};
        }) {}
  std::vector<double> run(int steps) {
    std::vector<float> x(20);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    const Array images = Array::from(x, {4, 5}), labels = Array::from(std::vector<std::int32_t>{0, 1, 2, 1}, {4});
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(step({{"x", images}, {"labels", labels}}).at("loss").item());
    return losses;
  }
};

struct Save : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("nixie_save_test_" + std::to_string(::getpid()));
  Save() { fs::create_directories(folder); }
  ~Save() override { fs::remove_all(folder); }
  fs::path file() const { return folder / "run.h5"; }
};

TEST_F(Save, TrainingGoesOnWhereItWas) {
  Training first(1);
  first.run(5);
  save(first.model, first.optimizer, file());
  Training second(2);  // other initial values
  load(second.model, second.optimizer, file());
  EXPECT_EQ(second.optimizer.count().array().item(), 5);
  EXPECT_EQ(second.run(3), first.run(3));  // dropout's masks included
}

TEST_F(Save, AModelAlone) {
  Training first(1), second(2);
  save(first.model, file());
  load(second.model, file());
  for (const Variable& variable : first.model.parameters().all())
    EXPECT_EQ(variable.array().to_vector<float>(),
              second.model.parameters().find(variable.name())->array().to_vector<float>());
  EXPECT_FAULT(checkpoint, "is of no optimizer, expected adam", load(second.model, second.optimizer, file()));
}

TEST_F(Save, NumbersThatNoOptimizerHasAreRefused) {
  Training saved(1), other(2);
  save(saved.model, saved.optimizer, file());
  Checkpoint changed = load_checkpoint(file());
  for (const double step : {-1.0, 0.5, std::nan("")}) {
    changed.state["shared.step"] = step;
    save_checkpoint(changed, file());
    EXPECT_FAULT(checkpoint, "run.h5: /state holds shared.step", load(other.model, other.optimizer, file()));
  }
}

// A state that load refuses is not written over a file that it takes.
TEST_F(Save, NumbersThatLoadRefusesAreNotWritten) {
  const Model model(Sequential{Linear{.out = 4}, BatchNorm{}}, {4, 5}, 3);
  const Optimizer plateau(model.parameters(), {.rule = Sgd{}, .schedule = PlateauRate{.rate = 0.01, .maximize = true}});
  save(model, plateau, file());
  plateau.schedule().observe(HUGE_VAL);
  EXPECT_FAULT(non_finite, "the checkpoint is not written: shared.plateau_best inf, expected a number, ",
               save(model, plateau, file()));
  EXPECT_EQ(std::get<double>(load_checkpoint(file()).state.at("shared.plateau_best")), -HUGE_VAL);
  model.parameters().find("1.running_var")->set(Array::from(std::vector<float>{1, 1, -3, 1}, {4}));
  EXPECT_FAULT(non_finite, "is not written: /model/1.running_var holds -3, expected 0 to ", save(model, file()));
  load(Model(Sequential{Linear{.out = 4}, BatchNorm{}}, {4, 5}, 1), file());
}

TEST_F(Save, OfAnotherModelChangesNothing) {
  Training wide(1, 16), narrow(1, 8);
  save(wide.model, wide.optimizer, file());
  const auto before = narrow.model.parameters().all()[0].array().to_vector<float>();
  EXPECT_FAULT(checkpoint, "run.h5 has 1.weight as f32 [16, 5], expected f32 [8, 5]", load(narrow.model, file()));
  EXPECT_EQ(narrow.model.parameters().all()[0].array().to_vector<float>(), before);
}

TEST(Precision, NamedOnceReachesStepsModelsAndLossScales) {
  struct Restored {
    ~Restored() { set_default_precision(PrecisionPolicy::fp32); }
  } restored;
  Training single(1);
  EXPECT_EQ(single.model.parameters().all()[0].dtype(), Dtype::f32);
  EXPECT_FALSE(single.optimizer.loss_scale().is_dynamic());
  const std::vector<double> expected = single.run(4);
  set_default_precision(PrecisionPolicy::fp16_pure);
  Training half(1);
  EXPECT_EQ(half.model.parameters().all()[0].dtype(), Dtype::f16);
  EXPECT_TRUE(half.optimizer.loss_scale().is_dynamic());
  const std::vector<double> losses = half.run(4);
  EXPECT_NE(losses, expected);                // products of halves
  EXPECT_NEAR(losses[0], expected[0], 0.02);  // the scale, being dynamic, may skip the first updates
}

}  // namespace
}  // namespace nixie
