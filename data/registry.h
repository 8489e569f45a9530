// The datasets that a configuration can name.
#pragma once

#include "data/cifar.h"
#include "data/generated.h"
#include "data/glyphs.h"
#include "data/image_folder.h"
#include "data/mnist.h"

namespace nixie {

using AllDatasets = Types<Mnist, Cifar10, Cifar100, ImageFolder, Glyphs, Generated>;

}  // namespace nixie
