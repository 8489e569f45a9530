// `struct Body` for hand-written kernels over channels-last images.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nixie/backends/cuda/generate/body.h"
#include "nixie/backends/cuda/generate/program.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// The members of a Body that load what a kernel reads for `lanes` neighbours along the last axis of its space, and
/// that compute and store what follows their sums, of type `sums`, the head's values. A position counts all other axes.
std::string load_and_run(BodyWriter& body, const Kernel& kernel, int lanes, const std::string& sums);

/// The text of `struct Body` for kernels that make some neighbouring channels of a pixel at a time (conv_fprop_sm90.cuh
/// says how they call it), and what it points to.
struct NhwcFunctor {
  std::string text;
  std::vector<Argument> arguments;
};
struct Pointer {
  std::string type, name;
  Argument argument;
};
/// `more`: further members. Reductions of the last stage are accumulated by run(), as channel_parts.cuh says.
NhwcFunctor nhwc_functor(const Plan& plan, const Kernel& kernel, const std::vector<Pointer>& more = {}, int lanes = 8);

}  // namespace nixie::cuda
