// The nets: parameter counts as published, torchvision's names, output shapes, and what happens to wrong inputs.
#include "nixie/core/step.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/registry.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

struct Case {
  AnyModel net;
  Shape input;
  std::int64_t parameters;
  Shape output = {1000};
};

// Counts: torchvision's for its nets; convnet-benchmarks' definitions with biases for the others.
std::vector<Case> cases() {
  const Shape imagenet{2, 3, 224, 224}, mnist{2, 1, 28, 28};
  return {
      {Mlp{}, mnist, 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10, {10}},
      {Lenet{}, mnist, 25 * 32 + 32 + 25 * 32 * 64 + 64 + 49 * 64 * 512 + 512 + 5130, {10}},
      {Alexnet{}, imagenet, 61'100'840},
      {Overfeat{}, {2, 3, 231, 231}, 145'920'872},
      {Vgg<11>{}, imagenet, 132'863'336},
      {Vgg<13>{}, imagenet, 133'047'848},
      {Vgg<16>{}, imagenet, 138'357'544},
      {Vgg<19>{}, imagenet, 143'667'240},
      {Googlenet{}, imagenet, 6'998'552},
      {Resnet<18>{}, imagenet, 11'689'512},
      {Resnet<34>{}, imagenet, 21'797'672},
      {Resnet<50>{}, imagenet, 25'557'032},
      {Resnet<101>{}, imagenet, 44'549'160},
      {Vgg<11, true>{}, imagenet, 132'868'840},
      {Vgg<13, true>{}, imagenet, 133'053'736},
      {Vgg<16, true>{}, imagenet, 138'365'992},
      {Vgg<19, true>{}, imagenet, 143'678'248},
      {GooglenetBn{}, imagenet, 6'624'904},
      {InceptionV3{}, {2, 3, 299, 299}, 23'834'568},
      {Densenet121{}, imagenet, 7'978'856},
      {MobilenetV1{}, imagenet, 4'231'976},
      {MobilenetV2{}, imagenet, 3'504'872},
      {MobilenetV3<true>{}, imagenet, 5'483'032},
      {MobilenetV3<false>{}, imagenet, 2'542'856},
      {EfficientnetB0{}, imagenet, 5'288'548},
      {ConvnextTiny{}, imagenet, 28'589'128},
      {Regnet400<false>{}, imagenet, 5'495'976},
      {Regnet400<true>{}, imagenet, 4'344'144},
      {Squeezenet{}, imagenet, 1'235'496},
  };
}

TEST(Nets, ParameterCountsAndOutputShapes) {
  std::set<std::string> seen;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.net.kind());
    const Model model(c.net, c.input);
    EXPECT_EQ(model.parameters().count(), c.parameters);
    EXPECT_EQ(model.output_shape(), c.output);
    EXPECT_EQ(model.input_shape(), Shape(std::vector<std::int64_t>(c.input.begin() + 1, c.input.end())));
    seen.insert(c.net.kind());
  }
  AllModels::for_each([&]<class T>() { EXPECT_TRUE(seen.count(T::name)) << T::name << " has no case here"; });
}

TEST(Nets, TheNumberOfClassesIsTheLastSize) {
  EXPECT_EQ(Model(Resnet<18>{.classes = 7}, {1, 3, 64, 64}).output_shape(), Shape{7});
  EXPECT_EQ(Model(Mlp{.classes = 3, .hidden = {}}, {1, 5}).parameters().count(), 18);
}

// Names and shapes of the nets that torchvision has are in torchvision_test.cpp; this one lacks its batch norm.
TEST(Nets, GooglenetHasTorchvisionsNamesWhereItHasTheLayer) {
  std::vector<std::string> names;
  const Model model(Googlenet{}, {1, 3, 224, 224});
  for (const Variable& v : model.parameters().all()) names.push_back(v.name());
  EXPECT_THAT(names, testing::IsSupersetOf({"conv1.conv.weight", "conv3.conv.weight", "inception3a.branch1.conv.weight",
                                            "inception3a.branch2.0.conv.weight", "inception3a.branch2.1.conv.weight",
                                            "inception5b.branch3.1.conv.weight", "inception5b.branch4.1.conv.weight",
                                            "fc.weight"}));
}

TEST(Nets, WrongInputsNameTheLayer) {
  EXPECT_FAULT(usage, testing::Eq("features.0 (conv2d): input is [2, 9216], expected [N, C, H, W]"),
               Model(Alexnet{}, {2, 9216}));
  EXPECT_FAULT(usage,
               testing::Eq("features.12 (max_pool2d): max_pool: a window of 3 does not fit input [2, 256, 1, 1]"),
               Model(Alexnet{}, {2, 3, 32, 32}));
  EXPECT_EQ(error_of([] { Model(Resnet<18>{}, {2, 3}); }), "conv1 (conv2d): input is [2, 3], expected [N, C, H, W]");
  EXPECT_EQ(error_of([] { Model(Mlp{.classes = 0}, {2, 3}); }), "classes is 0, expected a number from 1 up");
  EXPECT_EQ(error_of([] { Model(Mlp{}, {}); }), "model: input is a scalar, expected [N, ...]");
}

TEST(Nets, ACallOfAnotherShapeThanTheBuildNamesTheLayer) {
  const Model model(Lenet{}, {2, 1, 28, 28});
  Trace trace;
  Pass pass;
  EXPECT_EQ(model(placeholder({5, 1, 28, 28}), pass).shape(), (Shape{5, 10}));
  EXPECT_FAULT(usage, testing::Eq("0 (conv2d): input is [2, 3, 28, 28], expected [N, 1, H, W]"),
               model(placeholder({2, 3, 28, 28}), pass));
  EXPECT_FAULT(usage, testing::Eq("7 (linear): input is [2, 4096], expected [N, 3136]"),
               model(placeholder({2, 1, 32, 32}), pass));
}

TEST(AnyModel, PrintsAsAConfigurationWouldSay) {
  EXPECT_EQ(AnyModel(Alexnet{.classes = 10}).text(), "{alexnet: {classes: 10, dropout: 0.5}}");
  EXPECT_EQ(AnyModel(Sequential{Flatten{}, {"fc", Linear{.out = 3, .bias = false}}}).text(),
            "[{flatten: {first: 1}}, {linear: {out: 3, bias: false, axis: null, init: " + field_text(Init::kaiming()) +
                ", bias_init: " + field_text(Init::zeros()) + "}, name: \"fc\"}]");
  EXPECT_EQ(AnyModel().text(), "[]");
  EXPECT_EQ(Model(AnyModel(), {4, 3}).output_shape(), Shape{3});
}

TEST(Model, InitialValuesFollowTheSeedAndTheName) {
  const Model a(Mlp{}, {1, 4}, 1), b(Mlp{}, {1, 4}, 1), c(Mlp{}, {1, 4}, 2);
  auto first = [](const Model& model) { return model.parameters().find("1.weight")->array().to_vector<float>(); };
  EXPECT_EQ(first(a), first(b));
  EXPECT_NE(first(a), first(c));
}

Array evaluated(const Model& model, const Array& x, bool training = false) {
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass{.training = training};
    return Outputs{{"y", model(in["x"], pass)}};
  });
  return step({{"x", x}}).at("y").array();
}

/// The last axis turned round.
std::vector<float> mirrored(const std::vector<float>& values, std::int64_t width) {
  std::vector<float> result = values;
  for (auto row = result.begin(); row != result.end(); row += width) std::reverse(row, row + width);
  return result;
}

// A net of classes, whose outputs have no width, and one of masks, whose outputs are mirrored back.
TEST(Model, AveragesOverMirrorImagesInEvaluation) {
  const Conv2d conv{.out = 4, .kernel = {2, 3}};
  for (const Sequential& net : {Sequential{conv, Flatten{}, Linear{.out = 3}}, Sequential{conv}}) {
    const Model plain(net, {2, 3, 5, 6}, 7), average = plain.with_mirror_average();
    std::vector<float> pixels(2 * 3 * 5 * 6);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::sin(0.7f * static_cast<float>(i));
    const Array image = Array::from(pixels, {2, 3, 5, 6}), mirror = Array::from(mirrored(pixels, 6), {2, 3, 5, 6});
    const Array straight = evaluated(plain, image);
    std::vector<float> expected = straight.to_vector<float>(), other = evaluated(plain, mirror).to_vector<float>();
    EXPECT_EQ(evaluated(average, image, true).to_vector<float>(), expected);
    if (straight.shape().rank() > 2) other = mirrored(other, straight.shape()[-1]);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = (expected[i] + other[i]) / 2;
    EXPECT_THAT(evaluated(average, image).to_vector<float>(), testing::Pointwise(testing::FloatNear(1e-6f), expected));
  }
  EXPECT_FAULT(usage, testing::Eq("mirror_average: a sample is [9], expected [channels, ..., width]"),
               Model(Mlp{}, {2, 9}).with_mirror_average());
}

// Trains on one batch of noisy colours, one per class: the first loss is of the order of guessing's, and it falls.
void learns_a_batch(const AnyModel& net, const Shape& shape, int classes, double rate, int steps) {
  const Model model(net, shape, 1);
  const Optimizer optimizer(model.parameters(), {.rule = Sgd{}, .schedule = ConstantRate{.rate = rate}});
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass{.step = optimizer.count(), .seed = 1};
    const Tensor loss = cross_entropy(model(in["images"], pass), in["labels"]);
    optimizer.update(gradients(loss, model.parameters()));
    return Outputs{{"loss", loss}};
  });
  std::mt19937 random(1);
  Array images(Dtype::f32, shape), labels(Dtype::i32, {shape[0]});
  for (std::int32_t& label : labels.data<std::int32_t>())
    label = static_cast<std::int32_t>(random() % static_cast<unsigned>(classes));
  const std::int64_t plane = shape[2] * shape[3];
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const std::int64_t label = labels.data<std::int32_t>()[static_cast<std::size_t>(i / (plane * shape[1]))];
    const std::int64_t hue = (label + 1) * (i / plane % shape[1] + 2) % 7;
    images.data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(random() / 4294967296.0 - 0.8 + 0.1 * hue);
  }
  const auto run = [&] { return step({{"images", images}, {"labels", labels}}).at("loss").item(); };
  const double first = run();
  EXPECT_LT(first, 2 * std::log(classes));
  double last = first;
  for (int i = 1; i < steps; ++i) last = run();
  EXPECT_LT(last, 0.5 * first);
}

TEST(Nets, MlpLearnsABatch) { learns_a_batch(Mlp{}, {16, 1, 8, 8}, 10, 0.05, 60); }
TEST(Nets, LenetLearnsABatch) { learns_a_batch(Lenet{}, {8, 1, 28, 28}, 10, 0.01, 40); }
TEST(Nets, Resnet18LearnsABatch) { learns_a_batch(Resnet<18>{.classes = 10}, {8, 3, 32, 32}, 10, 0.02, 12); }
TEST(Nets, GooglenetLearnsABatchLong) { learns_a_batch(Googlenet{.classes = 4}, {4, 3, 64, 64}, 4, 0.01, 60); }
TEST(Nets, AlexnetLearnsABatchLong) { learns_a_batch(Alexnet{.classes = 10}, {8, 3, 64, 64}, 10, 0.002, 60); }

}  // namespace
}  // namespace nixie
