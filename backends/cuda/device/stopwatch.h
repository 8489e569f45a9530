// The stopwatch of a device: events on its stream, independent of the host's speed.
#pragma once

#include "nixie/backends/cuda/device/device.h"

namespace nixie::cuda {

std::unique_ptr<Stopwatch> make_stopwatch(std::shared_ptr<Device> device);

}  // namespace nixie::cuda
