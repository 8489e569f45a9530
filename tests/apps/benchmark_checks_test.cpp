// The benchmark's own measures: the reference in double, roles and FLOP of published nets, and that a wrong result is
// caught.
#include <gmock/gmock.h>

#include <cmath>

#include "nixie/apps/benchmark/commands/nets_command.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/random.h"
#include "nixie/core/ops/ops.h"
#include "nixie/tests/errors.h"

namespace nixie::benchmark {
namespace {

using testing::HasSubstr;

Tensor noise(const Shape& shape, const char* purpose) { return uniform(shape, random_stream(7, purpose)) - 0.5; }

/// All gradients of a product or convolution, whose backward pass has the other roles.
std::vector<Contraction> contractions_with_gradients(const Tensor& y, const std::vector<Tensor>& operands) {
  std::vector<Gradient> none;
  std::vector<Contraction> all = contractions_of(y, none);
  for (const Tensor& gradient : gradients(sum(y * noise(y.shape(), "dy")), operands))
    for (const Contraction& contraction : contractions_of(gradient, none)) all.push_back(contraction);
  return all;
}

TEST(BenchmarkReference, AgreesWithTheBackendInEveryRole) {
  const auto backend = make_backend("cpu");
  const Tensor x = noise({2, 6, 9, 8}, "x"), line = noise({3, 4, 11}, "line"), box = noise({2, 2, 5, 4, 6}, "box");
  const Tensor w = noise({4, 3, 3, 2}, "w"), taps = noise({5, 4, 3}, "taps"), cube = noise({3, 2, 2, 3, 2}, "cube");
  const Tensor a = noise({2, 5, 7}, "a"), b = noise({2, 7, 3}, "b");
  const struct {
    Tensor y;
    std::vector<Tensor> operands;
  } kCases[] = {
      {conv(x, w, {.stride = {2, 1}, .pad = {1, 2}, .dilation = {1, 2}, .groups = 2}), {x, w}},
      {conv(line, taps, {.stride = {3}, .pad = {2}}), {line, taps}},
      {conv(box, cube, {.pad = {1}}), {box, cube}},
      {matmul(a, b), {a, b}},
  };
  for (const auto& [y, operands] : kCases) {
    const std::vector<Contraction> all = contractions_with_gradients(y, operands);
    ASSERT_EQ(all.size(), 3u);
    for (const Contraction& contraction : all) {
      const Tensor& node = contraction.node;
      const auto stored = evaluate({node.inputs()[0], node.inputs()[1], node}, *backend);
      const auto deviation = [&](const Array& result) {
        return compare_with_reference(node, stored[0].array(), stored[1].array(), result, precision_named("fp32"),
                                      node.shape().size());
      };
      EXPECT_LT(deviation(stored[2].array()).error(), 2e-6) << to_string(node.shape());
      EXPECT_LE(deviation(stored[2].array()).share(), 1) << to_string(node.shape());
      Array wrong = stored[2].array().clone();
      wrong.data<float>().back() += 0.05f;
      EXPECT_GT(deviation(wrong).error(), 1e-3) << to_string(node.shape());
      EXPECT_GT(deviation(wrong).share(), 1) << to_string(node.shape());
      wrong.data<float>()[1] = std::nanf("");
      EXPECT_TRUE(std::isinf(deviation(wrong).error()));
      EXPECT_TRUE(std::isinf(deviation(wrong).share()));
    }
  }
}

TEST(BenchmarkReference, SamplesTheEndsAndNothingTwiceOfASmallArray) {
  EXPECT_EQ(sampled_positions(3, 32), (std::vector<std::int64_t>{0, 1, 2}));
  const auto many = sampled_positions(std::int64_t{1} << 33, 32);
  ASSERT_EQ(many.size(), 32u);
  EXPECT_EQ(many[0], 0);
  EXPECT_EQ(many[1], (std::int64_t{1} << 33) - 1);
  EXPECT_GT(*std::max_element(many.begin() + 2, many.end()), std::int64_t{1} << 32) << "far positions are drawn too";
}

TEST(BenchmarkReference, DistanceIsThatOfWholeArrays) {
  const Array a = Array::from<float>({3, 4, 0}, {3}), b = Array::from<float>({3, 4, 0.5f}, {3});
  EXPECT_EQ(relative_distance(a, a), 0);
  EXPECT_NEAR(relative_distance(b, a), 0.1, 1e-12);
  EXPECT_TRUE(std::isinf(relative_distance(Array::from<float>({3, 4, HUGE_VALF}, {3}), a)));
}

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

/// The CPU, but every plan that `is_broken` names writes a wrong number into one of its external buffers.
class BrokenBackend final : public Backend {
 public:
  /// `external` counts as plan.externals does.
  BrokenBackend(std::function<bool(const Plan&)> is_broken, std::size_t external, float wrong)
      : cpu_(make_backend("cpu")), is_broken_(std::move(is_broken)), external_(external), wrong_(wrong) {}
  std::string name() const override { return "cpu"; }
  void lower(Plan& plan) override { cpu_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return cpu_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t bytes) override { cpu_->upload(from, to, bytes); }
  void download(Buffer& from, void* to, std::int64_t bytes) override { cpu_->download(from, to, bytes); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<BrokenExecutable>(cpu_->compile(plan), is_broken_(plan), external_, wrong_);
  }

 private:
  class BrokenExecutable final : public Executable {
   public:
    BrokenExecutable(std::unique_ptr<Executable> whole, bool is_broken, std::size_t external, float wrong)
        : whole_(std::move(whole)), is_broken_(is_broken), external_(external), wrong_(wrong) {}
    void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
      whole_->run(externals, scalars);
      if (is_broken_) static_cast<float*>(externals[external_]->address())[0] = wrong_;
    }

   private:
    std::unique_ptr<Executable> whole_;
    bool is_broken_;
    std::size_t external_;
    float wrong_;
  };
  std::shared_ptr<Backend> cpu_;
  std::function<bool(const Plan&)> is_broken_;
  std::size_t external_;
  float wrong_;
};

Net small_net() {
  const Sequential layers{Conv2d{.out = 4, .kernel = 3, .pad = 1}, Relu{}, MaxPool2d{}, Flatten{}, Linear{.out = 10}};
  return {.name = "small",
          .model = layers,
          .sample = {3, 8, 8},
          .classes = 10,
          .batch = 4,
          .cpu_batch = 4,
          .training = {.rule = Sgd{}, .schedule = ConstantRate{.rate = 0.01}}};
}

std::string net_error(Backend& backend) {
  return error_of(Fault::non_finite, [&] { time_net(backend, small_net(), 4, precision_named("fp32"), 3, 1); });
}

TEST(BenchmarkNets, AWrongResultFailsWhereverItIs) {
  // Leaves come first (images, output gradient, four parameters), then results by name: those of the probe begin with
  // operands and result of the first contraction; those of total are the output, then four gradients, which are set.
  const auto fprop = [](const Plan& plan) { return plan.externals.size() == 6; };
  const auto total = [](const Plan& plan) { return plan.externals.size() == 11; };
  const auto probe = [](const Plan& plan) { return plan.externals.size() == 6 + 3 * 5 + 5; };
  const auto none = [](const Plan&) { return false; };
  BrokenBackend whole(none, 0, 0);
  EXPECT_EQ(net_error(whole), "no error");
  const struct {
    std::function<bool(const Plan&)> broken;
    std::size_t external;
    float wrong;
    std::string expected;
  } kCases[] = {
      {fprop, 5, 99, "small (fp32): the timed result output is wrong"},
      {total, 6, 99, "small (fp32): the timed result output is wrong"},
      {total, 7, 99, "small (fp32): the timed result d.0.weight is wrong"},
      {total, 8, std::nanf(""), "small (fp32): the timed result d.0.bias is wrong: it is inf"},
      {probe, 8, 99, "small (fp32): 0: fprop is wrong: max|diff| / mean|ref| is "},
      {probe, 8, std::nanf(""), "small (fp32): 0: fprop is not finite"},
      {probe, 17, 99, "update is wrong"},
      {probe, 21, 99, "small (fp32): 0: bias update is wrong"},
      {probe, 25, 99, "small (fp32): the timed result output is wrong"},
  };
  for (const auto& [broken, external, wrong, expected] : kCases) {
    BrokenBackend backend(broken, external, wrong);
    EXPECT_THAT(net_error(backend), HasSubstr(expected));
  }
}

// A mean over 256 x 256 positions leaves gradients that halves can hardly tell from zero.
TEST(BenchmarkNets, GradientsOfLargeImagesLieWithinHalves) {
  const auto backend = make_backend("cpu");
  const PrecisionTraits precision = precision_named("fp16");
  NetWork work(*backend, scaling_net(1, 2, 256), 1, precision);
  EXPECT_LT(check_net(work, precision).input_grad.share, 0.5);
}

TEST(BenchmarkReport, CsvHasTheColumnsOfAllRows) {
  const auto rows =
      nlohmann::json::parse(R"([{"net": "a,b", "ms": {"min": 1, "max": 2.5}}, {"net": "c", "gflop": 3}])");
  EXPECT_EQ(csv_text(rows), "ms.max,ms.min,net,gflop\n2.5,1,\"a,b\",\n,,c,3\n");
}

}  // namespace
}  // namespace nixie::benchmark
