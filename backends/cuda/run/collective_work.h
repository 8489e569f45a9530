// Work of NCCL: the collectives of a group as one launch.
#pragma once

#include <memory>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/run/work.h"

namespace nixie::cuda {

/// Joins the ranks on the first call; all ranks make it at the same place. `device` must be current.
std::unique_ptr<GroupWork> make_collective_work(const Device& device, const std::vector<CollectiveCall>& calls);

}  // namespace nixie::cuda
