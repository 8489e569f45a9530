// Validation: a backend whose every kernel is replayed on another one and compared.
#pragma once

#include <memory>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// A backend that does what `device` does, kernel by kernel (a Group of kernels as one): each runs alone, then again on
/// `reference` from the same memory, and what it wrote is compared: integers exactly, numbers within a few
/// roundings of the largest value of the slot or, where terms cancel, of those terms. The first that differs
/// throws Fault::device with the kernel, the slot, the element and both values. It plans as `device` does and keeps its
/// arena; it knows both only as Backends, so any two will do.
std::shared_ptr<Backend> make_validating_backend(std::shared_ptr<Backend> device, std::shared_ptr<Backend> reference);

}  // namespace nixie
