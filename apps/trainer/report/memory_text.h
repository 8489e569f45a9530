// The memory of a run's arrays, and which of them are larger than people mean.
#pragma once

#include <string>

#include "nixie/apps/trainer/trainer.h"

namespace nixie {

/// `memory: parameters ..., optimizer ..., values of a training step ...`
std::string memory_text(Trainer& trainer);

/// A line for each array that is probably not meant to be so large: a linear layer over a whole image; "" without one.
std::string large_arrays_text(const Model& model);

}  // namespace nixie
