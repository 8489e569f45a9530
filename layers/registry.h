// Every layer, loss and metric that a configuration can name.
#pragma once

#include "layers/activation.h"
#include "layers/conv.h"
#include "layers/dropout.h"
#include "layers/linear.h"
#include "layers/loss.h"
#include "layers/metric.h"
#include "layers/norm.h"
#include "layers/pool.h"
#include "layers/sequential.h"
#include "layers/shape_layers.h"

namespace nixie {

using AllLayers = Types<Linear, Embedding, Conv1d, Conv2d, Conv3d, Deconv1d, Deconv2d, Deconv3d, MaxPool1d, MaxPool2d,
                        MaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, L2Pool2d, GlobalAvgPool, GlobalMaxPool, Maxout,
                        BatchNorm, Lrn, Dropout, Flatten, ReshapeTo, Relu, ReluClipped, Sigmoid, Tanh, Softmax, Elu,
                        Gelu, Identity, Sequential, ConcatBranches, SumBranches>;

}  // namespace nixie
