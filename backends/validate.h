// Validation: a backend that replays every group of kernels on another backend and compares the results.
#pragma once

#include <memory>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Wraps `device` and runs plans group by group: each group runs alone, then its members run on `reference`
/// from the same memory, and the results are compared: integers exactly, floats within a few roundings of the
/// largest value of the slot or, where terms cancel, of those terms. The first group that differs throws Fault::device
/// with its members, the slot, the element and both values. It plans as `device` does, but keeps memory for slots that
/// only members use; these hold the results of `reference`. Any two Backends work.
std::shared_ptr<Backend> make_validating_backend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference);

}  // namespace nixie
