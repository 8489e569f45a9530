// Estimated times of convolutions on sm_90a: of 16-bit operands on tensor cores, and of f32 operands: on tensor cores,
// once the operands are split into planes of halves, or by multiply-adds (tf32: by the portable tensor-core product).
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/generate/portable.h"

namespace nixie::cuda {

/// The work of conv_fprop_sm90 or conv_wgrad_sm90.
Work tensor_core_work(const ConvProblem& conv, const Chip& chip);
/// The work of finding the scale of an f32 operand of so many elements and of filling its planes.
Work planes_work(double elements, int planes);
/// Estimates the kernel that computes f32 operands without splitting them: conv_ffma or the portable product, whichever
/// the families choose.
Estimate unsplit_estimate(const Plan& plan, const Kernel& kernel, const Chip& chip);
/// Estimates the tensor-core kernel for `split`, with the planes of both operands. Heads that read the same operand
/// share its planes, and so their time.
Estimate split_estimate(const Plan& plan, const Kernel& kernel, const ConvProblem& split, const Chip& chip);

}  // namespace nixie::cuda
