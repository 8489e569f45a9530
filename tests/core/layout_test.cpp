// Layout: a backend that wants channels last gets them, and nobody outside it can tell.
#include "nixie/core/passes/layout.h"

#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

// The backend under test, asking for channels-last images and Variables.
class ChannelsLast : public ForwardingBackend {
 public:
  ChannelsLast() : ForwardingBackend({std::shared_ptr<void>(), &cpu()}) {}
  std::string name() const override { return "channels last"; }
  Target target() const override { return {.channels_last = true}; }
};

Array filters(unsigned seed) { return random_array({4, 3, 3, 2}, -1, 1, seed).to(Dtype::f32); }

TEST(Layout, StridesOfChannelsLast) {
  EXPECT_EQ((Shape{2, 3, 5, 7}.channels_last()), (Strides{105, 1, 21, 3}));
  EXPECT_EQ((Shape{2, 3, 5}.channels_last()), (Strides{15, 1, 3}));
  EXPECT_EQ((Shape{2, 3, 4, 5, 6}.channels_last()), (Strides{360, 1, 90, 18, 3}));
  EXPECT_EQ((Shape{2, 3}.channels_last()), (Strides{3, 1}));
  EXPECT_EQ((Shape{}.channels_last()), Strides{});
}

TEST(Layout, ImagesFiltersAndWhatIsMadeOfThemLieChannelsLast) {
  Variable w("w", filters(1)), m("m", filters(2));
  ChannelsLast last;
  Step step(last, [&](const Inputs& in) {
    const Tensor y = relu(conv(in["x"], w)), z = concat({y, y * 2}, 1),
                 loss = sum(conv(z, Tensor(Array(Dtype::f32, {1, 8, 1, 1}))));
    const Tensor g = gradients(loss, std::vector<Variable>{w})[0].value;
    m.set(0.5f * m + g);
    w.set(w - m);
    return Outputs{{"z", z}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {2, 3, 6, 6})}});
  int images = 0;
  for (const Slot& slot : plan.slots) {
    const bool given = slot.name == "x" || slot.name == "data" || slot.name == "output";
    if (slot.shape.rank() != 4 || slot.name == "copy") continue;  // a number spread out for a head
    EXPECT_EQ(slot.strides, given ? slot.shape.row_major() : slot.shape.channels_last()) << slot.name;
    images += !given;
  }
  EXPECT_GE(images, 3);
  for (const Kernel& kernel : plan.kernels)  // the gradient has its Variable's layout
    EXPECT_FALSE(kernel.label.starts_with("copy") && kernel.domain == w.shape()) << kernel.label;
}

TEST(Layout, ValuesAreTheSame) {
  struct Run {
    std::vector<double> z, w, m;
  };
  auto run = [](Backend& backend) {
    Variable w("w", filters(1)), m("m", filters(2));
    Step step(backend, [&](const Inputs& in) {
      const Tensor y = max_pool(relu(conv(in["x"], w, {.pad = {1}})), {.window = {2}});
      const Tensor g = gradients(sum(square(concat({y, exp(-y)}, 1))), std::vector<Variable>{w})[0].value;
      m.set(0.5f * m + g);
      w.set(w - 0.01f * m);
      return Outputs{{"z", concat({y, pad(y, {0, 1, 0, 0}, {0, 0, 0, 0})}, 1)}};
    });
    const Tensor x = random_array({2, 3, 6, 6}, -1, 1, 3).to(Dtype::f32);
    step({{"x", x}});
    m.set(evaluate(m * 2, backend));
    const Tensor held = w;  // the step must leave this one alone
    const std::vector<double> before = w.array().to_vector<double>();
    const Outputs out = step({{"x", x}});
    EXPECT_EQ(held.array().to_vector<double>(), before);
    // A Variable as a step's input, and in an expression.
    Step copy(backend, [&](const Inputs& in) { return Outputs{{"y", in["w"] * 1}}; });
    EXPECT_EQ(copy({{"w", w}}).at("y").to_vector<double>(), w.array().to_vector<double>());
    EXPECT_EQ(evaluate(reshape(w, {72}) * 1, backend).to_vector<double>(), w.array().to_vector<double>());
    EXPECT_EQ(evaluate(Tensor(w.array()) * 1, backend).to_vector<double>(), w.array().to_vector<double>());
    return Run{out.at("z").to_vector<double>(), w.array().to_vector<double>(), m.array().to_vector<double>()};
  };
  ChannelsLast last;
  const Run rows = run(cpu()), channels = run(last);
  auto expect_near = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::max(1.0, std::abs(a[i]))) << i;
  };
  expect_near(channels.z, rows.z);
  expect_near(channels.w, rows.w);
  expect_near(channels.m, rows.m);
}

// Groups of channels, repeated pixels, halves of an image and sums over parts of one are as images are; what mixes
// channels with pixels is row-major.
TEST(Layout, GoesThroughViews) {
  Variable w("w", filters(1)), v("v", random_array({4, 4, 1, 2}, -1, 1, 2).to(Dtype::f32));
  const auto body = [&](const Inputs& in) {
    const Tensor y = relu(conv(in["x"], w, {.pad = {1}}));  // [2, 4, 6, 7]
    const Tensor groups = reshape(y, {2, 2, 2, 6, 7});
    const Tensor normal = reshape(standardize(groups, {2, 3, 4}, 1e-5f), y.shape()),
                 shuffled = reshape(transpose(groups, 1, 2), y.shape()),
                 pairs = broadcast_to(reshape(y, {2, 4, 6, 1, 7, 1}), {2, 4, 6, 2, 7, 2}),
                 larger = reshape(pairs, {2, 4, 12, 14}),
                 smaller = reshape(sum(reshape(y, {2, 4, 3, 2, 7}), {3}), {2, 4, 3, 7}),
                 padded = pad(y, {0, 0, 1, 0}, {0, 0, 1, 2});
    Outputs outputs;
    int number = 0;
    for (const Tensor& image : {normal, shuffled, larger, smaller, padded, slice(y, {Index::all(), Index::all(), 0})}) {
      const Tensor z = image.rank() == 4 ? conv(image * 2, v) : image * 2;
      outputs[fmt::format("z{}", number++)] = sum(square(z));
      outputs[fmt::format("z{}", number++)] = gradients(sum(square(z)), std::vector<Variable>{w})[0].value;
    }
    outputs["flat"] = reshape(y, {2, 168}) * 2;
    return outputs;
  };
  ChannelsLast last;
  Step rows(cpu(), body), channels(last, body);
  const std::map<std::string, Tensor> inputs{{"x", random_array({2, 3, 6, 6}, -1, 1, 3).to(Dtype::f32)}};
  int copies = 0;
  for (const Slot& slot : channels.plan(inputs).slots) {
    const bool image = slot.shape.rank() == 4 && slot.shape[1] == 4 && slot.shape[2] * slot.shape[3] > 1;
    if (!slot.external && image && slot.strides != slot.shape.channels_last()) ++copies;
  }
  EXPECT_EQ(copies, 1) << "what is made flat";
  const Outputs expected = rows(inputs), found = channels(inputs);
  for (const auto& [name, values] : expected) {
    const std::vector<double> a = found.at(name).to_vector<double>(), b = values.to_vector<double>();
    double largest = 0;
    for (double value : b) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * largest) << name << " " << i;
  }
}

// Views may bring channels to any axis and back. A concat that a convolution reads has them last even if it is made of
// row-major arrays.
TEST(Layout, FollowsChannelsThroughViews) {
  const auto of = [](Tensor x) {
    const Tensor root = conv(x, Tensor(filters(1)));
    return choose_layout({.outputs = {root}}, {.channels_last = true}).strides(x);
  };
  const Tensor y = conv(Tensor(Array(Dtype::f32, {6, 3, 4, 6})), Tensor(filters(1))),  // [6, 4, 2, 5]
      images = reshape(y, {2, 3, 4, 2, 5}), volumes = permute(images, {0, 2, 1, 3, 4});
  const Layout layout = choose_layout({.outputs = {volumes * 2}}, {.channels_last = true});
  EXPECT_EQ(layout.strides(images), (Strides{120, 40, 1, 20, 4}));
  EXPECT_EQ(layout.strides(volumes), volumes.shape().channels_last());
  const Tensor rows = Array(Dtype::f32, {2, 1, 6, 6}), both = concat({rows, rows, rows}, 1);
  EXPECT_EQ(of(both), both.shape().channels_last());
}

// As outputs they are written as they are made, by whole lines; whoever reads them sees the logical order.
TEST(Layout, GradientsOfFiltersAsOutputsLieAsTheFiltersDo) {
  const auto gradient_of = [](Backend& backend, bool half) {
    Variable w("w", filters(1));
    Step step(backend, [&](const Inputs& in) {
      const Tensor g = gradients(sum(square(conv(in["x"], w, {.pad = {1}}))), std::vector<Variable>{w})[0].value;
      return Outputs{{"g", half ? cast(g, Dtype::f16) : g}};
    });
    const std::map<std::string, Tensor> inputs{{"x", random_array({2, 3, 6, 6}, -1, 1, 3).to(Dtype::f32)}};
    const Tensor g = step(inputs).at("g");
    for (const Slot& slot : step.plan(inputs).slots)
      if (slot.name == "output") {
        const Shape shape{4, 3, 3, 2};
        EXPECT_EQ(slot.strides, backend.target().channels_last ? shape.channels_last() : shape.row_major());
      }
    Step other(backend, [&](const Inputs& in) { return Outputs{{"y", in["g"] * 1}}; });
    EXPECT_EQ(other({{"g", g}}).at("y").to_vector<double>(), g.to_vector<double>());
    EXPECT_EQ(evaluate(reshape(g, {72}) * 1, backend).to_vector<double>(), g.to_vector<double>());
    return g.to_vector<double>();
  };
  for (bool half : {false, true}) {
    ChannelsLast last;
    const std::vector<double> rows = gradient_of(cpu(), half), channels = gradient_of(last, half);
    ASSERT_EQ(rows.size(), channels.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_NEAR(rows[i], channels[i], (half ? 0x1p-9 : 1e-5) * std::max(1.0, std::abs(rows[i]))) << i;
  }
}

// Other libraries give and take images with channels as the last axis of an array: they are views, not copies.
TEST(Layout, ImagesOfOtherLibrariesAreNotCopied) {
  const Axes first = {0, 3, 1, 2}, last = {0, 2, 3, 1};
  Variable w("w", filters(1));
  const auto body = [&](const Inputs& in) {
    const Tensor x = permute(in["x"], first), g = permute(in["g"], first), wide = permute(in["w"], first);
    const Tensor y = conv(x, cast(cast(wide, Dtype::f16), Dtype::f32), {.pad = {1}}), z = relu(y), gate = g * (z > 0);
    return Outputs{{"y", permute(y, last)},
                   {"z", permute(z, last)},
                   {"again", permute(z, last)},
                   {"gate", permute(gate, last)},
                   {"flat", reshape(permute(z * 2, last), {12, 28})},
                   {"parts", permute(concat({exp(z), sin(z)}, 1), last)}};
  };
  ChannelsLast device;
  Step rows(cpu(), body), channels(device, body);
  const std::map<std::string, Tensor> inputs{{"x", random_array({2, 6, 6, 3}, -1, 1, 3).to(Dtype::f32)},
                                             {"g", random_array({2, 6, 7, 4}, -1, 1, 4).to(Dtype::f32)},
                                             {"w", random_array({4, 3, 2, 3}, -1, 1, 5).to(Dtype::f32)}};
  for (const Kernel& kernel : channels.plan(inputs).kernels)
    EXPECT_FALSE(kernel.label.starts_with("copy") && kernel.label != "copy + copy") << kernel.label;
  for (const Slot& slot : channels.plan(inputs).slots)
    if (!slot.external && slot.shape.rank() == 4) {
      EXPECT_EQ(slot.strides, slot.shape.channels_last()) << slot.name;
    }
  const Outputs expected = rows(inputs), found = channels(inputs);
  for (const auto& [name, values] : expected)
    EXPECT_EQ(found.at(name).to_vector<double>(), values.to_vector<double>()) << name;
}

// Reshapes, parts of concats and windows of images, which strides may say in one layout and not in the other.
TEST(Layout, ViewsOfImagesAreTheSameValues) {
  const Tensor x = random_array({2, 3, 6, 6}, -1, 1, 1).to(Dtype::f32), w = filters(2);
  const Tensor flat = random_array({2, 80}, -1, 1, 3).to(Dtype::f32);
  const Tensor y = conv(x, w, {.pad = {0, 0}}), z = max_pool(y, {.window = {2}});  // [2, 4, 4, 5], [2, 4, 2, 2]
  const auto every_second = [](const Tensor& image) {
    return slice(pad(image, {0, 0, 1, 1}, {0, 0, 1, 1}),
                 {Index::all(), Index::all(), Index::range(0, 6, 2), Index::range(1, 6, 2)});
  };
  const Tensor expressions[] = {
      relu(reshape(y, {2, 80})) * flat,
      reshape(y, {2, 80}) * bernoulli({2, 80}, 0.5, 7) / 0.5,
      relu(reshape(flat, {2, 4, 4, 5})) * y,
      exp(reshape(z, {2, 16})) + 1,
      exp(reshape(matmul(reshape(z, {2, 16}), reshape(flat, {16, 10})), {2, 2, 5, 1})) * 2,
      concat({exp(y), concat({y, sin(y)}, 1)}, 1),
      reshape(stack({exp(y), y, sin(y)}, 2), {2, 12, 4, 5}),
      concat({permute(exp(y), {0, 1, 3, 2}), permute(y, {0, 1, 3, 2})}, 2),
      concat({reshape(exp(y), {2, 80}), flat}, 1),
      every_second(exp(y)) * every_second(y),
      gradients(sum(square(relu(reshape(max_pool(relu(y), {.window = {2}}), {2, 16})))), {x})[0],
  };
  ChannelsLast last;
  for (const Tensor& expression : expressions)
    EXPECT_EQ(evaluate(expression, last).to_vector<double>(), evaluate(expression, cpu()).to_vector<double>())
        << &expression - expressions;
}

}  // namespace
}  // namespace nixie
