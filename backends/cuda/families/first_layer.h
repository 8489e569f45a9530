// First layers, of three channels, for kernels of their own: conv_s2d_sm90.cuh (stride 4) and conv_c3.cuh (3x3).
#pragma once

#include "nixie/backends/cuda/families/hopper_conv.h"

namespace nixie::cuda {

/// Images may be an operand that is made of what is stored. conv.bias_grad: as in HopperConv.
/// Stride 4: x is packed first. The forward kernel's last store, if no stage writes it, takes the packed images; the
/// gradient's third operand, if there is one, is them.
/// Stride 4 with a 2x2 max pooling fused, forward: as HopperConv::pooled says; conv.pooled is set.
/// 3x3 with a 2x2 max pooling fused: the forward kernel's stages are not run, only bias and ReLU; its stores take the
/// pooled output and the index. The gradient's operands are the pooled output's gradient, x and the index.
struct FirstLayer {
  enum class Kind { stride4, window3 } kind = Kind::stride4;
  HopperConv conv;
  bool extra = false;  ///< stride 4: that store or operand; 3x3: pooled
};

/// The layer, if its sizes suit these kernels.
std::optional<FirstLayer> fit_first_layer(const HopperConv& conv);
/// As hopper_conv_sizes and as_hopper_conv.
std::optional<FirstLayer> first_layer_sizes(const Plan& plan, const Kernel& kernel);
std::optional<FirstLayer> as_first_layer(const Plan& plan, const Kernel& kernel);
/// Whether such a forward pass of stride 4 can be pooled over windows of 2x2 on the way.
bool pools_first_layer(const FirstLayer& layer);
/// Whether the layer's kernels take images stored in this type, perhaps as an operand with code; they may lie in memory
/// as they like.
bool reads_images(const Plan& plan, const FirstLayer& layer, const Operand& images);

KernelCode generate_first_layer(const Plan& plan, const Kernel& kernel, const FirstLayer& layer);

/// How many 16-bit elements the packed images of a stride-4 layer are.
std::int64_t packed_elements(const HopperConv& conv);

/// max(head + b, 0) as one stage with one store, or part of that: which load is b (-1: none) and whether there is a
/// maximum.
struct BiasRelu {
  int bias = -1;
  bool relu = false;
};
std::optional<BiasRelu> bias_relu_of(const Kernel& kernel);

}  // namespace nixie::cuda
