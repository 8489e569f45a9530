// Forms of convolutions of one and three spatial axes: values and gradients are those of the convolution itself, on a
// backend that prefers two axes, and the ops around them are computed as images, too.
#include "nixie/core/rewrites/conv_forms.h"

#include <algorithm>

#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using testing::cpu;
using testing::random_array;

int heads_over(const Plan& plan, bool two_axes) {
  int heads = 0;
  for (const Kernel& kernel : plan.kernels) heads += kernel.head && (kernel.domain.rank() == 4) == two_axes;
  return heads;
}

// The backend under test, which computes heads of two spatial axes in no time.
class TwoAxes : public ForwardingBackend {
 public:
  TwoAxes() : ForwardingBackend({std::shared_ptr<void>(), &cpu()}) {}
  std::string name() const override { return "two axes"; }
  Target target() const override {
    return {.channels_last = true, .seconds = [](const Plan& plan) { return heads_over(plan, false); }};
  }
};

Tensor numbers(const Shape& shape, unsigned seed) { return random_array(shape, -1, 1, seed).to(Dtype::f64); }

void expect_near(const Tensor& found, const Tensor& expected, const std::string& what) {
  const std::vector<double> a = found.to_vector<double>(), b = expected.to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-12 * std::max(1.0, std::abs(b[i]))) << what << " " << i;
}

struct Case {
  std::string name;
  Shape x, w;
  ConvOptions options;
};

// Windows of one plane, of one column, of many; strides, dilations and paddings along the depth; groups; odd channels.
std::vector<Case> cases() {
  return {
      {"3x3x3", {2, 8, 5, 6, 7}, {6, 8, 3, 3, 3}, {.pad = {1}}},
      {"unpadded", {2, 4, 5, 6, 7}, {6, 4, 2, 3, 1}, {.stride = {1, 2, 1}, .pad = {0, 1, 0}}},
      {"one_plane", {2, 3, 5, 6, 7}, {4, 3, 1, 3, 3}, {.stride = {1, 2, 1}, .pad = {0, 1, 1}}},
      {"one_column", {2, 3, 5, 6, 7}, {4, 3, 3, 1, 1}, {.stride = {2, 1, 1}, .pad = {1, 0, 0}}},
      {"1x1x1", {2, 3, 4, 3, 5}, {4, 3, 1, 1, 1}, {}},
      {"every_other_plane", {2, 3, 5, 3, 5}, {4, 3, 1, 3, 3}, {.stride = {2, 1, 1}}},
      {"odd_channels", {1, 3, 4, 5, 6}, {5, 3, 3, 3, 3}, {.pad = {1}}},
      {"dilated", {2, 4, 9, 6, 6}, {4, 4, 3, 3, 3}, {.pad = {2, 2, 1}, .dilation = {2, 2, 1}}},
      {"strided", {2, 4, 9, 6, 7}, {4, 4, 3, 3, 3}, {.stride = {2}, .pad = {1}}},
      {"strided_and_dilated", {2, 4, 11, 6, 7}, {4, 4, 3, 3, 3}, {.stride = {2}, .pad = {2}, .dilation = {2}}},
      {"wide_stride", {1, 4, 7, 3, 3}, {4, 4, 2, 2, 2}, {.stride = {3, 1, 1}}},
      {"wide_pad", {1, 2, 2, 4, 4}, {3, 2, 3, 2, 2}, {.pad = {3, 0, 0}}},
      {"groups", {2, 6, 4, 5, 5}, {4, 3, 3, 3, 3}, {.pad = {1}, .groups = 2}},
      {"depthwise", {2, 6, 4, 5, 5}, {6, 1, 3, 3, 3}, {.pad = {1}, .groups = 6}},
      {"signal", {3, 4, 17}, {6, 4, 5}, {.stride = {2}, .pad = {3}, .dilation = {2}}},
      {"signal_in_groups", {3, 4, 17}, {6, 2, 3}, {.pad = {1}, .groups = 2}},
      {"signal_of_one_element", {3, 4, 1}, {6, 4, 1}, {}},
  };
}

class ConvForms : public ::testing::TestWithParam<Case> {
 protected:
  // A convolution with a bias and a ReLU, the step of its filters, and the gradient of its images.
  Step::Body body(Variable& w) const {
    return [this, &w](const Inputs& in) {
      const Case& c = GetParam();
      std::vector<std::int64_t> bias(static_cast<std::size_t>(c.x.rank()), 1);
      bias[1] = c.w[0];
      const Tensor y = relu(conv(in["x"], w, c.options) + numbers(Shape(bias), 3));
      const std::vector<Tensor> g = gradients(sum(square(y)), {in["x"], Tensor(w)});
      w.set(w - 0.1 * g[1]);
      return Outputs{{"y", y}, {"dx", g[0] * 2}, {"dw", g[1]}};
    };
  }
};

TEST_P(ConvForms, AreTheConvolution) {
  const Case& c = GetParam();
  TwoAxes two_axes;
  Variable w("w", numbers(c.w, 2).array()), same("w", numbers(c.w, 2).array());
  Step as_it_is(cpu(), body(w)), in_forms(two_axes, body(same));
  const std::map<std::string, Tensor> inputs{{"x", numbers(c.x, 1)}};
  EXPECT_EQ(heads_over(in_forms.plan(inputs), false), 0);
  const Outputs expected = as_it_is(inputs), found = in_forms(inputs);
  for (const auto& [name, value] : expected) expect_near(found.at(name), value, name);
  expect_near(evaluate(same * 1, two_axes), evaluate(w * 1, cpu()), "the set filters");
}

// Where copied planes are to take no memory, images are computed one by one.
TEST_P(ConvForms, AreTheConvolutionInParts) {
  const Case& c = GetParam();
  const Tensor x = numbers(c.x, 1), w = numbers(c.w, 2), y = conv(x, w, c.options);
  std::vector<Tensor> values = gradients(sum(square(y)), {x, w});
  values.push_back(y);
  const TwoAxes two_axes;
  const Graph graph = choose_conv_forms({.outputs = values}, two_axes.target(), 1);
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::get<Input>(a.node().op).storage == std::get<Input>(b.node().op).storage;
  };
  EXPECT_TRUE(std::ranges::equal(leaves_of(graph), leaves_of({.outputs = values}), same)) << "leaves in order";
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(has_variable_layout(graph.outputs[i]), has_variable_layout(values[i])) << i;
    expect_near(evaluate(graph.outputs[i], cpu()), evaluate(values[i], cpu()), std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, ConvForms, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// Normalisation, dropout, pooling, slices and concats of volumes and signals are ops on images.
TEST(ConvFormsOfNets, TakeOpsAlong) {
  struct Net {
    Shape x, w, v;
    std::vector<int> window, pad;
  };
  const Net nets[] = {{{2, 3, 4, 6, 6}, {4, 3, 3, 3, 3}, {2, 8, 1, 3, 3}, {1, 2, 2}, {1}},
                      {{2, 3, 20}, {4, 3, 3}, {2, 8, 3}, {2}, {1}}};
  for (const Net& net : nets) {
    Variable w("w", numbers(net.w, 2).array()), v("v", numbers(net.v, 3).array());
    const auto body = [&](const Inputs& in) {
      Axes axes;
      for (int axis = 0; axis < net.x.rank(); ++axis)
        if (axis != 1) axes.push_back(axis);
      const Tensor y = relu(standardize(conv(in["x"], w, {.pad = net.pad}), axes, 1e-5f)),
                   kept = y * bernoulli(y.shape(), 0.5, 7),
                   pooled = max_pool(concat({kept, y * 2}, 1), {.window = net.window, .stride = net.window});
      const Tensor z = conv(pooled, v), loss = sum(square(z));
      const auto g = gradients(loss, std::vector<Variable>{w, v});
      return Outputs{{"z", z}, {"dw", g[0].value}, {"dv", g[1].value}};
    };
    TwoAxes two_axes;
    Step as_it_is(cpu(), body), in_forms(two_axes, body);
    const std::map<std::string, Tensor> inputs{{"x", numbers(net.x, 1)}};
    const Plan& plan = in_forms.plan(inputs);
    EXPECT_EQ(heads_over(plan, false), 0) << net.x;
    const Outputs expected = as_it_is(inputs), found = in_forms(inputs);
    for (const auto& [name, value] : expected) expect_near(found.at(name), value, name);
    for (const Kernel& kernel : plan.kernels)
      if (!kernel.reduced.empty() && kernel.domain.rank() > 1) {
        EXPECT_EQ(kernel.domain.rank(), 4) << kernel.label;
      }
  }
}

// Where products take long, few filters of one pixel are sums; others, and those with a stride or a border, are not.
TEST(ConvFormsOfNets, FewFiltersAreSums) {
  struct Row {
    Shape w;
    ConvOptions options;
    bool is_sums;
  };
  const Target target{.channels_last = true, .seconds = [](const Plan& plan) { return heads_over(plan, true); }};
  for (const Row& row : {Row{{1, 5, 1, 1}, {}, true}, Row{{4, 5, 1, 1}, {}, true}, Row{{5, 5, 1, 1}, {}, false},
                         Row{{2, 5, 1, 1}, {.stride = {2}}, false}, Row{{2, 5, 1, 1}, {.pad = {1}}, false},
                         Row{{2, 5, 1, 2}, {}, false}}) {
    const Tensor x = numbers({3, 5, 6, 7}, 1), w = numbers(row.w, 2), y = conv(x, w, row.options);
    std::vector<Tensor> values = gradients(sum(square(y)), {x, w});
    values.push_back(relu(y));
    const Graph graph = choose_conv_forms({.outputs = values}, target);
    EXPECT_EQ(graph.outputs[2].id() != values[2].id(), row.is_sums) << row.w;
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_near(evaluate(graph.outputs[i], cpu()), evaluate(values[i], cpu()), std::to_string(i));
  }
}

// Without an estimate, or with one that prefers what is there, a graph stays as it is.
TEST(ConvFormsOfNets, StayWhereTheyAreNotCheaper) {
  const Tensor y = conv(numbers({2, 3, 4, 6, 6}, 1), numbers({4, 3, 3, 3, 3}, 2));
  const Graph graph{.outputs = {y}};
  for (const Target& target : {Target{}, Target{.seconds = [](const Plan&) { return 1.0; }}})
    EXPECT_EQ(choose_conv_forms(graph, target).outputs[0].id(), y.id());
}

}  // namespace
}  // namespace nixie
