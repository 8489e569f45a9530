// NhwcFunctor: prints `struct Body` for hand-written kernels over channels-last images.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nixie/backends/cuda/generate/program.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// The source of `struct Body` for kernels that compute several neighbouring channels of a pixel at a time
/// (conv_fprop_sm90.cuh says how they call it), and its arguments.
struct NhwcFunctor {
  std::string text;
  std::vector<Argument> arguments;
};
struct Pointer {
  std::string type, name;
  Argument argument;
};
/// `more`: further members. run() accumulates reductions of the last stage, see channel_parts.cuh.
NhwcFunctor nhwc_functor(const Plan& plan, const Kernel& kernel, const std::vector<Pointer>& more = {}, int lanes = 8);

}  // namespace nixie::cuda
