// Validation: a backend whose every group of kernels is replayed on another one and compared.
#pragma once

#include <memory>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// A backend that does what `device` does, group by group: each group runs alone, then its members run on `reference`
/// from the same memory, and what both wrote is compared: integers exactly, numbers within a few roundings of the
/// largest value of the slot or, where terms cancel, of those terms. The first group that differs throws Fault::device
/// with its members, the slot, the element and both values. It plans as `device` does, but keeps memory for what only
/// members touch; that holds what `reference` computed. It knows both only as Backends, so any two will do.
std::shared_ptr<Backend> make_validating_backend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference);

}  // namespace nixie
