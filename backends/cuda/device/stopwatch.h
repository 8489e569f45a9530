// Times work on a device by events on its stream, independently of the host's speed.
#pragma once

#include "nixie/backends/cuda/device/device.h"

namespace nixie::cuda {

std::unique_ptr<Stopwatch> make_stopwatch(std::shared_ptr<Device> device);

}  // namespace nixie::cuda
