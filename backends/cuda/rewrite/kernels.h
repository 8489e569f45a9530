// Kernels that rewrites add to plans: copies of operands, heads on their own, accesses to rows and columns of images.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "nixie/backends/cuda/generate/instruction_builder.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Adds a slot in the arena and gives back its number.
int add_slot(Plan& plan, const std::string& name, Dtype dtype, const Shape& shape, const Strides& strides);

/// The head of a kernel alone, into a new slot of these strides and the type it is accumulated in; and the kernel's
/// stages, reading it from there.
std::pair<Kernel, Kernel> split_head(Plan& plan, const Kernel& kernel, const Strides& strides,
                                     const std::string& label);

/// Puts other instructions in place of each one that reads the head; `by` adds them and gives back their result.
void replace_head(Kernel& kernel, const std::function<int(InstructionBuilder&, const Instruction&)>& by);

/// Whether what a kernel computes depends on the position: coordinates, random numbers.
bool depends_on_position(const Kernel& kernel);

/// A kernel that copies an operand into a new slot of these strides and this type; the operand becomes the copy.
Kernel pack(Plan& plan, Operand& operand, const Strides& strides, Dtype dtype, const std::string& name);

/// A kernel that copies f32 images [N, C, H, W] into a new slot, channels-last and of shape `padded`: from column `pad`
/// on, zeros before and after them and in further channels.
Kernel pad_images(Plan& plan, const Operand& images, const Shape& padded, std::int64_t pad);

}  // namespace nixie::cuda
