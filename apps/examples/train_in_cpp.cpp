// train_in_cpp: a net, its training step and the loop in C++, without a configuration: a small trainer.
#include <fmt/core.h>

#include "nixie/backends/registry.h"
#include "nixie/core/step.h"
#include "nixie/data/loader.h"
#include "nixie/data/registry.h"
#include "nixie/models/io/save.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/registry.h"

using namespace nixie;

// A net is a list of layers; sizes of inputs are inferred.
Sequential net(int classes) {
  return {
      {"features", Sequential{Conv2d{.out = 16, .kernel = 5, .pad = 2}, Relu{}, MaxPool2d{.window = 2},
                              Conv2d{.out = 32, .kernel = 5, .pad = 2}, Relu{}, MaxPool2d{.window = 2}}},
      Flatten{},
      {"classifier", Sequential{Linear{.out = 64}, Relu{}, Linear{.out = classes}}},
  };
}

int main() {
  const auto backend = make_backend("cpu");
  // set_default_precision(PrecisionPolicy::fp16) here is all that half precision takes.
  const Splits data = Glyphs{.train = 9600, .test = 1000}.open();
  Loader loader(data.train, {.batch = 32}, /*seed=*/1, /*training=*/true);
  Loader tests(data.test, {.batch = 100}, 1, false);
  const Model model(net(10), {32, 1, 28, 28}, /*seed=*/1);
  const Optimizer optimizer(model.parameters(), {.rule = Adam{}, .schedule = ConstantRate{.rate = 0.002}});

  // One step: forward, backward and update are one graph. What changes is a Variable.
  Step train(*backend, [&](const Inputs& in) {
    const Pass pass{.training = true, .step = optimizer.count(), .seed = 1};
    const Tensor loss = cross_entropy(model(in["images"], pass), in["labels"]);
    optimizer.minimize(loss);
    return Outputs{{"loss", loss}};
  });
  Step test(*backend, [&](const Inputs& in) {
    return Outputs{{"right", accuracy(model(in["images"], Pass{.training = false}), in["labels"])}};
  });

  for (int epoch = 1; epoch <= 3; ++epoch) {
    double loss = 0;
    while (const Batch* batch = loader.next())  // null at the end of each epoch
      loss += train(*batch).at("loss").item();
    fmt::print("epoch {} loss {:.4f}\n", epoch, loss / static_cast<double>(loader.batches()));
  }
  double right = 0;
  while (const Batch* batch = tests.next()) right += test(*batch).at("right").item();
  fmt::print("test accuracy {:.4f}\n", right / static_cast<double>(tests.batches()));
  save(model, optimizer, "train_in_cpp.h5");  // load(model, optimizer, "train_in_cpp.h5") goes on from here
}
