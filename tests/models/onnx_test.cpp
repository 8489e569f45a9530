// ONNX files: which ops a net becomes, and that onnxruntime (where python3 has it) computes what nixie computes.
#include "nixie/models/io/onnx.h"

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/step.h"
#include "nixie/models/io/safetensors.h"
#include "nixie/models/registry.h"
#include "nixie/tests/layers/reference.h"
#include "nixie/tests/models/checkpoint_samples.h"
#include "nixie/tests/models/python.h"
#include "nixie/tests/protobuf.h"

namespace nixie {
namespace {

using testing::Contains;

class OnnxTest : public CheckpointTest {};

std::vector<std::string> all_of(const std::string& message, int field) {
  std::vector<std::string> values;
  for (const auto& [number, value] : fields_of(message))
    if (number == field) values.push_back(value);
  return values;
}

struct File {
  std::vector<std::string> ops, constants;

  explicit File(const std::string& bytes) {
    EXPECT_THAT(all_of(bytes, 1), ElementsAre("8"));
    const std::string graph = all_of(bytes, 7).at(0);
    for (const std::string& node : all_of(graph, 1)) ops.push_back(all_of(node, 4).at(0));
    for (const std::string& tensor : all_of(graph, 5)) constants.push_back(all_of(tensor, 8).at(0));
  }
};

/// Every parameter and buffer away from its first value, so that none can be left out unseen. Variances grow: smaller
/// ones make deep nets with relu6 chaotic, and any two orders of sums differ.
void stir(const Model& model) {
  unsigned seed = 1;
  for (const Variable& variable : model.parameters().all()) {
    const reference::Values noise = reference::draw(variable.shape(), ++seed, 0.5, 1.5);
    reference::Values values = reference::Values::of(variable.array());
    for (std::int64_t i = 0; i < values.size(); ++i)
      values[i] = values[i] == 0 ? 0.2 * noise[i] : values[i] * (variable.trainable() ? noise[i] : 1 + noise[i]);
    variable.set(reference::to_f32(values));
  }
}

const Sequential kSmall{
    {"conv", Conv2d{.out = 4, .kernel = 3, .bias = false}},
    {"bn", BatchNorm{}},
    Relu{},
    MaxPool2d{},
    Flatten{},
    {"fc", Linear{.out = 3}},
};

TEST_F(OnnxTest, LayersBecomeOnnxsOwnOps) {
  const Model model(kSmall, {2, 3, 6, 6});
  const File plain(onnx_bytes(model));
  EXPECT_THAT(plain.ops, ElementsAre("Conv", "BatchNormalization", "Relu", "MaxPool", "Reshape", "Gemm", "Identity"));
  for (const char* name : {"conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "fc.weight"})
    EXPECT_THAT(plain.constants, Contains(name));
  const File folded(onnx_bytes(model, {.fold_batch_norm = true}));
  EXPECT_THAT(folded.ops, ElementsAre("Conv", "Relu", "MaxPool", "Reshape", "Gemm", "Identity"));
  EXPECT_THAT(folded.constants, Not(Contains("bn.weight")));
  // A convolution that another layer reads too is not folded.
  const Sequential shared{{"a", Conv2d{.out = 2, .kernel = 1}}, SumBranches{{Identity{}, BatchNorm{}}}};
  EXPECT_THAT(File(onnx_bytes(Model(shared, {1, 2, 3, 3}), {.fold_batch_norm = true})).ops,
              Contains("BatchNormalization"));
}

/// Angles, for which ONNX has no op.
struct Angle {
  static constexpr const char* name = "angle";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape&, Parameters&) const {
    return [](const Tensor& x, const Pass&) { return atan2(x, x + 1); };
  }
};

TEST_F(OnnxTest, WhatOnnxLacksIsNamed) {
  const Model model(Sequential{Angle{}}, {1, 2});
  EXPECT_FAULT(usage, "atan2 needs atan2, which opset 17 has not", onnx_bytes(model));
}

TEST_F(OnnxTest, DilatedAveragesAreBeyondTheOpset) {
  const Model model(Sequential{AvgPool2d{.window = 2, .dilation = 2}, Flatten{}}, {2, 3, 6, 6});
  EXPECT_FAULT(usage, "onnx: average pooling over dilated windows needs opset 19, the export writes opset 17",
               onnx_bytes(model));
}

/// Writes NAME.onnx, and x and y of a batch in NAME.safetensors.
void write_pair(const fs::path& folder, const std::string& name, const Model& model, bool fold) {
  stir(model);
  const Array x = reference::to_f32(reference::draw(model.batch_shape(), 9));
  const auto backend = make_cpu_backend(1);
  Step step(*backend, [&](const Inputs& in) {
    Pass pass{.training = false};
    return Outputs{{"y", model(in["x"], pass)}};
  });
  save_onnx(model, folder / (name + ".onnx"), {.fold_batch_norm = fold});
  save_safetensors({.arrays = {{"x", x}, {"y", step({{"x", x}}).at("y").array()}}}, folder / (name + ".safetensors"));
}

void write_pair(const fs::path& folder, const std::string& name, const AnyModel& net, const Shape& input, bool fold) {
  write_pair(folder, name, Model(net, input, 3), fold);
}

/// Layers on [N, 6, 6, 6].
std::vector<AnyLayer> every_kind() {
  return {
      Relu{.slope = 0.1},
      ReluClipped{.cut = 1},
      Sigmoid{},
      Tanh{},
      Softmax{},
      Elu{.alpha = 0.7},
      Gelu{},
      LeakyRelu{},
      Prelu{.per_channel = true},
      Silu{},
      HardSwish{},
      Softplus{.beta = 2},
      BatchNorm{},
      BatchNorm{.affine = false},
      LayerNorm{},
      GroupNorm{.groups = 3},
      Lrn{.size = 3},
      Dropout{},
      Dropout2d{},
      DropPath{},
      HardSigmoid{},
      Scale{.bias = true},
      ChannelShuffle{.groups = 3},
      SqueezeExcite{.squeeze = 2},
      SqueezeExcite{.squeeze = 2, .activation = Silu::name, .gate = HardSigmoid::name},
      Sequential{Conv2d{.out = 8, .kernel = 1}, PixelShuffle{}},
      Sequential{PermuteAxes{.order = {0, 2, 3, 1}}, Linear{.out = 5, .axis = -1}},
      Linear{.out = 5, .axis = 1},
      Sequential{{"a", Chunk{}},
                 {"", SliceRange{.from = 3}, {"input"}},
                 {"b", Sigmoid{}},
                 {"", ProductBranches{}, {"a", "b"}}},
      Sequential{{"a", Conv2d{.out = 6, .kernel = 1}}, {"b", Shared{.layer = "a"}}, {"", SumBranches{}, {"a", "b"}}},
      Maxout{.window = 3, .stride = 1, .pad = 1},
      Conv2d{.out = 6, .kernel = {2, 3}, .pad = PerAxis::same(), .groups = 2},
      Sequential{PadSides{.pad = {2, 1}, .mode = "reflect"}, Conv2d{.out = 6, .kernel = {5, 3}}},
      Sequential{PadSides{}, AvgPool2d{.window = 3, .stride = 1}},
      MaxPool2d{.window = 3, .stride = 1, .pad = 1},
      AvgPool2d{.window = 3, .stride = 1, .pad = 1},
      AvgPool2d{.window = 3, .stride = 1, .pad = 1, .count_pad = false},
      L2Pool2d{.window = 3, .stride = 1, .pad = 1},
      MaxPool2d{.window = {3, 2}, .stride = 1, .pad = {2, 1}, .dilation = {2, 3}},
      Sequential{MaxPool2d{.window = 3, .stride = 2, .ceil_mode = true}, Upsample{}},
      Sequential{AvgPool2d{.window = 4, .stride = 3, .ceil_mode = true}, Upsample{.factor = 3, .mode = "bilinear"}},
      Upsample{.size = {9, 4}},
      Upsample{.size = {9, 4}, .mode = "bilinear"},
      Upsample{.size = {4, 9}, .mode = "bicubic", .align_corners = true},
      Upsample{.size = {9, 3}, .mode = "bicubic", .antialias = true},
      Sequential{Conv2d{.out = 4, .kernel = 2, .stride = 2},
                 Deconv2d{.out = 6, .kernel = 3, .stride = 2, .pad = 1, .output_pad = 1},
                 Deconv2d{.out = 6, .kernel = 2, .pad = 2, .output_pad = 1, .dilation = 3}},
      Sequential{ReshapeTo{.sizes = {36, 6}}, ReshapeTo{.sizes = {6, 6, 6}}},
      ConcatBranches{{Conv2d{.out = 2, .kernel = 1}, Conv2d{.out = 4, .kernel = 1, .bias = false}}},
      GlobalMaxPool{},
      GlobalAvgPool{}};
}

TEST_F(OnnxTest, OnnxruntimeComputesTheSame) {
  if (!python_has("onnxruntime, safetensors")) GTEST_SKIP() << python() << " has no onnxruntime and safetensors";
  write_pair(folder_, "small", kSmall, {3, 3, 6, 6}, false);
  write_pair(folder_, "small_folded", kSmall, {3, 3, 6, 6}, true);
  write_pair(folder_, "mirrored", Model(kSmall, {3, 3, 6, 6}, 3).with_mirror_average(), true);
  const Sequential masks{Conv2d{.out = 2, .kernel = 3}};
  write_pair(folder_, "mirrored_masks", Model(masks, {3, 3, 6, 6}, 3).with_mirror_average(), false);
  std::vector<std::string> names = {"small", "small_folded", "mirrored", "mirrored_masks",
                                    "mlp",   "lenet",        "resnet18", "resnet18_folded"};
  for (const AnyLayer& layer : every_kind()) {
    names.push_back(fmt::format("{}_{}", layer.kind(), names.size()));
    write_pair(folder_, names.back(), Sequential{Conv2d{.out = 6, .kernel = 1}, layer}, {2, 6, 6, 6}, false);
  }
  write_pair(folder_, "mlp", Mlp{}, {4, 1, 28, 28}, false);
  write_pair(folder_, "lenet", Lenet{}, {2, 1, 28, 28}, false);
  write_pair(folder_, "resnet18", Resnet<18>{.classes = 7}, {2, 3, 32, 32}, false);
  write_pair(folder_, "resnet18_folded", Resnet<18>{.classes = 7}, {2, 3, 32, 32}, true);
  const Ran ran = run_python("exchange.py onnx " + folder_.string());
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const std::string& name : names) EXPECT_THAT(ran.output, HasSubstr(name + " "));
}

/// Sides of the images on which a net of three channels still has pixels at its end.
constexpr std::int64_t kSide = 64, kLargerSide = 96;

TEST_F(OnnxTest, OnnxruntimeComputesEveryNetTheSameLong) {
  if (!python_has("onnxruntime, safetensors")) GTEST_SKIP() << python() << " has no onnxruntime and safetensors";
  AllModels::for_each([&]<class T>() {
    const bool is_grey = std::is_same_v<T, Mlp> || std::is_same_v<T, Lenet>;
    const bool needs_more = std::is_same_v<T, InceptionV3> || std::is_same_v<T, Overfeat>;
    const std::int64_t side = needs_more ? kLargerSide : kSide;
    const Shape input = is_grey ? Shape{2, 1, 28, 28} : Shape{2, 3, side, side};
    for (const char* suffix : {"", "_folded"})
      write_pair(folder_, std::string(T::name) + suffix, T{}, input, *suffix != '\0');
    const Ran ran = run_python("exchange.py onnx " + folder_.string());
    EXPECT_EQ(ran.code, 0) << T::name << "\n" << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(std::string(T::name) + "_folded "));
    for (const auto& each : fs::directory_iterator(folder_)) fs::remove(each);  // up to 1 GB each
  });
}

}  // namespace
}  // namespace nixie
