// The precision pass: which values are halves, and that training in them works.
#include "nixie/core/passes/precision.h"

#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

// A convolutional net with everything the pass has a rule for: batch norm, pooling, a linear layer, momentum.
struct Net {
  Parameters p{3}, state;
  Variable w = p.make("w", {8, 3, 3, 3}, {}), b = p.make("b", {8}), gamma = p.make("gamma", {8}),
           fc = p.make("fc", {5, 8 * 4 * 4}), running = p.state("running", {8}),
           momentum = state.state("momentum", {8, 3, 3, 3});

  explicit Net() {
    for (const Variable& v : p.all())
      v.set(Tensor(random_array(v.shape(), -0.3, 0.3, 1 + static_cast<unsigned>(v.shape().size())).to(Dtype::f32)));
    gamma.set(1.0);
  }
  Tensor loss(const Tensor& x, const Tensor& labels) {
    auto wide = [](const Tensor& v) { return reshape(v, {1, 8, 1, 1}); };
    const Tensor y = conv(x, w, {.pad = {1}}) + wide(b);
    const Tensor m = mean(y, {0, 2, 3}), var = variance(y, {0, 2, 3});
    running.set(0.9f * running + 0.1f * reshape(m, {8}));
    const Tensor h = max_pool(relu((y - m) * rsqrt(var + 1e-5) * wide(gamma)), {.window = {2}});
    const Tensor logits = matmul(reshape(h, {x.shape()[0], 8 * 4 * 4}), fc, {.trans_b = true});
    const Tensor logp = log_softmax(logits, {1});
    return -mean(sum(logp * one_hot(labels, 5), {1}), {0, 1});
  }
  Outputs step(const Inputs& in) {
    const Tensor value = loss(in["x"], in["labels"]);
    const std::vector<Gradient> grads = gradients(value, p);
    for (const Gradient& g : grads) {
      if (g.parameter == w) {
        const Tensor v = 0.9f * momentum + g.value;
        momentum.set(v);
        w.set(w - 0.1f * v);
      } else {
        g.parameter.set(g.parameter - 0.1f * g.value);
      }
    }
    return {{"loss", value}};
  }
};

std::map<std::string, Tensor> batch(unsigned seed) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 16; ++i) labels.push_back(i % 5);
  Array x = random_array({16, 3, 8, 8}, 0, 1, seed).to(Dtype::f32);
  // The class is where the image is bright.
  for (std::int64_t i = 0; i < 16; ++i)
    for (std::int64_t j = 0; j < 24; ++j) x.data<float>()[static_cast<std::size_t>(i * 192 + (i % 5) * 24 + j)] += 1;
  return {{"x", x}, {"labels", Array::from(labels, {16})}};
}

Slot slot_named(const Plan& plan, const std::string& name, int nth = 0) {
  for (const Slot& slot : plan.slots)
    if (slot.name == name && nth-- == 0) return slot;
  fail(Fault::usage, "the plan has no slot ", name, "\n", to_string(plan));
}

TEST(Precision, NamesGoBothWaysAndAWrongOneIsNamed) {
  for (int i = 0; i <= static_cast<int>(PrecisionPolicy::fp16_pure); ++i) {
    const auto precision = static_cast<PrecisionPolicy>(i);
    EXPECT_EQ(precision_named(to_string(precision)), precision);
  }
  EXPECT_FAULT(usage, "precision is \"fp8\", expected one of ieee, fp32, tf32, fp16", precision_named("fp8"));
}

TEST(Precision, ActivationsAreHalvesAndStateIsNot) {
  for (const auto& [precision, half] :
       {std::pair{PrecisionPolicy::fp16, Dtype::f16}, {PrecisionPolicy::bf16, Dtype::bf16}}) {
    Net net;
    Step step(
        cpu(), [&](const Inputs& in) { return net.step(in); }, precision);
    const Plan& plan = step.plan(batch(1));
    for (const char* name : {"w", "b", "gamma", "fc", "running", "momentum", "output"})
      EXPECT_EQ(slot_named(plan, name).dtype, Dtype::f32) << name;
    for (const char* name : {"w", "fc"}) {
      const Slot shadow = slot_named(plan, fmt::format("{} ({})", name, half));
      EXPECT_EQ(shadow.dtype, half);
      EXPECT_TRUE(shadow.external);
    }
    // Whatever is as large as an image is stored in halves; small statistics stay f32.
    for (const Slot& slot : plan.slots) {
      if (slot.external || !is_floating(slot.dtype)) continue;
      EXPECT_EQ(slot.dtype, slot.shape.size() >= 16 * 8 * 4 * 4 ? half : slot.dtype) << slot.name << "\n"
                                                                                     << to_string(plan);
    }
    // Every product multiplies halves.
    for (const Kernel& kernel : plan.kernels) {
      if (!kernel.head || std::holds_alternative<Pool>(kernel.head->op)) continue;
      for (const Operand& operand : kernel.head->operands)
        EXPECT_EQ(plan.slots[static_cast<std::size_t>(operand.slot)].dtype, half) << kernel.label;
    }
  }
}

TEST(Precision, UpdatesOfMasterAndShadowAreOneKernel) {
  // Counted before a backend lowers the plan: it may split a product from its update.
  const auto kernels = [](PrecisionPolicy precision) {
    Net net;
    const std::shared_ptr<Backend> backend = make_backend("cpu");
    Step step(
        *backend, [&](const Inputs& in) { return net.step(in); }, precision);
    return step.plan(batch(1)).kernels.size();
  };
  // The one kernel more makes the batch half.
  EXPECT_EQ(kernels(PrecisionPolicy::fp16), kernels(PrecisionPolicy::fp32) + 1);
}

TEST(Precision, OtherPoliciesAndTypesAreLeftAlone) {
  const Tensor x = Array(Dtype::f64, {4, 3}), w = Array(Dtype::f64, {3, 2});
  const Graph doubles = simplify({.outputs = {matmul(relu(x), w)}});
  EXPECT_EQ(signature(apply_precision(doubles, PrecisionPolicy::fp16)), signature(doubles));
  const Tensor a = Array(Dtype::f32, {4, 3}), b = Array(Dtype::f32, {3, 2});
  const Graph floats = simplify({.outputs = {matmul(relu(a), b)}});
  EXPECT_EQ(signature(apply_precision(floats, PrecisionPolicy::ieee)), signature(floats));
}

TEST(Precision, PoliciesOfFloatsMarkProductsAndChangeNothingElse) {
  const Tensor a = Array(Dtype::f32, {4, 3}), b = Array(Dtype::f32, {3, 2});
  const Graph floats = simplify({.outputs = {matmul(relu(a), b)}});
  for (const auto& [precision, math] :
       {std::pair(PrecisionPolicy::fp32, Math::fp32), std::pair(PrecisionPolicy::tf32, Math::tf32)}) {
    const Graph graph = apply_precision(floats, precision);
    const Node &marked = graph.outputs[0].node(), &before = floats.outputs[0].node();
    ASSERT_TRUE(std::holds_alternative<Matmul>(marked.op));
    EXPECT_EQ(std::get<Matmul>(marked.op).math, math);
    EXPECT_EQ(std::get<Matmul>(before.op).math, Math::ieee);
    EXPECT_EQ(marked.dtype, before.dtype);
    for (std::size_t i : {0u, 1u})
      EXPECT_EQ(signature({.outputs = {marked.inputs[i]}}), signature({.outputs = {before.inputs[i]}}));
  }
}

TEST(Precision, OneStepIsThatOfF32WithinTheRoundingOfHalves) {
  struct Row {
    PrecisionPolicy precision;
    double tolerance;
  };
  for (const Row& row : {Row{PrecisionPolicy::fp16, 0x1p-9}, Row{PrecisionPolicy::bf16, 0x1p-6}}) {
    Net exact, rounded;
    Step full(cpu(), [&](const Inputs& in) { return exact.step(in); });
    Step half(
        cpu(), [&](const Inputs& in) { return rounded.step(in); }, row.precision);
    const double expected = full(batch(2)).at("loss").item(), actual = half(batch(2)).at("loss").item();
    EXPECT_NE(actual, expected) << "nothing was rounded";
    EXPECT_NEAR(actual, expected, row.tolerance * expected);
    for (std::size_t i = 0; i < exact.p.all().size(); ++i) {
      const std::vector<float> a = exact.p.all()[i].array().to_vector<float>(),
                               b = rounded.p.all()[i].array().to_vector<float>();
      for (std::size_t j = 0; j < a.size(); ++j)
        ASSERT_NEAR(a[j], b[j], row.tolerance) << exact.p.all()[i].name() << " at " << j;
    }
  }
}

TEST(Precision, TrainingInHalvesFollowsF32) {
  for (PrecisionPolicy precision : {PrecisionPolicy::fp16, PrecisionPolicy::bf16}) {
    Net exact, rounded;
    Step full(cpu(), [&](const Inputs& in) { return exact.step(in); });
    Step half(
        cpu(), [&](const Inputs& in) { return rounded.step(in); }, precision);
    double first = 0, expected = 0, actual = 0;
    for (unsigned i = 0; i < 30; ++i) {
      expected = full(batch(i)).at("loss").item();
      actual = half(batch(i)).at("loss").item();
      if (i == 0) first = expected;
    }
    EXPECT_LT(expected, 0.5 * first);
    EXPECT_NEAR(actual, expected, 0.05 * first);
  }
}

TEST(Precision, ShadowsFollowTheirMasters) {
  Net net;
  Step train(
      cpu(), [&](const Inputs& in) { return net.step(in); }, PrecisionPolicy::fp16);
  Step plain(cpu(), [&](const Inputs& in) { return net.step(in); });
  Step eval(
      cpu(),
      [&](const Inputs& in) {
        return Outputs{{"loss", net.loss(in["x"], in["labels"])}};
      },
      PrecisionPolicy::fp16);
  auto loss = [&] {
    Step fresh(cpu(), [&](const Inputs& in) { return Outputs{{"loss", net.loss(in["x"], in["labels"])}}; });
    return fresh(batch(3)).at("loss").item();
  };
  auto expect_up_to_date = [&](const char* when) {
    EXPECT_NEAR(eval(batch(3)).at("loss").item(), loss(), 0x1p-8) << when;
  };
  expect_up_to_date("at first");
  for (unsigned i = 0; i < 5; ++i) train(batch(i));
  expect_up_to_date("after steps that write them");
  for (unsigned i = 0; i < 5; ++i) plain(batch(i));
  expect_up_to_date("after steps that do not know them");
  net.fc.set(0.25);
  expect_up_to_date("after a set from outside");
}

// A Variable that is cast to the policy's halves is there in halves: with the same numbers, in half the bytes.
TEST(Precision, CastsReadShadows) {
  Parameters p(3);
  const Variable w = p.make("w", {5, 4});
  w.set(Tensor(random_array({5, 4}, -1, 1, 1).to(Dtype::f32)));
  const Tensor x = random_array({3, 5}, -1, 1, 2).to(Dtype::f32);
  for (const auto& [policy, half] :
       {std::pair(PrecisionPolicy::fp16, Dtype::f16), {PrecisionPolicy::bf16, Dtype::bf16}}) {
    const auto reads_master = [&](const Tensor& y) {
      for (const Tensor& node : topological(apply_precision(simplify({.outputs = {y}}), policy))) {
        const auto* input = std::get_if<Input>(&node.node().op);
        if (input && input->variable && node.dtype() == Dtype::f32) return true;
      }
      return false;
    };
    {
      const Trace trace;
      const Tensor rounded = sum(cast(Tensor(w), half)), turned = sum(cast(transpose(w), half));
      EXPECT_FALSE(reads_master(sum(matmul(x, w)) + rounded));
      EXPECT_FALSE(reads_master(sum(matmul(x, w)) + turned));
      EXPECT_TRUE(reads_master(rounded + sum(Tensor(w))));
      EXPECT_TRUE(reads_master(sum(cast(Tensor(w), half == Dtype::f16 ? Dtype::bf16 : Dtype::f16))));
    }
    double expected = 0;
    for (const double each : testing::values_of(cast(Tensor(w), half))) expected += each;
    Step step(
        cpu(),
        [&](const Inputs&) {
          return Outputs{{"sum", sum(cast(cast(Tensor(w), half), Dtype::f32))}};
        },
        policy);
    EXPECT_NEAR(step({})["sum"].item(), expected, 1e-2);
  }
}

TEST(Precision, MapsOfHalvesStayWhereTheyFeedTheLoss) {
  // The last product is read by the loss alone and keeps f32; what its gradient becomes is rounded for its products.
  Net net;
  const auto placeholder_of = [](const Shape& shape, Dtype dtype) {
    return Tensor::make(Input{.name = "in"}, {}, shape, dtype);
  };
  Trace trace;
  const Tensor loss = net.loss(placeholder_of({16, 3, 8, 8}, Dtype::f32), placeholder_of({16}, Dtype::i32));
  const Graph graph = apply_precision(simplify({.outputs = {loss}, .sets = trace.sets()}), PrecisionPolicy::fp16);
  for (const Tensor& x : topological(graph)) {
    if (std::holds_alternative<Matmul>(x.node().op)) {
      EXPECT_EQ(x.dtype(), Dtype::f32);
    } else if (std::holds_alternative<Conv>(x.node().op)) {
      EXPECT_EQ(x.dtype(), Dtype::f16);
    }
  }
}

// A benchmark of gradients has the same halves as a step that updates with them.
TEST(Precision, GradientsAsOutputsLeaveActivationsHalves) {
  Net net;
  Step step(
      cpu(),
      [&](const Inputs& in) {
        Outputs outputs;
        for (const Gradient& g : gradients(net.loss(in["x"], in["labels"]), net.p))
          outputs["d." + g.parameter.name()] = g.value;
        return outputs;
      },
      PrecisionPolicy::fp16);
  const Plan& plan = step.plan(batch(1));
  for (const Slot& slot : plan.slots)
    if (is_floating(slot.dtype) && !slot.external) {
      const bool as_large_as_an_image = slot.shape.size() >= 16 * 8 * 4 * 4;
      EXPECT_EQ(slot.dtype, as_large_as_an_image ? Dtype::f16 : slot.dtype) << slot.name << "\n" << to_string(plan);
    }
  const Outputs found = step(batch(1));
  for (const auto& [name, gradient] : found) EXPECT_EQ(gradient.dtype(), Dtype::f32) << name;
}

}  // namespace
}  // namespace nixie
