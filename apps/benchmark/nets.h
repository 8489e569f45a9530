// The nets whose training step is timed, each with the batch it is timed at.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"

namespace nixie::benchmark {

struct Net {
  std::string name;
  AnyModel model;
  Shape sample;  ///< [C, H, W]
  int classes;
  int batch;
};

/// apps/peers/torch_steps.py holds the same list.
std::vector<Net> step_nets();

}  // namespace nixie::benchmark
