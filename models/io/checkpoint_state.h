// The state of models and optimizers in a Checkpoint, shared by save() and the trainer.
#pragma once

#include <map>
#include <string>

#include "nixie/models/io/checkpoint.h"
#include "nixie/models/model.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {

/// Adds every parameter and buffer of a model, by name.
void add(const Model& model, Checkpoint& checkpoint);
/// Adds an optimizer's rule and buffers; numbers of all parameters (`shared.step`) go to `checkpoint.state`.
void add(const Optimizer& optimizer, Checkpoint& checkpoint);

/// Whether an optimizer's Variable is a number shared by all parameters.
bool is_shared(const Variable& variable);
/// The first of a checkpoint's numbers shared by all parameters that is outside the range its owner states, as
/// `shared.step 3.5, expected a whole number, 0 to 3`; "" if there is none. `steps` are those done, if that is known.
std::string shared_fault(const Checkpoint::Values& state, const Optimizer& optimizer,
                         std::optional<std::int64_t> steps = std::nullopt);
/// Throws Fault::checkpoint, naming `file` and the array, if an element, of an average too, is outside the range that
/// its Variable's owner states.
void check_ranges(const Checkpoint& checkpoint, const std::string& file, const Model& model,
                  const Optimizer* optimizer = nullptr);
/// Throws Fault::non_finite if `restore` would refuse what `add` added, for a value outside its range: no file is
/// replaced by one that cannot be loaded.
void check_saves(const Checkpoint& checkpoint, const Model& model, const Optimizer* optimizer = nullptr);
/// The types and shapes of the arrays that `add` adds.
ArrayForms forms_of(const Model& model);
std::map<std::string, ArrayForms> forms_of(const Optimizer& optimizer);

/// Sets what `add` added; without an optimizer, the model alone. Throws Fault::checkpoint naming `file`, before
/// anything is set, if the checkpoint is of another model or optimizer (other names, shapes or types), or a value is
/// outside its range.
void restore(const Checkpoint& checkpoint, const std::string& file, const Model& model,
             const Optimizer* optimizer = nullptr);

}  // namespace nixie
