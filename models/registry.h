// Every net that a configuration can name.
#pragma once

#include "nixie/models/model.h"
#include "nixie/models/nets/nets.h"

namespace nixie {

using AllModels =
    Types<Mlp, Lenet, Alexnet, Overfeat, Vgg<11>, Vgg<13>, Vgg<16>, Vgg<19>, Vgg<11, true>, Vgg<13, true>,
          Vgg<16, true>, Vgg<19, true>, Googlenet, GooglenetBn, InceptionV3, Resnet<18>, Resnet<34>, Resnet<50>,
          Resnet<101>, Densenet121, MobilenetV1, MobilenetV2, MobilenetV3<true>, MobilenetV3<false>, EfficientnetB0,
          ConvnextTiny, Regnet400<false>, Regnet400<true>, Squeezenet>;

}  // namespace nixie
