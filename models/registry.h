// Every net that a configuration can name.
#pragma once

#include "nixie/models/model.h"
#include "nixie/models/nets/nets.h"

namespace nixie {

using AllModels = Types<Mlp, Lenet, Alexnet, Overfeat, Vgg<11>, Vgg<13>, Vgg<16>, Vgg<19>, Googlenet, Resnet<18>,
                        Resnet<34>, Resnet<50>>;

}  // namespace nixie
