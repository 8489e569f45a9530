// NhwcFunctor: prints `struct Body` for hand-written kernels over channels-last images.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nixie/backends/cuda/generate/body.h"
#include "nixie/backends/cuda/generate/program.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// The members of a Body that load a kernel's inputs for `lanes` neighbours along the last axis of its space, and that
/// compute and store its epilogue from their sums, of type `sums`, the head's values. A position counts all other axes.
/// Members that some loops call besides load() and run().
struct FunctorMembers {
  bool prefetch = false;  ///< prefetch(position, channel, count): into L2, what load() reads for neighbouring channels
  /// Fixed and load(channel, Fixed&), which reads what depends on the channel alone; run() takes it, too. Without, as
  /// with more than kMostFixed words of it, load() reads these; with parts of channels run() always takes it.
  bool fixed = false;
  /// Accumulators of the last stage's reductions, which run() takes, and a pointer to the parts of these (parts.cuh).
  std::optional<Parts> leaves = {};
};
std::string load_and_run(BodyWriter& body, const Kernel& kernel, int lanes, const std::string& sums,
                         const FunctorMembers& members = {});

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
/// `more`: further pointers.
NhwcFunctor nhwc_functor(const Plan& plan, const Kernel& kernel, const std::vector<Pointer>& more = {}, int lanes = 8,
                         const FunctorMembers& members = {});

}  // namespace nixie::cuda
