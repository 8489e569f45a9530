// Inception v3: a stem, eleven inception blocks of five kinds, a linear layer. Sizes in comments are for 299x299.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

Sequential conv(int out, PerAxis kernel, PerAxis stride = 1, PerAxis pad = 0) {
  return {{"conv", Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = pad, .bias = false}},
          {"bn", BatchNorm{.eps = 1e-3}},
          Relu{}};
}
// An output of the same size, from a row or a column of n pixels.
Sequential row(int out, int n) { return conv(out, {1, n}, 1, {0, n / 2}); }
Sequential column(int out, int n) { return conv(out, {n, 1}, 1, {n / 2, 0}); }

const AvgPool2d kSmooth{.window = 3, .stride = 1, .pad = 1};
const MaxPool2d kHalve{.window = 3, .stride = 2};

// A branch of several layers, whose names are among the block's own.
NamedLayer branch(std::initializer_list<NamedLayer> layers) { return {"", Sequential(layers)}; }

ConcatBranches block_a(int pooled) {
  return {.branches = {
              {"branch1x1", conv(64, 1)},
              branch({{"branch5x5_1", conv(48, 1)}, {"branch5x5_2", conv(64, 5, 1, 2)}}),
              branch({{"branch3x3dbl_1", conv(64, 1)},
                      {"branch3x3dbl_2", conv(96, 3, 1, 1)},
                      {"branch3x3dbl_3", conv(96, 3, 1, 1)}}),
              branch({kSmooth, {"branch_pool", conv(pooled, 1)}}),
          }};
}

ConcatBranches halving_b() {
  return {.branches = {
              {"branch3x3", conv(384, 3, 2)},
              branch({{"branch3x3dbl_1", conv(64, 1)},
                      {"branch3x3dbl_2", conv(96, 3, 1, 1)},
                      {"branch3x3dbl_3", conv(96, 3, 2)}}),
              kHalve,
          }};
}

ConcatBranches block_c(int inner) {
  return {
      .branches = {
          {"branch1x1", conv(192, 1)},
          branch({{"branch7x7_1", conv(inner, 1)}, {"branch7x7_2", row(inner, 7)}, {"branch7x7_3", column(192, 7)}}),
          branch({{"branch7x7dbl_1", conv(inner, 1)},
                  {"branch7x7dbl_2", column(inner, 7)},
                  {"branch7x7dbl_3", row(inner, 7)},
                  {"branch7x7dbl_4", column(inner, 7)},
                  {"branch7x7dbl_5", row(192, 7)}}),
          branch({kSmooth, {"branch_pool", conv(192, 1)}}),
      }};
}

ConcatBranches halving_d() {
  return {.branches = {
              branch({{"branch3x3_1", conv(192, 1)}, {"branch3x3_2", conv(320, 3, 2)}}),
              branch({{"branch7x7x3_1", conv(192, 1)},
                      {"branch7x7x3_2", row(192, 7)},
                      {"branch7x7x3_3", column(192, 7)},
                      {"branch7x7x3_4", conv(192, 3, 2)}}),
              kHalve,
          }};
}

// A row and a column side by side.
NamedLayer cross(const std::string& name) {
  return {"", ConcatBranches{.branches = {{name + "a", row(384, 3)}, {name + "b", column(384, 3)}}}};
}

ConcatBranches block_e() {
  return {
      .branches = {
          {"branch1x1", conv(320, 1)},
          branch({{"branch3x3_1", conv(384, 1)}, cross("branch3x3_2")}),
          branch({{"branch3x3dbl_1", conv(448, 1)}, {"branch3x3dbl_2", conv(384, 3, 1, 1)}, cross("branch3x3dbl_3")}),
          branch({kSmooth, {"branch_pool", conv(192, 1)}}),
      }};
}

}  // namespace

Sequential InceptionV3::layers() const {
  return {
      {"Conv2d_1a_3x3", conv(32, 3, 2)},  // 149
      {"Conv2d_2a_3x3", conv(32, 3)},
      {"Conv2d_2b_3x3", conv(64, 3, 1, 1)},
      {"maxpool1", kHalve},  // 73
      {"Conv2d_3b_1x1", conv(80, 1)},
      {"Conv2d_4a_3x3", conv(192, 3)},
      {"maxpool2", kHalve},  // 35
      {"Mixed_5b", block_a(32)},
      {"Mixed_5c", block_a(64)},
      {"Mixed_5d", block_a(64)},
      {"Mixed_6a", halving_b()},  // 17
      {"Mixed_6b", block_c(128)},
      {"Mixed_6c", block_c(160)},
      {"Mixed_6d", block_c(160)},
      {"Mixed_6e", block_c(192)},
      {"Mixed_7a", halving_d()},  // 8
      {"Mixed_7b", block_e()},
      {"Mixed_7c", block_e()},
      {"avgpool", GlobalAvgPool{}},
      {"dropout", Dropout{.rate = dropout}},
      Flatten{},
      {"fc", output_layer(classes)},
  };
}

}  // namespace nixie
