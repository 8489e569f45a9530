// The datasets that a configuration can name.
#pragma once

#include "data/generated.h"
#include "data/glyphs.h"
#include "data/mnist.h"

namespace nixie {

using AllDatasets = Types<Mnist, Glyphs, Generated>;

}  // namespace nixie
