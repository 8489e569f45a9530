// train_on_ranks: a training step that ranks share: mpirun --bind-to none -np 2 train_on_ranks.
#include <fmt/core.h>

#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/data/registry.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/registry.h"

using namespace nixie;

int main() {
  const World& world = launched_world();
  const auto backend = make_backend("cpu", 0, world);
  const Splits data = Glyphs{.train = 1280, .test = 100}.open();
  Loader loader(data.train, {.batch = 32, .threads = 1}, /*seed=*/1, /*training=*/true, world);
  const Model model(Sequential{Flatten{}, Linear{.out = 64}, Relu{}, Dropout{}, Linear{.out = 10}},
                    {world.share_of(32, "batch"), 1, 28, 28}, /*seed=*/1);
  const Optimizer optimizer(model.parameters(), {.rule = Adam{}, .schedule = ConstantRate{.rate = 0.002}});
  Step train(*backend, [&](const Inputs& in) {
    const Pass pass{.training = true, .step = optimizer.count(), .seed = 1, .share = world.rank()};
    const Tensor loss = cross_entropy(model(in["images"], pass), in["labels"]);
    std::vector<Gradient> slopes = gradients(optimizer.scaled(loss), optimizer.parameters());
    for (std::size_t i = slopes.size(); i-- > 0;)  // the last layers' are the first that the backward pass makes
      slopes[i].value = all_reduce(world, slopes[i].value) * (1.0 / world.size());
    optimizer.update(slopes);
    return Outputs{{"loss", all_reduce(world, loss) * (1.0 / world.size())}};
  });
  for (int epoch = 1; epoch <= 3; ++epoch) {
    double loss = 0;
    while (const Batch* batch = loader.next()) loss += train(*batch).at("loss").item();
    if (world.is_first()) fmt::print("epoch {} loss {:.4f}\n", epoch, loss / static_cast<double>(loader.batches()));
  }
  leave_world(0);
}
