// The tables that are built in: their lines are of kernels that nets have, and name algorithms that compile.
#ifdef NIXIE_WITH_CUDA

#include "nixie/backends/cuda/compile/embedded_files.h"
#include "nixie/backends/cuda/tune/tuning_tables.h"
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/loss.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/compiler_log.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

cuda::TuningDatabase shipped() {
  cuda::TuningDatabase table;
  for (const cuda::EmbeddedFile& file : cuda::embedded_tuning()) table.read(file.text, file.name);
  return table;
}

// A training step in fp16 of the benchmark's AlexNet.
Plan training_step(Backend& backend) {
  const Shape input{128, 3, 224, 224};
  const Model model(Alexnet{.dropout = 0}, input, 0, Dtype::f32);
  const Optimizer optimizer(model.parameters(),
                            {.rule = Sgd{.momentum = 0.9, .weight_decay = 5e-4}, .schedule = ConstantRate{}});
  Trace trace;
  Pass pass{.step = Tensor::make(Input{.name = "step"}, {}, {}, Dtype::i32)};
  const Tensor images = Tensor::make(Input{.name = "images"}, {}, input, Dtype::f16),
               labels = Tensor::make(Input{.name = "labels"}, {}, {input[0]}, Dtype::i32);
  const Tensor loss = CrossEntropy{}(model(images, pass), labels);
  optimizer.update(gradients(loss, model.parameters().trainable()));
  const Graph graph = apply_precision(simplify({.outputs = {loss}, .sets = trace.sets()}), PrecisionPolicy::fp16);
  return make_plan(graph, backend);
}

TEST(ShippedTuning, KnowsTheConvolutionsOfAlexnetAndNamesAlgorithmsThatCompile) {
  CudaPlansBackend backend("sm_90a");
  const Plan plan = training_step(backend);
  const cuda::TuningDatabase table = shipped();
  std::set<std::string> known;
  std::vector<std::string> sources;
  for (const Group& group : plan.groups) {
    if (cuda::blas_problem(group)) continue;
    const cuda::KernelCode code = cuda::generate_known(plan, group, backend.chip(), "NVIDIA H200", table);
    if (code.operation.empty() || !table.find("NVIDIA H200", code.operation)) continue;
    known.insert(code.operation);
    sources.push_back(code.source);
  }
  // The input gradients of layers 2 and 3 read the gate of a pooling now, which they did not when they were measured.
  EXPECT_EQ(known.size(), 10u) << "layers 2 to 5 in three roles: measure again where kernels changed";
  for (const cuda::Cubin& cubin : cuda::compile_sources(sources, "sm_90a"))
    EXPECT_EQ(cuda::complaints(cubin.log, 64), "");
}

TEST(ShippedTuning, NamesTheTimeOfTheEstimateBesideAFasterOne) {
  std::istringstream lines(shipped().text());
  int count = 0;
  for (std::string text; std::getline(lines, text);) {
    if (text[0] == '#') continue;
    cuda::TuningDatabase one;
    one.read(text, "line");
    const std::size_t first = text.find('\t'), second = text.find('\t', first + 1);
    const cuda::Tuned* line = one.find(text.substr(0, first), text.substr(first + 1, second - first - 1));
    ASSERT_TRUE(line) << text;
    if (line->algorithm == line->estimated_algorithm)
      EXPECT_EQ(line->microseconds, line->estimated_microseconds) << text;
    else
      EXPECT_LT(line->microseconds, line->estimated_microseconds) << text;
    ++count;
  }
  EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace nixie
#endif
