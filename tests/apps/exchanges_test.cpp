// The exchanges of nets' training steps on several GPUs, without a device: how many, how large, and what waits for
// them.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/apps/trainer/ranks/shards.h"
#include "nixie/backends/cuda/families/collective.h"
#include "nixie/core/step.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/ranks.h"

namespace nixie {
namespace {

using benchmark::Net;

Shape with_batch(const Shape& sample, std::int64_t batch) {
  std::vector<std::int64_t> sizes{batch};
  sizes.insert(sizes.end(), sample.begin(), sample.end());
  return Shape(std::move(sizes));
}

/// A net's training step in fp16, lowered for an H200 that is one of two.
Plan plan_of_step(const Net& net) {
  CudaPlansBackend backend;
  const World world = test::alone_of(2);
  const Shape images = with_batch(net.sample, net.batch);
  const Model model(net.model, images, 1);
  OptimizerOptions training = net.training;
  training.loss_scale.scale = 1024;
  Optimizer optimizer(model.parameters(), training, net.run);
  Trace trace;
  Pass pass;
  const Tensor loss =
      AnyLoss(net.loss)(model(placeholder(images, Dtype::f16), pass), placeholder({net.batch}, Dtype::i32));
  std::vector<Gradient> slopes = gradients(optimizer.scaled(loss), model.parameters());
  for (std::size_t i = slopes.size(); i-- > 0;)
    slopes[i].value = gradient_sum(world, slopes[i].value, PrecisionPolicy::fp16) * (1.0 / world.size());
  optimizer.update(slopes);
  return make_plan(prepare({.outputs = {loss}, .sets = trace.sets()}, PrecisionPolicy::fp16), backend);
}

std::int64_t bytes_of(const std::vector<cuda::CollectiveCall>& calls) {
  std::int64_t bytes = 0;
  for (const cuda::CollectiveCall& call : calls) bytes += call.count * size_of(call.dtype);
  return bytes;
}

// Each call but the last is made while the backward pass goes on, and none of its products waits for one: neither for
// its result nor for memory. The last is all that nothing hides, so it is small.
TEST(Exchanges, RunBesideTheBackwardPass) {
  const struct {
    const char* net;
    std::size_t calls;
    double megabytes, last_megabytes;
  } rows[] = {
      {"alexnet", 3, 122.2, 4.9}, {"overfeat", 5, 291.8, 3.7}, {"vgg_a", 5, 265.8, 0.2}, {"resnet50", 6, 51.2, 6.0}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.net);
    const std::vector<Net> nets = benchmark::conv_nets(false);
    const auto net = std::ranges::find(nets, row.net, &Net::name);
    ASSERT_NE(net, nets.end());
    const Plan plan = plan_of_step(*net);
    std::size_t calls = 0;
    double bytes = 0, last_bytes = 0;
    std::vector<bool> waits(plan.groups.size());  // for an exchange
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const Group& group = plan.groups[g];
      waits[g] = std::ranges::any_of(group.waits_for, [&](int w) { return waits[static_cast<std::size_t>(w)]; });
      if (const auto of_group = cuda::collective_calls(plan, group); !of_group.empty()) {
        ++calls, bytes += last_bytes = static_cast<double>(bytes_of(of_group));
        waits[g] = true;
      } else if (waits[g]) {
        for (int k : group.members)
          EXPECT_FALSE(plan.kernels[static_cast<std::size_t>(k)].head) << label_of(plan, group) << " waits";
      }
    }
    EXPECT_EQ(calls, row.calls);
    EXPECT_NEAR(1e-6 * bytes, row.megabytes, 0.1);
    EXPECT_NEAR(1e-6 * last_bytes, row.last_megabytes, 0.1);
  }
}

}  // namespace
}  // namespace nixie
#endif
