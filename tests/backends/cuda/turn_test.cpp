// Copies of matrices into the other order: which are turned in tiles, that they compile, and their bits on a GPU.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <functional>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"

namespace nixie {
namespace {

using Copied = std::function<Tensor(const Tensor&)>;

struct Case {
  std::string name;
  Shape shape;
  Copied copied;
  std::vector<Dtype> dtypes;
  bool turns = true;
};

const std::vector<Dtype> kBytes{Dtype::u8, Dtype::f8e4m3}, kHalves{Dtype::f16, Dtype::bf16},
    kWords{Dtype::f32, Dtype::i32}, kAll{Dtype::u8, Dtype::f8e5m2, Dtype::f16, Dtype::i32};

std::vector<Case> cases() {
  const auto permuted = [](Axes order) { return [order](const Tensor& x) { return permute(x, order); }; };
  const auto turned = permuted({1, 0});
  return {
      {"whole tiles", {512, 256}, turned, kAll},
      {"pieces", {272, 496}, turned, kAll},
      {"pairs and fours", {346, 252}, turned, kAll},
      {"odd", {351, 247}, turned, kAll},
      {"odd rows", {333, 256}, turned, kHalves},
      {"one row of tiles", {70, 2001}, turned, kHalves},
      {"batch", {3, 296, 200}, permuted({0, 2, 1}), kAll},
      {"odd batch", {5, 211, 107}, permuted({0, 2, 1}), kAll},
      {"batches of two axes", {2, 3, 136, 96}, permuted({1, 0, 3, 2}), kHalves},
      {"channels last", {4, 96, 14, 14}, permuted({0, 2, 3, 1}), kHalves},
      {"channels last, odd", {9, 200, 7, 7}, permuted({0, 2, 3, 1}), kHalves},
      {"channels first", {4, 14, 14, 96}, permuted({0, 3, 1, 2}), kWords},
      {"a part",
       {300, 512},
       [](const Tensor& x) {
         return transpose(slice(x, {Index::all(), Index::range(3, 480)}));
       },
       kAll},
      {"every other row",
       {600, 256},
       [](const Tensor& x) { return transpose(slice(x, {Index::range(0, 600, 2)})); },
       kBytes},
      {"repeated",
       {256, 192},
       [](const Tensor& x) {
         return transpose(broadcast_to(x, {3, 256, 192}), 1, 2);
       },
       kHalves},
      {"few elements", {100, 100}, turned, kHalves, false},
      {"few columns", {65536, 9}, turned, kHalves, false},
      {"doubles", {512, 256}, turned, {Dtype::f64}, false},
      {"mirrored", {512, 256}, [](const Tensor& x) { return transpose(flip(x, {0})); }, kHalves, false},
  };
}

Tensor numbers(const Shape& shape, Dtype dtype) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 131 + i / 251 * 7);
  return evaluate(cast(Tensor(Array::from(bytes, shape)), dtype), *make_cpu_backend());
}

void for_each_case(const std::function<void(const Case&, Dtype)>& check) {
  for (const Case& of : cases())
    for (const Dtype dtype : of.dtypes) {
      SCOPED_TRACE(fmt::format("{} of {}", of.name, dtype));
      check(of, dtype);
    }
}

TEST(CudaTurn, TurnsTheseAndCompiles) {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaPlansBackend backend(architecture);
    CudaPrograms programs;
    for_each_case([&](const Case& of, Dtype dtype) {
      const Tensor x = Tensor::make(Input{.name = "x"}, {}, of.shape, dtype);
      const Plan plan = make_plan({.outputs = {of.copied(x)}}, backend);
      ASSERT_EQ(plan.groups.size(), 1U);
      const cuda::KernelCode code = cuda::generate(plan, plan.groups[0], backend.chip());
      EXPECT_EQ(code.variant, of.turns ? "turn" : "map");
      programs.add(code, form_of(code), of.name);
    });
    programs.one_of_each_form().expect_compile(architecture);
  }
}

TEST(CudaTurn, HasTheElementsOfTheCpu) {
  const auto cuda = cuda_or_null(), cpu = std::shared_ptr<Backend>(make_cpu_backend());
  if (!cuda) GTEST_SKIP() << "no GPU";
  for_each_case([&](const Case& of, Dtype dtype) {
    const Tensor copy = of.copied(numbers(of.shape, dtype));
    EXPECT_EQ(evaluate(copy, *cuda).to_vector<float>(), evaluate(copy, *cpu).to_vector<float>());
  });
}

// Small copies of different sizes in one launch.
TEST(CudaTurn, SharesLaunches) {
  const auto copies = [](const std::function<Tensor(const Shape&)>& input) {
    std::vector<Tensor> all;
    for (const Shape& shape : {Shape{320, 256}, {400, 328}, {2, 256, 296}})
      all.push_back(transpose(input(shape), -1, -2));
    return all;
  };
  CudaPlansBackend backend("sm_90a");
  const Plan plan = make_plan({.outputs = copies([](const Shape& shape) {
                                 return Tensor::make(Input{.name = "x" + to_string(shape)}, {}, shape, Dtype::f16);
                               })},
                              backend);
  EXPECT_EQ(cuda::generate(plan, plan.groups[0], backend.chip()).variant, "turn x 2");
  CudaPrograms programs;
  programs.add(plan, backend.chip(), "copies");
  programs.expect_compile("sm_90a");
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const std::vector<Tensor> values = copies([](const Shape& shape) { return numbers(shape, Dtype::f16); });
  const std::vector<Tensor> found = evaluate(values, *cuda), expected = evaluate(values, *make_cpu_backend());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(found[i].to_vector<float>(), expected[i].to_vector<float>());
}

}  // namespace
}  // namespace nixie
#endif
