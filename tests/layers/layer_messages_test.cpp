// Exact messages for layers and inputs that do not fit, and layers printed as a configuration writes them.
#include "nixie/layers/registry.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

std::string build_error(const AnyLayer& layer, const Shape& in) {
  return error_of([&] {
    Parameters parameters;
    Sequential{{"at", layer}}.build(in, parameters);
  });
}

TEST(Layers, WhatDoesNotFitIsNamedAtBuild) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {build_error(Linear{.out = 3}, {2, 3, 4}),
       "at (linear): input is [2, 3, 4], expected [N, features]; put a flatten in front, or set axis"},
      {build_error(Linear{}, {2, 3}), "at (linear): out is 0, expected a number from 1 up"},
      {build_error(Conv2d{.out = 3}, {128, 9216}), "at (conv2d): input is [128, 9216], expected [N, C, H, W]"},
      {build_error(Conv1d{.out = 3}, {1, 2, 3, 4}), "at (conv1d): input is [1, 2, 3, 4], expected [N, C, W]"},
      {build_error(Conv3d{.out = 3}, {1, 2, 3, 4}), "at (conv3d): input is [1, 2, 3, 4], expected [N, C, D, H, W]"},
      {build_error(Conv2d{.out = 3, .stride = 0}, {1, 2, 3, 4}),
       "at (conv2d): stride is 0, expected a number from 1 up"},
      {build_error(Conv2d{.out = 3, .kernel = {1, 2, 3}}, {1, 2, 8, 8}),
       "at (conv2d): kernel has 3 numbers, expected 1 or 2"},
      {build_error(Conv2d{.out = 3, .groups = 2}, {1, 4, 8, 8}),
       "at (conv2d): 4 input and 3 output channels do not split into 2 groups"},
      {build_error(Deconv2d{.out = 3}, {2, 3}), "at (deconv2d): input is [2, 3], expected [N, C, H, W]"},
      {build_error(MaxPool2d{}, {2, 3}), "at (max_pool2d): input is [2, 3], expected [N, C, H, W]"},
      {build_error(MaxPool2d{.window = 5}, {2, 3, 4, 4}),
       "at (max_pool2d): max_pool: a window of 5 does not fit input [2, 3, 4, 4]"},
      {build_error(AdaptiveAvgPool2d{.out = 1 << 30}, {2, 3, 4, 4}),
       "at (adaptive_avg_pool2d): 1073741824 parts of an axis of 4, expected at most 4096 where they do not divide it"},
      {build_error(GlobalAvgPool{}, {2, 3}), "at (global_avg_pool): input is [2, 3], expected [N, C, spatial...]"},
      {build_error(BatchNorm{}, {3}), "at (batch_norm): input is [3], expected [N, C, ...]"},
      {build_error(BatchNorm{.momentum = 2}, {3, 4}), "at (batch_norm): momentum is 2, expected a number from 0 to 1"},
      {build_error(Dropout{.rate = -0.5}, {3, 4}), "at (dropout): rate is -0.5, expected a number from 0 to 1"},
      {build_error(Softmax{.axis = 2}, {3, 4}), "at (softmax): axis 2 is out of range for shape [3, 4]"},
      {build_error(SumBranches{{Flatten{}, Identity{}}}, {2, 3, 4}),
       "at (sum): branch 1 gives [2, 3, 4], branch 0 gives [2, 12]"},
      {build_error(SumBranches{}, {2, 3}), "at (sum): has neither branches nor several inputs"},
      {build_error(ReshapeTo{.sizes = {5, -1}}, {2, 3}), "at (reshape): reshape: [2, 3] does not fill [2, 5, -1]"},
  };
  for (const auto& [found, expected] : cases) EXPECT_EQ(found, expected);
}

TEST(Layers, WhatDoesNotFitIsNamedInACall) {
  Parameters parameters;
  const Forward net = Sequential{{"body", Sequential{Relu{}, BatchNorm{}}}}.build({4, 3, 2}, parameters);
  Trace trace;
  Pass pass;
  EXPECT_EQ(error_of([&] {
              net(placeholder({4, 5, 2}), pass);
            }),
            "body.1 (batch_norm): input is [4, 5, 2], expected [N, 3, ...]");
  EXPECT_EQ(error_of([&] {
              net(placeholder({1, 3, 1}), pass);
            }),
            "body.1 (batch_norm): input is [1, 3, 1]: training needs more than one value per channel");
  const Forward none = Sequential{BatchNorm{}}.build({4, 0, 2}, parameters);
  EXPECT_EQ(error_of([&] {
              none(placeholder({4, 0, 2}), pass);
            }),
            "0 (batch_norm): input is [4, 0, 2]: training needs more than one value per channel");
}

TEST(Layers, ANameIsTakenOnce) {
  Parameters parameters;
  EXPECT_EQ(error_of([&] {
              Sequential{{"fc", Linear{.out = 2}}, {"fc", Linear{.out = 2}}}.build({1, 2}, parameters);
            }),
            "fc (linear): parameter name fc.weight is taken; give one of the two layers another .name");
}

TEST(Layers, PrintAsAConfigurationWouldSay) {
  EXPECT_EQ(AnyLayer(MaxPool2d{.window = 3, .stride = {2, 1}}).text(),
            "max_pool2d: {window: 3, stride: [2, 1], pad: 0, dilation: 1, ceil_mode: false}");
  EXPECT_EQ(AnyLayer(SumBranches{{Identity{}, {"b", Tanh{}}}}).text(),
            "sum: {branches: [{identity: {}}, {tanh: {}, name: \"b\"}]}");
  EXPECT_EQ(AnyLayer(Sequential{Relu{.slope = 0.5}}).text(), "sequential: [{relu: {slope: 0.5}}]");
}

}  // namespace
}  // namespace nixie
