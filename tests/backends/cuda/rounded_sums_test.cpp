// Products whose sums are rounded on the way: tiles compile without spills; with a device, the CPU's bits.
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/core/ops/formats.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/compiled_by.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/core/support.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

Tensor whole_numbers(const Shape& shape, unsigned seed, double most) {
  return round(testing::random_array(shape, -most, most, seed).to(Dtype::f32));
}

/// A product and its gradients, of whole numbers up to `most`, whose sums of a group are exact in f32.
struct Case {
  std::string name;
  std::function<Tensor(const Tensor& a, const Tensor& b, const Sums& sums)> product;
  Shape a, b;
  int by_wgmma = 0;  ///< of the three products under fp16 on sm_90a
  int copies = 0;    ///< of operands for these
};

std::vector<Case> cases() {
  const auto conv_by = [](ConvOptions options) {
    return [options](const Tensor& x, const Tensor& w, const Sums& sums) {
      ConvOptions with = options;
      with.sums = sums;
      return conv(x, w, with);
    };
  };
  const auto turned = [](bool trans_a, bool trans_b) {
    return [=](const Tensor& a, const Tensor& b, const Sums& sums) {
      return matmul(a, b, {.trans_a = trans_a, .trans_b = trans_b, .sums = sums});
    };
  };
  const auto product = turned(false, false);
  return {
      {"matrices", product, {130, 96}, {96, 72}},
      {"ragged", product, {37, 50}, {50, 19}},
      {"batch", product, {3, 16, 200}, {3, 200, 24}},
      {"parts", product, {16, 9000}, {9000, 40}, 2},
      {"window", conv_by({.pad = {1}}), {2, 40, 9, 7}, {72, 40, 3, 3}},
      {"one_tap", conv_by({}), {3, 64, 7, 7}, {136, 64, 1, 1}, 2},
      {"strided", conv_by({.stride = {2}, .pad = {2}}), {2, 3, 11, 9}, {64, 3, 5, 5}},
      {"groups", conv_by({.pad = {1}, .groups = 2}), {2, 32, 6, 9}, {48, 16, 3, 3}},
      {"dilated", conv_by({.pad = {2}, .dilation = {2}}), {2, 24, 9, 9}, {40, 24, 3, 3}},
      {"wide_matrices", product, {1000, 128}, {128, 776}, 1},
      {"wide_nt", turned(false, true), {896, 72}, {840, 72}, 1},
      {"wide_tn", turned(true, false), {136, 896}, {136, 840}, 1},
      {"wide_tt", turned(true, true), {192, 904}, {840, 192}, 1},
      {"rows_of_8_bytes", turned(true, true), {192, 900}, {840, 192}, 1, 1},
      {"wide_parts", turned(true, true), {4168, 768}, {1024, 4168}, 3},
      {"channels_of_input", conv_by({.pad = {2, 1}, .dilation = {2, 1}}), {2, 40, 9, 7}, {64, 40, 3, 3}, 1},
      {"input_in_parts", conv_by({.pad = {1}}), {2, 24, 5, 5}, {512, 24, 3, 3}, 1},
      {"groups_of_64", conv_by({.pad = {1}, .groups = 2}), {2, 128, 6, 9}, {48, 64, 3, 3}, 1},
      {"window_in_parts", conv_by({.pad = {1}}), {2, 512, 5, 5}, {72, 512, 3, 3}, 1},
      {"long_filter_gradient", conv_by({.pad = {1}}), {3, 8, 48, 48}, {16, 8, 3, 3}},
  };
}

struct Accumulator {
  const char* format;
  int every;
};
constexpr Accumulator kAccumulators[] = {{"f16", 16}, {"e5m10", 64}, {"e6m7", 32}, {"e4m3", 16}};

/// The result and both gradients.
std::vector<Tensor> roles(const Case& of, const Accumulator& by, const Tensor& a, const Tensor& b) {
  const Tensor y = of.product(a, b, sums_in(format_named(by.format), by.every));
  std::vector<Tensor> all{y};
  for (const Tensor& each : gradients(sum(y * whole_numbers(y.shape(), 3, 4)), {a, b})) all.push_back(each);
  return all;
}

Plan lowered(const Case& of, const Accumulator& by, PrecisionPolicy policy, Backend& backend) {
  const auto input = [](const char* name, const Shape& shape) {
    return Tensor::make(Input{.name = name}, {}, shape, Dtype::f32);
  };
  return make_plan(prepare({.outputs = roles(of, by, input("a", of.a), input("b", of.b))}, policy), backend);
}

TEST(CudaRoundedSums, EveryProductHasATile) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaPlansBackend backend(architecture);
    for (const Case& of : cases())
      for (const Accumulator& by : kAccumulators)
        for (const PrecisionPolicy policy : {PrecisionPolicy::ieee, PrecisionPolicy::fp16, PrecisionPolicy::tf32}) {
          const Plan plan = lowered(of, by, policy, backend);
          for (const Kernel& kernel : plan.kernels) {
            if (!kernel.head || !std::holds_alternative<RoundedProduct>(kernel.head->op)) continue;
            EXPECT_FALSE(cuda::product_algorithms(plan, kernel, backend.chip()).empty()) << of.name;
          }
        }
  }
}

TEST(CudaRoundedSums, TilesCompileWithoutSpills) {
  constexpr int kSpilledBytes = 32;  // of images that are read half by half, which fill registers on their way
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaPlansBackend backend(architecture);
    CudaPrograms programs;
    std::size_t turn = 0;
    for (const Case& of : cases())
      for (const PrecisionPolicy policy : {PrecisionPolicy::ieee, PrecisionPolicy::fp16, PrecisionPolicy::tf32}) {
        const Plan plan = lowered(of, kAccumulators[turn++ % 4], policy, backend);
        for (const Group& group : plan.groups) {
          const Kernel& kernel = plan.kernels[static_cast<std::size_t>(group.members.front())];
          if (!kernel.head || !std::holds_alternative<RoundedProduct>(kernel.head->op)) continue;
          const int every = group.implementation->name() == "gemm" ? 29 : 5;
          for (const auto& algorithm : cuda::generate(plan, group, backend.chip()).algorithms) {
            if (turn++ % every != 0) continue;
            const cuda::KernelCode code = cuda::generate(plan, group, backend.chip(), algorithm.name);
            programs.add(code, form_of(code), of.name + " " + algorithm.name, kSpilledBytes);
          }
        }
      }
    programs.expect_compile(architecture);
  }
}

// No other family takes a product whose sums are rounded, and no rewrite.
TEST(CudaRoundedSums, EveryOneIsItsOwnKernel) {
  CudaPlansBackend backend("sm_90a");
  for (const Case& of : cases())
    for (const PrecisionPolicy policy : {PrecisionPolicy::fp32, PrecisionPolicy::fp16}) {
      const Plan plan = lowered(of, kAccumulators[0], policy, backend);
      std::map<std::string, int> families;
      int copies = 0;
      for (const Group& group : plan.groups) {
        const Kernel& kernel = plan.kernels[static_cast<std::size_t>(group.members.front())];
        copies += kernel.label == "pack operand, terms inside";
        if (kernel.head && std::holds_alternative<RoundedProduct>(kernel.head->op))
          ++families[std::string(group.implementation->name())];
      }
      const int by_wgmma = policy == PrecisionPolicy::fp16 ? of.by_wgmma : 0;
      EXPECT_EQ(families["conv_fprop_sm90"], by_wgmma) << of.name;
      EXPECT_EQ(families["gemm"], 3 - by_wgmma) << of.name;
      EXPECT_EQ(copies, policy == PrecisionPolicy::fp16 ? of.copies : 0) << of.name;
    }
}

void expect_bits(const Case& of, const Accumulator& by, PrecisionPolicy policy, double most) {
  const auto cuda = cuda_or_null(), cpu = std::shared_ptr<Backend>(make_cpu_backend());
  const auto run = [&](const std::shared_ptr<Backend>& backend) {
    Step step(
        *backend,
        [&](const Inputs& in) {
          Outputs outputs;
          int role = 0;
          for (const Tensor& each : roles(of, by, in["a"], in["b"])) outputs[std::to_string(role++)] = each;
          return outputs;
        },
        policy);
    std::vector<std::vector<float>> found;
    for (const auto& [name, value] : step({{"a", evaluate(whole_numbers(of.a, 1, most), *cpu).array()},
                                           {"b", evaluate(whole_numbers(of.b, 2, most), *cpu).array()}}))
      found.push_back(value.to_vector<float>());
    return found;
  };
  EXPECT_EQ(run(cuda), run(cpu)) << of.name << " " << by.format << " every " << by.every;
}

// In f32 terms are multiplied and added in order, so any numbers do; tensor cores add those of a group at once.
TEST(CudaRoundedSums, HaveTheBitsOfTheCpu) {
  if (!cuda_or_null()) GTEST_SKIP() << "no GPU";
  for (const Case& of : cases())
    for (const Accumulator& by : kAccumulators)
      for (const PrecisionPolicy policy : {PrecisionPolicy::fp32, PrecisionPolicy::fp16})
        expect_bits(of, by, policy, 15);
}

TEST(CudaRoundedSums, EveryTileHasTheBitsOfTheCpu) {
  if (!cuda_or_null()) GTEST_SKIP() << "no GPU";
  const cuda::Chip chip = chip_of_device();
  const std::string device = cuda::Device::open(0)->name();
  for (const Case& of : cases()) {
    std::map<std::string, cuda::TuningDatabase> tables;
    const Plan plan = lowered(of, kAccumulators[2], PrecisionPolicy::fp16, *cuda_or_null());
    for (const Group& group : plan.groups) {
      const cuda::KernelCode code = cuda::generate(plan, group, chip);
      for (const cuda::Algorithm& algorithm : code.algorithms)
        tables[algorithm.name].keep({.device = device, .operation = code.operation, .algorithm = algorithm.name});
    }
    EXPECT_GE(tables.size(), 2U) << of.name;
    for (const auto& [name, table] : tables) {
      SCOPED_TRACE(name);
      const CompiledBy compiled_by(table);
      expect_bits(of, kAccumulators[2], PrecisionPolicy::fp16, 7);
    }
  }
}

}  // namespace
}  // namespace nixie
#endif
