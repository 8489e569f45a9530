// The executable of a plan: its work in one arena, replayed as one CUDA graph.
#pragma once

#include <memory>

#include "backends/cuda/device.h"
#include "core/backend.h"

namespace nixie::cuda {

/// A StickyError that came while one kernel ran alone; its line names the kernel.
class KernelFailure : public Error {
 public:
  using Error::Error;
};

enum class Waiting { as_little_as_possible, after_every_kernel };

/// Compiles every kernel of a plan (in parallel, through the cache) and allocates its arena. Throws Fault::memory with
/// the largest slots when that does not fit. Waiting after every kernel (also asked for by NIXIE_SYNC=1) makes a
/// failure name its kernel; NIXIE_TRACE=time prints how long each takes.
std::unique_ptr<Executable> make_executable(std::shared_ptr<Device> device, const Plan& plan,
                                            Waiting waiting = Waiting::as_little_as_possible);

}  // namespace nixie::cuda
