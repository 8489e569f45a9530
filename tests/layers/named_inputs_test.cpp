// Lists of layers that read each other by name, and the layers that rearrange what they read.
#include "nixie/tests/errors.h"
#include "nixie/tests/layers/composite_cases.h"

namespace nixie {
namespace {

using reference::elementwise;
using reference::gated;
using reference::Named;
using reference::Values;

/// y[k] = x[from(k)] in a shape.
reference::Function picked(const Shape& shape, std::function<std::int64_t(std::int64_t)> from) {
  return [=](const Named&, const Values& x) {
    Values y(shape);
    for (std::int64_t k = 0; k < y.size(); ++k) y[k] = x[from(k)];
    return y;
  };
}

/// Positions of an axis of `size`, each `inner` elements apart.
std::int64_t position(std::int64_t i, std::int64_t size, std::int64_t inner) { return i / inner % size; }

/// y[n, o, i] = sum over c of weight[o, c] x[n, c, i] (+ bias[o]), with `inner` positions i.
Values linear_along(const Named& p, const Values& x, const Shape& shape, std::int64_t inner) {
  const Values& w = p.at("weight");
  const std::int64_t out = w.shape[0], in = w.shape[1];
  Values y(shape);
  for (std::int64_t k = 0; k < y.size(); ++k) {
    const std::int64_t o = position(k, out, inner), n = k / (out * inner), i = k % inner;
    y[k] = p.at("bias")[o];
    for (std::int64_t c = 0; c < in; ++c) y[k] += w[o * in + c] * x[(n * in + c) * inner + i];
  }
  return y;
}

double silu_of(double x) { return x / (1 + std::exp(-x)); }
double hard_sigmoid_of(double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }

}  // namespace

std::vector<LayerCase> named_input_cases() {
  return {
      row("", SliceRange{.from = 1, .to = 3}, {2, 4, 3},
          picked({2, 2, 3}, [](std::int64_t k) { return k / 6 * 12 + 3 + k % 6; })),
      row("", SliceRange{.axis = -1, .from = -2}, {2, 4, 3},
          picked({2, 4, 2}, [](std::int64_t k) { return k / 2 * 3 + 1 + k % 2; })),
      row("", Chunk{.part = 1, .of = 2}, {2, 4, 3},
          picked({2, 2, 3}, [](std::int64_t k) { return k / 6 * 12 + 6 + k % 6; })),
      row("", PermuteAxes{.order = {0, 2, 1}}, {2, 4, 3},
          picked({2, 3, 4}, [](std::int64_t k) { return k / 12 * 12 + k % 4 * 3 + k / 4 % 3; })),
      row("signal", PixelShuffle{.factor = 3}, {2, 6, 2},
          picked({2, 2, 6}, [](std::int64_t k) { return k / 6 * 6 + k % 3 * 2 + k % 6 / 3; })),
      row("", PixelShuffle{.factor = 2}, {1, 8, 2, 3},
          picked({1, 2, 4, 6},
                 [](std::int64_t k) {
                   const std::int64_t c = k / 24, i = k / 6 % 4, j = k % 6;
                   return ((c * 2 + i % 2) * 2 + j % 2) * 6 + i / 2 * 3 + j / 2;
                 })),
      row("signal", Upsample{.factor = 3}, {2, 2, 3}, picked({2, 2, 9}, [](std::int64_t k) { return k / 3; })),
      row("volume", Upsample{.factor = {1, 2, 1}}, {1, 2, 2, 2, 3},
          picked({1, 2, 2, 4, 3}, [](std::int64_t k) { return k / 12 * 6 + k / 6 % 2 * 3 + k % 3; })),
      row("signal", Upsample{.factor = 2, .mode = "linear"}, {1, 2, 3},
          [](const Named&, const Values& x) {
            Values y(Shape{1, 2, 6});
            for (std::int64_t k = 0; k < y.size(); ++k) {
              const double at = std::max(0.0, (static_cast<double>(k % 6) + 0.5) / 2 - 0.5);
              const auto low = static_cast<std::int64_t>(at);
              const double share = at - static_cast<double>(low);
              const auto line = [&](std::int64_t i) { return x[k / 6 * 3 + std::min<std::int64_t>(i, 2)]; };
              y[k] = (1 - share) * line(low) + share * line(low + 1);
            }
            return y;
          }),
      row("", HardSigmoid{}, {2, 5}, elementwise(hard_sigmoid_of)),
      row("evaluation", DropPath{}, {3, 5}, elementwise([](double x) { return x; })),
      row("keeps nothing", DropPath{.rate = 1}, {3, 5}, elementwise([](double) { return 0.0; }), true),
      row("", Scale{.bias = true}, {2, 3, 4},
          [](const Named& p, const Values& x) {
            Values y = x;
            for (std::int64_t k = 0; k < y.size(); ++k)
              y[k] = x[k] * p.at("weight")[position(k, 3, 4)] + p.at("bias")[position(k, 3, 4)];
            return y;
          }),
      row("last axis", Scale{.axis = -1}, {2, 3, 4},
          [](const Named& p, const Values& x) {
            Values y = x;
            for (std::int64_t k = 0; k < y.size(); ++k) y[k] = x[k] * p.at("weight")[k % 4];
            return y;
          }),
      row("last axis", Linear{.out = 5, .axis = -1}, {2, 3, 4},
          [](const Named& p, const Values& x) {
            return linear_along(p, x, {2, 3, 5}, 1);
          }),
      row("tokens", Linear{.out = 5, .axis = 1}, {2, 3, 2, 2},
          [](const Named& p, const Values& x) {
            return linear_along(p, x, {2, 5, 2, 2}, 4);
          }),
      row("signal", SqueezeExcite{.squeeze = 2, .activation = "silu", .gate = "hard_sigmoid"}, {2, 3, 5},
          [](const Named& p, const Values& x) { return gated(p, x, silu_of, hard_sigmoid_of); }),
      row("volume", SqueezeExcite{.squeeze = 2, .activation = "silu", .gate = "hard_sigmoid"}, {1, 2, 2, 1, 3},
          [](const Named& p, const Values& x) { return gated(p, x, silu_of, hard_sigmoid_of); }),
      row("", ProductBranches{{Identity{}, Tanh{}}}, {2, 3}, elementwise([](double x) { return x * std::tanh(x); })),
      row("", AuxiliaryLoss{}, {2, 3}, elementwise([](double x) { return x; })),
      row("glu",
          Sequential{{"a", Chunk{.part = 0}},
                     {"", Chunk{.part = 1}, {"input"}},
                     {"gate", Sigmoid{}},
                     {"", ProductBranches{}, {"a", "gate"}}},
          {2, 4},
          [](const Named&, const Values& x) {
            Values y(Shape{2, 2});
            for (std::int64_t k = 0; k < 4; ++k)
              y[k] = x[k / 2 * 4 + k % 2] / (1 + std::exp(-x[k / 2 * 4 + 2 + k % 2]));
            return y;
          }),
      row("gates of other sizes",
          Sequential{{"x", Identity{}}, {"gate", GlobalAvgPool{}}, {"", ProductBranches{}, {"x", "gate"}}}, {2, 2, 3},
          [](const Named&, const Values& x) {
            Values y = x;
            for (std::int64_t k = 0; k < y.size(); ++k)
              y[k] *= (x[k / 3 * 3] + x[k / 3 * 3 + 1] + x[k / 3 * 3 + 2]) / 3;
            return y;
          }),
      row("read by index", Sequential{Tanh{}, Sigmoid{}, {"", SumBranches{}, {"0", "1"}}}, {2, 3},
          elementwise([](double x) { return std::tanh(x) + 1 / (1 + std::exp(-std::tanh(x))); })),
      row("one layer twice",
          Sequential{{"a", Chunk{.part = 0}},
                     {"fc", Linear{.out = 2}},
                     {"b", Chunk{.part = 1}, {"input"}},
                     {"again", Shared{.layer = "fc"}},
                     {"", ConcatBranches{}, {"fc", "again"}}},
          {2, 4},
          [](const Named& p, const Values& x) {
            Values y(Shape{2, 4});
            for (std::int64_t k = 0; k < 8; ++k) {
              const std::int64_t first = k / 4 * 4 + k % 4 / 2 * 2, o = k % 2;
              y[k] = p.at("fc.bias")[o] + p.at("fc.weight")[o * 2] * x[first] +
                     p.at("fc.weight")[o * 2 + 1] * x[first + 1];
            }
            return y;
          }),
  };
}

namespace {

TEST(NamedInputs, LayersAndListsMatchPlainLoops) {
  for (const LayerCase& c : named_input_cases()) check_layer(c);
}

TEST(NamedInputs, DropPathKeepsWholeSamples) {
  Parameters parameters;
  const Forward forward = DropPath{.rate = 0.25}.build({400, 3, 2}, parameters);
  Pass pass{.step = 3, .seed = 5};
  const std::vector<float> y = evaluate(forward(ones({400, 3, 2}), pass), test_backend()).to_vector<float>();
  double kept = 0;
  for (std::size_t i = 0; i < y.size(); i += 6) {
    ASSERT_TRUE(y[i] == 0 || y[i] == 1 / 0.75f);
    for (std::size_t k = 1; k < 6; ++k) ASSERT_EQ(y[i + k], y[i]);
    kept += y[i] != 0;
  }
  EXPECT_NEAR(kept / 400, 0.75, 4 * std::sqrt(0.75 * 0.25 / 400));  // four standard deviations
}

TEST(NamedInputs, ASharedLayerHasItsParametersOnce) {
  Parameters parameters;
  Sequential{{"a", Chunk{.part = 0}},
             {"bn", BatchNorm{}},
             {"b", Chunk{.part = 1}, {"input"}},
             {"again", Shared{.layer = "bn"}},
             {"more", Shared{.layer = "again"}},
             {"", SumBranches{}, {"bn", "more"}}}
      .build({4, 4}, parameters);
  std::vector<std::string> names;
  for (const Variable& v : parameters.all()) names.push_back(v.name());
  EXPECT_EQ(names, (std::vector<std::string>{"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}));
}

TEST(NamedInputs, AuxiliaryOutputsReachTheRunInTraining) {
  Parameters parameters;
  const Sequential net{
      {"stem", Tanh{}}, {"aux", Sequential{Sigmoid{}, AuxiliaryLoss{.weight = 0.5}}}, {"", Relu{}, {"stem"}}};
  const Forward forward = net.build({2, 3}, parameters);
  for (const bool training : {true, false}) {
    std::vector<std::string> seen;
    Pass pass{.training = training};
    pass.auxiliary = [&](const Tensor& output, const AuxiliaryLoss& loss) {
      seen.push_back(fmt::format("{} {} {}", Scope::path(), to_string(output.shape()), loss.weight));
    };
    forward(placeholder({2, 3}), pass);
    EXPECT_EQ(seen, training ? std::vector<std::string>{"aux.1 [2, 3] 0.5"} : std::vector<std::string>{});
  }
}

TEST(NamedInputs, WhatDoesNotFitIsNamedAtBuild) {
  const auto error = [](const Sequential& net, const Shape& in = {2, 4, 6}) {
    return error_of([&] {
      Parameters parameters;
      net.build(in, parameters);
    });
  };
  const auto of = [&](const AnyLayer& layer, const Shape& in = {2, 4, 6}) { return error({{"at", layer}}, in); };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {error({{"a", Relu{}}, {"b", Tanh{}, {"c"}}}),
       "b (tanh): reads \"c\", expected the name of a layer before it in the list: input, a"},
      {error({{"a", Relu{}, {"b"}}, {"b", Tanh{}}}),
       "a (relu): reads \"b\", which comes after it in the list; move that layer in front of this one"},
      {error({{"a", Relu{}, {"a"}}}), "a (relu): reads itself; name a layer before it"},
      {error({{"a", Relu{}}, {"a", Relu{}}, {"b", Tanh{}, {"a"}}}),
       "b (tanh): reads \"a\", which is the name of 2 layers before it; give them names of their own"},
      {error({{"a", Relu{}}, {"b", Tanh{}, {"input"}}}),
       "a (relu): no layer reads its result; name it as an input of another layer, or remove it"},
      {error({{"a", Relu{}}, {"b", Tanh{}, {"a", "input"}}}),
       "b (tanh): reads 2 inputs, expected one; concat, sum and product join several"},
      {error({{"a", Chunk{}}, {"b", SumBranches{}, {"a", "input"}}}),
       "b (sum): input 1 is [2, 4, 6], input 0 is [2, 2, 6]"},
      {error({{"a", Relu{}}, {"b", SumBranches{{Relu{}}}, {"a", "input"}}}),
       "b (sum): has branches and several inputs, expected one of the two"},
      {error({{"a", SumBranches{{NamedLayer{"x", Relu{}, {"y"}}}}}}),
       "a (sum): branch x reads what its container reads; put layers that read each other in a sequential"},
      {error({{"a", Relu{}}, {"b", Shared{.layer = "x"}}}),
       "b (shared): reads \"x\", expected the name of a layer before it in the list: input, a"},
      {error({{"a", Relu{}}, {"b", Shared{.layer = "input"}}}),
       "b (shared): shares the list's input, expected the name of a layer: input, a"},
      {of(Shared{}), "at (shared): layer is \"\", expected the name of an earlier layer of the list"},
      {of(SliceRange{.from = 3, .to = 9}),
       "at (slice): positions 3 to before 9 of axis 1, expected some of the 4 of input [2, 4, 6]"},
      {of(SliceRange{.axis = 0}), "at (slice): axis 0 of input [2, 4, 6] is that of the samples, expected another"},
      {of(Chunk{.of = 3}), "at (chunk): axis 1 of input [2, 4, 6] does not split into 3 parts"},
      {of(Chunk{.part = 2}), "at (chunk): part is 2, expected a number below of, 2"},
      {of(PermuteAxes{.order = {0, 2}}),
       "at (permute): order is [0, 2] for input [2, 4, 6], expected 0 and then axes 1 to 2, each once"},
      {of(PermuteAxes{.order = {1, 0, 2}}),
       "at (permute): order is [1, 0, 2] for input [2, 4, 6], expected 0 and then axes 1 to 2, each once"},
      {of(PixelShuffle{.factor = 3}), "at (pixel_shuffle): 4 channels do not split into blocks of 3"},
      {of(Linear{.out = 3, .axis = 0}),
       "at (linear): axis 0 of input [2, 4, 6] is that of the samples, expected another"},
      {of(Scale{.axis = 3}), "at (scale): axis 3 is out of range for shape [2, 4, 6]"},
      {of(SqueezeExcite{}, {2, 4}), "at (squeeze_excite): input is [2, 4], expected [N, C, spatial...]"},
  };
  for (const auto& [found, expected] : cases) EXPECT_EQ(found, expected);
}

TEST(NamedInputs, PrintAsAConfigurationWouldSay) {
  EXPECT_EQ(field_text(NamedLayer{"b", Tanh{}, {"a"}}), "{tanh: {}, name: \"b\", input: [\"a\"]}");
  EXPECT_EQ(AnyLayer(Shared{.layer = "x"}).text(), "shared: {layer: \"x\"}");
}

}  // namespace
}  // namespace nixie
