// The benchmark's nets: FLOP and parameters of published ones, and the layers that peers receive.
#include "nixie/apps/benchmark/subjects/net_times.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/backends/registry.h"
#include "nixie/models/registry.h"
#include "nixie/tests/test.h"

namespace nixie::benchmark {
namespace {

// Forward and executed backward GFLOP as convnet-benchmarks' and nervanagpu's tables give them.
TEST(BenchmarkNets, HaveThePublishedFlop) {
  const auto backend = make_backend("null");
  const std::map<std::string, std::pair<double, double>> kPublished = {{"alexnet", {182.832, 347.67}},
                                                                       {"overfeat", {717.159, 1406.34}},
                                                                       {"vgg_a", {973.964, 1936.83}},
                                                                       {"googlenet", {405.164, 780.12}}};
  for (const Net& net : conv_nets(false)) {
    const auto published = kPublished.find(net.name);
    if (published == kPublished.end()) continue;
    const FlopCount flop = count_flop(contractions_of_net(net, net.batch));
    EXPECT_NEAR(flop.fprop / 1e9, published->second.first, 1e-3) << net.name;
    EXPECT_NEAR((flop.executed - flop.fprop) / 1e9, published->second.second, 1e-2) << net.name;
    EXPECT_EQ(flop.counted(), 3 * flop.fprop);
  }
  const std::map<std::string, double> kNervana = {{"alexnet", 178.277}, {"overfeat", 716.09}, {"vgg_a", 969.60}};
  const std::map<std::string, double> kWithBiases = {{"alexnet", 61.10}, {"overfeat", 145.92}, {"vgg_a", 132.86}};
  for (const Net& net : conv_nets(true)) {
    const auto published = kNervana.find(net.name);
    if (published == kNervana.end()) continue;
    EXPECT_NEAR(count_flop(contractions_of_net(net, net.batch)).fprop / 1e9, published->second, 1e-2) << net.name;
  }
  for (const Net& net : conv_nets(false)) {
    const auto count = kWithBiases.find(net.name);
    if (count == kWithBiases.end()) continue;
    const NetWork work(*backend, net, 1, precision_named("fp32"));
    EXPECT_NEAR(static_cast<double>(work.parameters()) / 1e6, count->second, 0.01) << net.name;
  }
}

// Torchvision's numbers of its nets: thousand million multiplications for an image, and parameters.
TEST(BenchmarkNets, HaveTorchvisionsFlopAndParameters) {
  const std::map<std::string, std::pair<double, std::int64_t>> kPublished = {
      {"resnet18", {1.814, 11689512}},     {"resnet50", {4.089, 25557032}},    {"mobilenet_v2", {0.301, 3504872}},
      {"googlenet_bn", {1.498, 6624904}},  {"vgg16", {15.470, 138357544}},     {"densenet121", {2.834, 7978856}},
      {"inception_v3", {5.713, 23834568}}, {"mobilenet_v1", {0.569, 4231976}},  // Howard et al. 2017
  };
  std::size_t found = 0;
  for (const Net& net : conv_nets(false)) {
    const auto published = kPublished.find(net.name);
    if (published == kPublished.end()) continue;
    ++found;
    EXPECT_NEAR(count_flop(contractions_of_net(net, 1)).fprop / 2e9, published->second.first, 6e-4) << net.name;
    EXPECT_EQ(peer_request(net, "fp16", 1)["parameters"], published->second.second) << net.name;
  }
  EXPECT_EQ(found, kPublished.size());
}

// 2^20 output gradients of 1/2 in the mean sum to 2^19, beyond f16; those of other precisions stay as they are.
TEST(BenchmarkNets, DenseOutputsTakeAGradientWithFiniteSums) {
  const auto backend = make_backend("cpu", 2);
  for (const auto& [side, precision, expected] :
       {std::tuple{512, "fp16", 1.0 / 16}, {16, "fp16", 1.0}, {512, "bf16", 1.0}}) {
    const Net net{.name = "dense",
                  .model = Sequential{Conv2d{.out = 2, .kernel = 1}},
                  .sample = {1, side, side},
                  .classes = 2,
                  .batch = 4,
                  .cpu_batch = 4,
                  .training = common_training()};
    const nlohmann::json row = time_net(*backend, net, 4, precision_named(precision), 1, 1);
    EXPECT_EQ(row["output_gradient"], expected) << side << " " << precision;
    EXPECT_EQ(nervana_text(row).find("output gradients below 0.0625") != std::string::npos, expected < 1);
  }
}

TEST(BenchmarkNets, Cifar10IsTheConfigurationsNet) {
  const Net found = config_net(load_config(NIXIE_SOURCE_DIR "/configs/cifar10.yaml"), "cifar10");
  for (const Net& net : conv_nets(false)) {
    if (net.name != "cifar10") continue;
    EXPECT_EQ(net.model.layers().text(), found.model.layers().text());
    EXPECT_EQ(net.sample, found.sample);
    EXPECT_EQ(net.classes, found.classes);
  }
}

TEST(BenchmarkNets, APeerIsToldEveryFieldOfEveryLayer) {
  const Sequential layers{Conv2d{.out = 4, .kernel = {1, 7}, .bias = false},
                          {"b", ConcatBranches{.branches = {Identity{}, {"", Sequential{Relu{}}}}}}};
  const nlohmann::json found = layers_json(layers);
  EXPECT_EQ(found[0]["conv2d"]["out"], 4);
  EXPECT_EQ(found[0]["conv2d"]["kernel"], nlohmann::json::parse("[1, 7]"));
  EXPECT_EQ(found[0]["conv2d"]["bias"], false);
  EXPECT_EQ(found[1]["name"], "b");
  EXPECT_EQ(found[1]["concat"]["branches"][1]["sequential"][0]["relu"]["slope"], 0);
}

}  // namespace
}  // namespace nixie::benchmark
