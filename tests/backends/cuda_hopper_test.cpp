// The Hopper kernels without a GPU: every tile that the benchmark nets use compiles, without spills and with the tensor
// cores' instructions as written.
#ifdef NIXIE_WITH_CUDA
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "backends/cuda/jit.h"

namespace nixie::cuda {
namespace {

using Defines = std::map<std::string, int>;

std::string source_of(const std::string& file, const Defines& defines) {
  std::string source;
  for (const auto& [name, value] : defines) source += fmt::format("#define {} {}\n", name, value);
  return source + fmt::format("#include \"{}\"\n", file);
}

Defines with(Defines base, const Defines& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

void expect_clean(const std::vector<std::string>& sources, const std::string& architecture) {
  const std::vector<Cubin> cubins = compile_sources(sources, architecture);
  ASSERT_EQ(cubins.size(), sources.size());
  for (std::size_t i = 0; i < cubins.size(); ++i) {
    EXPECT_FALSE(cubins[i].code.empty());
    EXPECT_EQ(resource_use(cubins[i].log).spilled_bytes, 0) << cubins[i].log << sources[i];
    // C7510, C7512: products made to wait for each other; C7508: setmaxnreg ignored.
    for (const char* message : {"warning", "C7508", "C7510", "C7512"})
      EXPECT_EQ(cubins[i].log.find(message), std::string::npos) << cubins[i].log << sources[i];
  }
}

const Defines kLayer = {{"CONV_C", 128},    {"CONV_K", 256},       {"CONV_R", 3},          {"CONV_S", 3},
                        {"CONV_P", 13},     {"CONV_Q", 13},        {"CONV_STRIDE_H", 1},   {"CONV_STRIDE_W", 1},
                        {"CONV_PAD_H", 1},  {"CONV_PAD_W", 1},     {"CONV_DILATION_H", 1}, {"CONV_DILATION_W", 1},
                        {"CONV_SLICE", 64}, {"CONV_CONSUMERS", 2}, {"CONV_MMA_M", 1},      {"CONV_TILE_N", 256},
                        {"CONV_STAGES", 4}, {"NIXIE_BF16", 0}};

TEST(CudaHopper, ForwardAndInputGradientTiles) {
  const Defines forward = with(kLayer, {{"CONV_STAGING", 2},
                                        {"CONV_DEFER", 0},
                                        {"CONV_TRANSPOSED_W", 0},
                                        {"CONV_BIAS", 1},
                                        {"CONV_RELU", 1},
                                        {"CONV_GATE", 0}});
  const Defines gradient = {{"CONV_TRANSPOSED_W", 1}, {"CONV_BIAS", 0}, {"CONV_RELU", 0}, {"CONV_GATE", 1}};
  std::vector<std::string> sources;
  for (const Defines& tile : {Defines{},
                              {{"CONV_MMA_M", 2}, {"CONV_TILE_N", 128}},
                              {{"CONV_CONSUMERS", 3}, {"CONV_TILE_N", 128}},
                              {{"CONV_CONSUMERS", 3}, {"CONV_TILE_N", 128}, {"CONV_DEFER", 1}},
                              {{"CONV_TILE_N", 192}, {"CONV_STAGES", 5}, {"CONV_STAGING", 1}, {"CONV_DEFER", 1}},
                              {{"CONV_MMA_M", 2}, {"CONV_TILE_N", 64}, {"CONV_K", 64}},
                              {{"CONV_MMA_M", 2}, {"CONV_TILE_N", 96}, {"CONV_K", 96}}}) {
    for (int bf16 : {0, 1}) {
      sources.push_back(source_of("conv_fprop_sm90.cuh", with(with(forward, tile), {{"NIXIE_BF16", bf16}})));
      sources.push_back(
          source_of("conv_fprop_sm90.cuh", with(with(with(forward, tile), gradient), {{"NIXIE_BF16", bf16}})));
    }
  }
  sources.push_back(source_of("conv_fprop_sm90.cuh", with(forward, {{"CONV_C", 96}, {"CONV_SLICE", 32}})));
  expect_clean(sources, "sm_90a");
}

TEST(CudaHopper, FilterGradientTiles) {
  const Defines base = with(kLayer, {{"CONV_BIAS_GRAD", 1}, {"CONV_OUT_FLOAT", 1}});
  std::vector<std::string> sources;
  for (const Defines& tile : {Defines{},
                              {{"CONV_BIAS_GRAD", 0}},
                              {{"CONV_TILE_N", 192}, {"CONV_STAGES", 5}},
                              {{"CONV_MMA_M", 2}, {"CONV_TILE_N", 128}, {"CONV_OUT_FLOAT", 0}},
                              {{"CONV_CONSUMERS", 3}, {"CONV_TILE_N", 128}, {"CONV_K", 192}},
                              {{"CONV_C", 96}, {"CONV_SLICE", 32}, {"CONV_MMA_M", 2}, {"CONV_TILE_N", 96}}})
    for (int bf16 : {0, 1})
      sources.push_back(source_of("conv_wgrad_sm90.cuh", with(with(base, tile), {{"NIXIE_BF16", bf16}})));
  expect_clean(sources, "sm_90a");
}

TEST(CudaHopper, FirstLayersOfStrideFour) {
  const Defines alexnet = {{"CONV_H", 224},  {"CONV_W", 224},  {"CONV_PAD", 2},   {"CONV_K", 64},
                           {"CONV_R", 11},   {"CONV_S", 11},   {"CONV_BAND", 11}, {"CONV_BUFFERS", 2},
                           {"CONV_BIAS", 1}, {"CONV_RELU", 1}, {"NIXIE_BF16", 0}, {"CONV_OUT_FLOAT", 1}};
  const Defines overfeat =
      with(alexnet, {{"CONV_H", 231}, {"CONV_W", 231}, {"CONV_PAD", 0}, {"CONV_K", 96}, {"CONV_BAND", 4}});
  expect_clean(
      {source_of("conv_s2d_sm90.cuh", alexnet),
       source_of("conv_s2d_sm90.cuh", with(alexnet, {{"CONV_BAND", 5}, {"CONV_BUFFERS", 3}, {"NIXIE_BF16", 1}})),
       source_of("conv_s2d_sm90.cuh", overfeat)},
      "sm_90a");
}

TEST(CudaHopper, WhatNeedsNoHopperCompilesForOlderAndNewerChips) {
  const Defines first = {{"CONV_H", 224},  {"CONV_W", 224},  {"CONV_PAD", 1},       {"CONV_K", 64},   {"CONV_BIAS", 1},
                         {"CONV_RELU", 1}, {"CONV_POOL", 1}, {"CONV_OUT_FLOAT", 1}, {"NIXIE_BF16", 0}};
  const Defines pool = {{"POOL_C", 64},       {"POOL_H", 55},    {"POOL_W", 55},    {"POOL_P", 27},
                        {"POOL_Q", 27},       {"POOL_R", 3},     {"POOL_S", 3},     {"POOL_STRIDE_H", 2},
                        {"POOL_STRIDE_W", 2}, {"POOL_PAD_H", 0}, {"POOL_PAD_W", 0}, {"POOL_GATE", 0},
                        {"NIXIE_BF16", 0}};
  for (const char* architecture : {"sm_90a", "sm_80", "sm_100"})
    expect_clean(
        {source_of("conv_c3.cuh", first), source_of("conv_c3.cuh", with(first, {{"CONV_POOL", 0}, {"NIXIE_BF16", 1}})),
         source_of("pool_max.cuh", pool),
         source_of("pool_max.cuh", with(pool, {{"POOL_PAD_H", 1}, {"POOL_GATE", 1}, {"NIXIE_BF16", 1}}))},
        architecture);
}

}  // namespace
}  // namespace nixie::cuda
#endif
