// classify: prints what a trained model sees in pictures. It needs no configuration, no training code and no GPU:
//   trainer export hands.h5 --run runs/photos/1
//   classify hands.h5 photo.jpg...
#include <fmt/core.h>

#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/core/base/error.h"

int main(int count, char** arguments) try {
  if (count < 3) {
    fmt::print(stderr, "usage: {} MODEL.h5 PICTURE...\n", arguments[0]);
    return 2;
  }
  const auto backend = nixie::make_cpu_backend(0);  // all cores
  const nixie::TrainedModel trained = nixie::load_trained(arguments[1], {"precision=fp32"});
  nixie::Predictor predictor(trained, *backend);
  for (int i = 2; i < count; ++i) {
    const nixie::Score best = predictor({nixie::prepare_picture(arguments[i], trained.preparation)})[0][0];
    fmt::print("{}: {} ({:.4f})\n", arguments[i], best.class_name, best.value);
  }
} catch (const nixie::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
