// RunCurves: metrics.csv and timing.csv of a run folder as points over the step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nixie/core/files/folder.h"

namespace nixie {

using Curve = std::vector<std::pair<double, double>>;  ///< step, value

struct RunCurves {
  Curve train_loss = {}, test_loss = {}, train_accuracy = {}, test_accuracy = {}, rate = {};
  Curve images_per_second = {}, seconds = {};
  double steps_per_epoch = 0;                               ///< as far as the rows tell; 0: they are all of one epoch
  std::vector<std::pair<std::string, Curve>> metrics = {};  ///< of evaluations, besides loss and accuracy, by name
};

/// Curves without points where a file or a column is missing.
RunCurves read_curves(const Folder& run);

}  // namespace nixie
