// Every layer, loss and metric that a configuration can name.
#pragma once

#include "nixie/layers/activation.h"
#include "nixie/layers/auxiliary_loss.h"
#include "nixie/layers/conv.h"
#include "nixie/layers/dropout.h"
#include "nixie/layers/group_norm.h"
#include "nixie/layers/linear.h"
#include "nixie/layers/loss.h"
#include "nixie/layers/metric.h"
#include "nixie/layers/norm.h"
#include "nixie/layers/pool.h"
#include "nixie/layers/sequential.h"
#include "nixie/layers/shape_layers.h"
#include "nixie/layers/squeeze_excite.h"
#include "nixie/layers/upsample.h"

namespace nixie {

using AllLayers =
    Types<Linear, Embedding, Conv1d, Conv2d, Conv3d, Deconv1d, Deconv2d, Deconv3d, MaxPool1d, MaxPool2d, MaxPool3d,
          AvgPool1d, AvgPool2d, AvgPool3d, L2Pool1d, L2Pool2d, L2Pool3d, GlobalAvgPool, GlobalMaxPool,
          AdaptiveAvgPool2d, Maxout, BatchNorm, LayerNorm, GroupNorm, Lrn, Dropout, Dropout2d, DropPath, Flatten,
          ReshapeTo, SliceRange, Chunk, PermuteAxes, PadSides, Upsample, PixelShuffle, ChannelShuffle, Scale,
          SqueezeExcite, Relu, ReluClipped, Sigmoid, Tanh, Softmax, Elu, LeakyRelu, Prelu, Silu, HardSwish, HardSigmoid,
          Softplus, Gelu, Identity, Sequential, ConcatBranches, SumBranches, ProductBranches, Shared, AuxiliaryLoss>;

}  // namespace nixie
