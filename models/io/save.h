// save and load: a model, or a model and its optimizer, in one checkpoint file.
//
//   save(model, optimizer, "run.h5");
//   ...
//   load(model, optimizer, "run.h5");      // built as before: training continues exactly where it was
#pragma once

#include <filesystem>

#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

/// Writes every parameter and buffer, by name, or leaves the old file at `path` (see save_checkpoint). Throws
/// Fault::non_finite for what `load` would refuse: values that are not finite, or outside the range of their kind.
void save(const Model& model, const std::filesystem::path& path);
/// The same with the optimizer's buffers, its counter and the numbers of its schedule and loss scale.
void save(const Model& model, const Optimizer& optimizer, const std::filesystem::path& path);

/// Sets everything that `save` wrote. Throws Fault::checkpoint, before anything is set, for a file that is damaged or
/// of another model or optimizer: other names, shapes or types.
void load(const Model& model, const std::filesystem::path& path);
void load(const Model& model, const Optimizer& optimizer, const std::filesystem::path& path);

}  // namespace nixie
