// That a wrong result of the benchmark's nets is caught.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/net_times.h"
#include "nixie/apps/benchmark/subjects/peer_request.h"
#include "nixie/backends/registry.h"
#include "nixie/models/registry.h"
#include "nixie/tests/errors.h"

namespace nixie::benchmark {
namespace {

using testing::HasSubstr;

/// The CPU, whose plans a test changes or whose results it spoils.
class ChangedCpu : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  void lower(Plan& plan) override { cpu_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return cpu_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t bytes) override { cpu_->upload(from, to, bytes); }
  void download(Buffer& from, void* to, std::int64_t bytes) override { cpu_->download(from, to, bytes); }
  std::unique_ptr<Executable> compile(const Plan& plan) override { return cpu_->compile(plan); }

 protected:
  std::shared_ptr<Backend> cpu_ = make_backend("cpu");
};

/// Every plan that `is_broken` names writes a wrong number into one of its external buffers.
class BrokenBackend final : public ChangedCpu {
 public:
  /// `external` counts as plan.externals does.
  BrokenBackend(std::function<bool(const Plan&)> is_broken, std::size_t external, float wrong)
      : is_broken_(std::move(is_broken)), external_(external), wrong_(wrong) {}
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
  std::function<bool(const Plan&)> is_broken_;
  std::size_t external_;
  float wrong_;
};

/// A kernel with a wrong index: in the first plan that has filter gradients, one convolution reads the rows of its
/// second operand as columns.
class SwappedBackend final : public ChangedCpu {
 public:
  /// `number` counts the convolutions whose second operand is square and not a point; it may pass their number.
  explicit SwappedBackend(std::size_t number) : number_(number) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    Plan changed = plan;
    std::vector<Operand*> square;
    bool has_filter_grad = false;
    for (Kernel& kernel : changed.kernels) {
      const auto* conv = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
      if (!conv) continue;
      has_filter_grad |= conv->role == ConvRole::filter_grad;
      Operand& second = kernel.head->operands[1];
      if (second.shape[2] == second.shape[3] && second.shape[2] > 1) square.push_back(&second);
    }
    if (!has_filter_grad || is_done_) return cpu_->compile(plan);
    is_done_ = true;
    Strides& strides = square[number_ % square.size()]->strides;
    std::swap(strides[2], strides[3]);
    return cpu_->compile(changed);
  }

 private:
  std::size_t number_;
  bool is_done_ = false;
};

/// Computes alike, but rounds elsewhere: the first plan with filter gradients finds each element of its parameters
/// larger or smaller by `relative`.
class RoundingBackend final : public ChangedCpu {
 public:
  explicit RoundingBackend(float relative) : relative_(relative) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    const auto is_filter_grad = [](const Kernel& kernel) {
      const auto* conv = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
      return conv && conv->role == ConvRole::filter_grad;
    };
    std::unique_ptr<Executable> whole = cpu_->compile(plan);
    if (is_done_ || std::ranges::none_of(plan.kernels, is_filter_grad)) return whole;
    is_done_ = true;
    std::set<int> written;
    for (const Kernel& kernel : plan.kernels)
      for (const Access& store : kernel.stores) written.insert(store.slot);
    std::vector<std::size_t> read;
    for (std::size_t i = 0; i < plan.externals.size(); ++i)
      if (!written.contains(plan.externals[i])) read.push_back(i);
    return std::make_unique<Run>(std::move(whole), std::move(read), relative_);
  }

 private:
  class Run final : public Executable {
   public:
    Run(std::unique_ptr<Executable> whole, std::vector<std::size_t> read, float relative)
        : whole_(std::move(whole)), read_(std::move(read)), relative_(relative) {}
    void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
      std::vector<std::vector<float>> saved;
      std::mt19937 random(1);
      for (const std::size_t i : read_) {
        const std::span<float> values = floats_of(*externals[i]);
        saved.emplace_back(values.begin(), values.end());
        for (float& value : values) value *= random() % 2 == 0 ? 1 + relative_ : 1 - relative_;
      }
      whole_->run(externals, scalars);
      for (std::size_t i = 0; i < read_.size(); ++i)
        std::ranges::copy(saved[i], floats_of(*externals[read_[i]]).begin());
    }

   private:
    static std::span<float> floats_of(Buffer& buffer) {
      return {static_cast<float*>(buffer.address()), static_cast<std::size_t>(buffer.size_bytes()) / sizeof(float)};
    }
    std::unique_ptr<Executable> whole_;
    std::vector<std::size_t> read_;
    float relative_;
  };
  float relative_;
  bool is_done_ = false;
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
      {total, 8, std::nanf(""), "small (fp32): the timed result d.0.bias is not finite"},
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

/// Has no room for plans with many results beside each other.
class NarrowBackend final : public ChangedCpu {
 public:
  explicit NarrowBackend(std::size_t most) : most_(most) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    if (plan.externals.size() > most_) fail(Fault::memory, "no room for ", plan.externals.size());
    return cpu_->compile(plan);
  }

 private:
  std::size_t most_;
};

// Six leaves, five results, and three arrays of each of five contractions.
TEST(BenchmarkNets, AreProbedInPartsWhereMemoryIsWanting) {
  const PrecisionTraits precision = precision_named("fp32");
  for (const std::size_t most : {6 + 5 + 15, 6 + 5 + 14, 6 + 5 + 9, 6 + 5 + 6, 6 + 5 + 3}) {
    NarrowBackend backend(most);
    NetWork work(backend, small_net(), 4, precision);
    const NetCheck found = check_net(work, precision);
    EXPECT_EQ(found.fprop.contractions + found.input_grad.contractions + found.filter_grad.contractions, 5) << most;
  }
  NarrowBackend none(6 + 5 + 2);
  NetWork work(none, small_net(), 4, precision);
  EXPECT_THAT(error_of(Fault::memory, [&] { check_net(work, precision); }), HasSubstr("no room for 14"));
}

Net small_resnet() {
  return {.name = "resnet",
          .model = Resnet<18>{.classes = 10},
          .sample = {3, 64, 64},
          .classes = 10,
          .batch = 4,
          .cpu_batch = 4,
          .training = common_training()};
}

/// Blocks of squeeze-and-excitation and group norm, behind SiLU and ReLU.
Net small_excited_net() {
  Sequential net{Conv2d{.out = 32, .kernel = 3, .stride = 2, .pad = 1, .bias = false}, BatchNorm{}, Silu{}};
  for (int i = 0; i < 6; ++i) {
    const Sequential branch{Conv2d{.out = 64, .kernel = 1, .bias = false},
                            GroupNorm{.groups = 8},
                            Relu{},
                            SqueezeExcite{.squeeze = 8},
                            Conv2d{.out = 32, .kernel = 1, .bias = false},
                            BatchNorm{}};
    net.layers.push_back(SumBranches{.branches = {Identity{}, branch}});
  }
  for (const NamedLayer& layer : {NamedLayer(GlobalAvgPool{}), NamedLayer(Flatten{}), NamedLayer(Linear{.out = 10})})
    net.layers.push_back(layer);
  return {.name = "excited",
          .model = net,
          .sample = {3, 32, 32},
          .classes = 10,
          .batch = 8,
          .cpu_batch = 8,
          .training = common_training()};
}

TEST(BenchmarkNets, AWrongKernelOfADeepNetIsCaughtInHalves) {
  const PrecisionTraits precision = precision_named("fp16");
  const auto checked = [&](Backend& backend) {
    NetWork work(backend, small_resnet(), 4, precision);
    return check_net(work, precision);
  };
  const NetCheck intact = checked(*make_backend("cpu"));
  EXPECT_LT(intact.distance, intact.distance_bound);
  for (const std::size_t number : {0, 14, 28, 42}) {
    SwappedBackend backend(number);
    EXPECT_THAT(error_of(Fault::non_finite, [&] { checked(backend); }), HasSubstr("the timed result ")) << number;
  }
}

/// ReLUs that open in one of two f32 runs are no mistake.
TEST(BenchmarkNets, RoundingOfADeepNetIsExcusedInFloats) {
  const PrecisionTraits precision = precision_named("fp32");
  Net net = small_resnet();
  net.model = MobilenetV1{.classes = 10};
  net.sample = {3, 96, 96};
  const auto checked = [&](float relative) {
    RoundingBackend backend(relative);
    NetWork work(backend, net, 8, precision);
    return check_net(work, precision);
  };
  int excused = 0;
  for (const float relative : {8e-6f, 1.2e-5f, 1.6e-5f}) excused += checked(relative).excused;
  EXPECT_GT(excused, 0);
  EXPECT_THAT(error_of(Fault::non_finite, [&] { checked(1e-3f); }), HasSubstr(", and rounding explains "));
}

/// The largest distance of a result in halves from that in floats; gradients of biases, which normalisations behind
/// them cancel, left out.
double distance_of_halves(const Net& net, bool is_well_conditioned) {
  const auto backend = make_backend("cpu");
  const auto results = [&](const char* precision) {
    NetWork work(*backend, net, net.batch, precision_named(precision));
    Outputs results;
    const auto run = [&] {
      work.total();
      results = work.results();
    };
    is_well_conditioned ? work.while_well_conditioned(run) : run();
    return results;
  };
  const Outputs halves = results("fp16"), floats = results("fp32");
  double largest = 0;
  for (const auto& [name, value] : floats)
    if (!name.ends_with("bias")) largest = std::max(largest, relative_distance(halves.at(name).array(), value.array()));
  return largest;
}

TEST(BenchmarkNets, ChecksAreOfAWellConditionedNet) {
  const double chaotic = distance_of_halves(small_resnet(), false), calm = distance_of_halves(small_resnet(), true);
  EXPECT_LT(calm, 0.1);
  EXPECT_GT(chaotic, 2 * calm);
}

// A unit that no sample opens has no gradient.
TEST(BenchmarkNets, ChecksOpenTheUnitsOfSqueezeAndExcitation) {
  const auto backend = make_backend("cpu");
  NetWork work(*backend, small_excited_net(), 8, precision_named("fp32"));
  const auto closed = [&] {
    work.total();
    std::ptrdiff_t count = 0;
    for (const auto& [name, value] : work.results())
      if (name.ends_with("fc1.bias")) {
        const std::vector<float> gradient = value.to_vector<float>();
        count += std::count(gradient.begin(), gradient.end(), 0.0f);
      }
    return count;
  };
  EXPECT_GT(closed(), 5);
  work.while_well_conditioned([&] { EXPECT_EQ(closed(), 0); });
  EXPECT_GT(closed(), 5);
}

TEST(BenchmarkNets, ParametersAreTheSameAfterTheCheck) {
  const auto backend = make_backend("cpu");
  const PrecisionTraits precision = precision_named("fp32");
  NetWork work(*backend, small_resnet(), 2, precision);
  const Array before = work.fprop().at("output").array().clone();
  check_net(work, precision);
  EXPECT_EQ(relative_distance(work.fprop().at("output").array(), before), 0);
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
