// Planning a training step takes time in proportion to its layers.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "nixie/apps/trainer/trainer.h"
#include "nixie/backends/registry.h"

namespace nixie {
namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Convolutions with a batch norm and a ReLU each, whose step is skipped where a gradient is not finite.
double seconds_of_plan(int layers) {
  std::string text = "model:\n";
  for (int i = 0; i < layers; ++i)
    text += "  - conv2d: {out: 32, kernel: 3, pad: 1, bias: false}\n  - batch_norm\n  - relu\n";
  text += "  - flatten\n  - linear: {out: 10}\n";
  text += "data: {generated: {channels: 3, height: 8, width: 8, train: 16, test: 16, batch: 16}}\n";
  text += "optimizer: sgd\nschedule: {constant: {rate: 0.01}}\nprecision: fp16\nsteps: 1\n";
  Trainer trainer(read_config(parse_yaml(text, "test")), {.backend = make_planner("H200")});
  const double start = processor_seconds();
  EXPECT_GT(trainer.plan().kernels.size(), 10u * static_cast<unsigned>(layers));
  return processor_seconds() - start;
}

TEST(PlanTime, IsInProportionToTheLayers) {
  seconds_of_plan(4);
  double few = seconds_of_plan(40), many = seconds_of_plan(160);
  for (int i = 0; i < 2; ++i)  // the least, as other programs use the caches, too
    few = std::min(few, seconds_of_plan(40)), many = std::min(many, seconds_of_plan(160));
  EXPECT_LT(many, 7 * few);
}

}  // namespace
}  // namespace nixie
#endif
