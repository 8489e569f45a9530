// The datasets that a configuration can name.
#pragma once

#include "nixie/data/arrays.h"
#include "nixie/data/cifar.h"
#include "nixie/data/generated.h"
#include "nixie/data/glyphs.h"
#include "nixie/data/image_folder.h"
#include "nixie/data/mnist.h"
#include "nixie/data/packed.h"

namespace nixie {

using AllDatasets = Types<Mnist, Cifar10, Cifar100, ImageFolder, Packed, Arrays, Glyphs, Generated>;

}  // namespace nixie
