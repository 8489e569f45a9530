// That a wrong result of the benchmark's nets is caught.
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/net_times.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/backends/registry.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/models/registry.h"
#include "nixie/tests/errors.h"

namespace nixie::benchmark {
namespace {

/// The CPU, whose plans a test changes or whose runs it spoils.
class ChangedCpu final : public ForwardingBackend {
 public:
  using Compile = std::function<std::unique_ptr<Executable>(Backend& cpu, const Plan& plan)>;
  explicit ChangedCpu(Compile compile) : ForwardingBackend(make_backend("cpu")), compile_(std::move(compile)) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override { return compile_(*inner(), plan); }

 private:
  Compile compile_;
};

using Externals = std::span<const std::shared_ptr<Buffer>>;

/// A plan's run, between what a test does to its buffers before and after it.
class Spoiled final : public Executable {
 public:
  using Around = std::function<void(Externals externals, const std::function<void()>& run)>;
  Spoiled(std::unique_ptr<Executable> whole, Around around) : whole_(std::move(whole)), around_(std::move(around)) {}
  void run(Externals externals, std::span<const double> scalars) override {
    around_(externals, [&] { whole_->run(externals, scalars); });
  }

 private:
  std::unique_ptr<Executable> whole_;
  Around around_;
};

std::span<float> floats_of(Buffer& buffer) {
  return {static_cast<float*>(buffer.address()), static_cast<std::size_t>(buffer.size_bytes()) / sizeof(float)};
}

/// Every plan that `is_broken` names writes a wrong number into one of its external buffers, counted as plan.externals.
ChangedCpu broken_cpu(const std::function<bool(const Plan&)>& is_broken, std::size_t external, float wrong) {
  return ChangedCpu([=](Backend& cpu, const Plan& plan) -> std::unique_ptr<Executable> {
    if (!is_broken(plan)) return cpu.compile(plan);
    return std::make_unique<Spoiled>(cpu.compile(plan), [=](Externals externals, const auto& run) {
      run();
      floats_of(*externals[external])[0] = wrong;
    });
  });
}

bool is_conv(const Kernel& kernel, ConvRole role) {
  const auto* conv = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
  return conv && conv->role == role;
}
bool has_filter_grad(const Plan& plan) {
  return std::ranges::any_of(plan.kernels, [](const Kernel& kernel) { return is_conv(kernel, ConvRole::filter_grad); });
}

/// A kernel with a wrong index: in the first plan that has filter gradients, one
/// convolution reads the rows of its second operand as columns. `number` counts
/// those whose second operand is square and not a point; it may pass their number.
ChangedCpu swapped_cpu(std::size_t number) {
  return ChangedCpu([=, is_done = false](Backend& cpu, const Plan& plan) mutable {
    if (is_done || !has_filter_grad(plan)) return cpu.compile(plan);
    is_done = true;
    Plan changed = plan;
    std::vector<Operand*> square;
    for (Kernel& kernel : changed.kernels) {
      if (!kernel.head || !std::holds_alternative<Conv>(kernel.head->op)) continue;
      Operand& second = kernel.head->operands[1];
      if (second.shape[2] == second.shape[3] && second.shape[2] > 1) square.push_back(&second);
    }
    Strides& strides = square[number % square.size()]->strides;
    std::swap(strides[2], strides[3]);
    return cpu.compile(changed);
  });
}

/// The externals that a plan only reads.
std::vector<std::size_t> read_by(const Plan& plan) {
  std::set<int> written;
  for (const Kernel& kernel : plan.kernels)
    for (const Access& store : kernel.stores) written.insert(store.slot);
  std::vector<std::size_t> read;
  for (std::size_t i = 0; i < plan.externals.size(); ++i)
    if (!written.contains(plan.externals[i])) read.push_back(i);
  return read;
}

/// Computes alike, but rounds elsewhere: the first plan with filter gradients finds each element of its parameters
/// larger or smaller by `relative`.
ChangedCpu rounding_cpu(float relative) {
  return ChangedCpu([=, is_done = false](Backend& cpu, const Plan& plan) mutable -> std::unique_ptr<Executable> {
    if (is_done || !has_filter_grad(plan)) return cpu.compile(plan);
    is_done = true;
    return std::make_unique<Spoiled>(cpu.compile(plan),
                                     [=, read = read_by(plan)](Externals externals, const auto& run) {
                                       std::vector<std::vector<float>> saved;
                                       std::mt19937 random(1);
                                       for (const std::size_t i : read) {
                                         const std::span<float> values = floats_of(*externals[i]);
                                         saved.emplace_back(values.begin(), values.end());
                                         for (float& value : values)
                                           value *= random() % 2 == 0 ? 1 + relative : 1 - relative;
                                       }
                                       run();
                                       for (std::size_t i = 0; i < read.size(); ++i)
                                         std::ranges::copy(saved[i], floats_of(*externals[read[i]]).begin());
                                     });
  });
}

/// Has no room for plans with many results beside each other.
ChangedCpu narrow_cpu(std::size_t most) {
  return ChangedCpu([=](Backend& cpu, const Plan& plan) {
    if (plan.externals.size() > most) fail(Fault::memory, "no room for ", plan.externals.size());
    return cpu.compile(plan);
  });
}

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
  ChangedCpu whole = broken_cpu(none, 0, 0);
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
    ChangedCpu backend = broken_cpu(broken, external, wrong);
    EXPECT_THAT(net_error(backend), HasSubstr(expected));
  }
}

// Six leaves, five results, and three arrays of each of five contractions.
TEST(BenchmarkNets, AreProbedInPartsWhereMemoryIsWanting) {
  const PrecisionTraits precision = precision_named("fp32");
  for (const std::size_t most : {6 + 5 + 15, 6 + 5 + 14, 6 + 5 + 9, 6 + 5 + 6, 6 + 5 + 3}) {
    ChangedCpu backend = narrow_cpu(most);
    NetWork work(backend, small_net(), 4, precision);
    const NetCheck found = check_net(work, precision);
    EXPECT_EQ(found.fprop.contractions + found.input_grad.contractions + found.filter_grad.contractions, 5) << most;
  }
  ChangedCpu none = narrow_cpu(6 + 5 + 2);
  NetWork work(none, small_net(), 4, precision);
  EXPECT_FAULT(memory, "no room for 14", check_net(work, precision));
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
    ChangedCpu backend = swapped_cpu(number);
    EXPECT_FAULT(non_finite, "the timed result ", checked(backend)) << number;
  }
}

/// ReLUs that open in one of two f32 runs are no mistake.
TEST(BenchmarkNets, RoundingOfADeepNetIsExcusedInFloats) {
  const PrecisionTraits precision = precision_named("fp32");
  Net net = small_resnet();
  net.model = MobilenetV1{.classes = 10};
  net.sample = {3, 96, 96};
  const auto checked = [&](float relative) {
    ChangedCpu backend = rounding_cpu(relative);
    NetWork work(backend, net, 8, precision);
    return check_net(work, precision);
  };
  int excused = 0;
  for (const float relative : {8e-6f, 1.2e-5f, 1.6e-5f}) excused += checked(relative).excused;
  EXPECT_GT(excused, 0);
  EXPECT_FAULT(non_finite, ", and rounding explains ", checked(1e-3f));
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
