// Kernels that rewrites add to plans: copies of operands, and heads split from their epilogues.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Adds a slot in the arena and returns its number.
int add_slot(Plan& plan, const std::string& name, Dtype dtype, const Shape& shape, const Strides& strides);

/// The access at each position of an operand.
Access access_of(const Operand& operand);
/// The index of an access among others, to which it is added if it is new.
int find_or_add(std::vector<Access>& accesses, const Access& access);

/// Splits a kernel in two: one stores its head's result in a new slot, with these strides, in the accumulation type;
/// the other has its stages and reads that slot.
std::pair<Kernel, Kernel> split_head(Plan& plan, const Kernel& kernel, const Strides& strides,
                                     const std::string& label);

/// Replaces each instruction that reads the head; `by` appends
/// the new instructions and returns their result's register.
void replace_head(Kernel& kernel, const std::function<int(InstructionBuilder&, const Instruction&)>& by);

/// Whether a kernel's results depend on the position: coordinates, random numbers.
bool depends_on_position(const Kernel& kernel);

/// A kernel that copies an operand to a new slot with these strides and this type; the operand becomes the copy.
Kernel pack(Plan& plan, Operand& operand, const Strides& strides, Dtype dtype, const std::string& name);

/// A kernel that copies f32 images [N, C, H, W] to a new slot, channels-last, of shape `padded`, from column `pad`
/// on; zeros fill the columns before and after them and the additional channels.
Kernel pad_images(Plan& plan, const Operand& images, const Shape& padded, std::int64_t pad);

}  // namespace nixie::cuda
