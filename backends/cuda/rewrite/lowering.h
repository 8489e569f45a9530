// Lowering: what the CUDA backend changes in a plan before memory is laid out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Splits kernels whose matrix product a library computes into the product and the stages that follow it, and copies
/// filters to channels-last where the images are. `hopper`: also makes plans fit Hopper's own kernels. `joins`: one
/// kernel may do the work of several in ways that only this backend runs; without, any backend can run the plan.
/// `winograd`: convolutions of f32 by multiply-adds, on Hopper of halves too, may be sums of fewer products
/// (winograd.cpp).
void lower(Plan& plan, bool hopper = false, bool joins = true, bool winograd = true);

/// Adds a slot in the arena and gives back its number.
int add_slot(Plan& plan, const std::string& name, Dtype dtype, const Shape& shape, const Strides& strides);

/// The head of a kernel alone, into a new slot of these strides and the type it is accumulated in; and the kernel's
/// stages, reading it from there.
std::pair<Kernel, Kernel> split_head(Plan& plan, const Kernel& kernel, const Strides& strides,
                                     const std::string& label);

/// A kernel that copies an operand into a new slot of these strides and this type; the operand becomes the copy.
Kernel pack(Plan& plan, Operand& operand, const Strides& strides, Dtype dtype, const std::string& name);

/// A kernel that copies f32 images [N, C, H, W] into a new slot, channels-last and of shape `padded`: from column `pad`
/// on, zeros before and after them and in further channels.
Kernel pad_images(Plan& plan, const Operand& images, const Shape& padded, std::int64_t pad);

/// Makes f32 convolutions that may round (Math::tf32), or be sums of several products (Math::fp32), read 16-bit copies
/// of their operands, so that Hopper's kernels take them.
void lower_to_halves(Plan& plan);
/// Whether the kernel finds the scale of such copies.
bool is_half_scale(const Kernel& kernel);

/// Computes f32 convolutions of 3x3 or 5x5, stride 1 and Math::ieee by Winograd's tiles where an estimate says that
/// this is faster, or wherever it can in tiles of `tile` x `tile` results, 2 or 4; with `halves` 16-bit ones of 3x3,
/// too, by estimate in tiles of 2x2. What it makes are kernels that any backend runs. Where the tiles' matrices would
/// take more than `most_bytes`, shares of the images make and use them one after the other.
void lower_to_winograd(Plan& plan, bool halves = false, int tile = 0, std::int64_t most_bytes = std::int64_t{1} << 30);
/// Before it: forward passes and filter gradients of strided convolutions become such ones where that is faster then,
/// or `wherever_possible`.
void lower_strided_convs(Plan& plan, bool wherever_possible);

/// Has kernels of max pooling gradients write those copies themselves, where nobody else reads the gradient.
void lower_half_pools(Plan& plan);

/// Makes first layers of floats, whose channels are no multiple of four, layers of rows of their windows.
void lower_float_rows(Plan& plan);

/// The images that an operand is made of, as an operand with the code that makes it (none where that only converts);
/// the operand itself where more than that was done, or where what it is made of changes.
Operand before_map(const std::vector<Kernel>& kernels, const Operand& operand);
/// Has kernels that read what a map makes of images of bytes compute it, where all of them can; any backend runs them.
void compute_bytes_where_read(Plan& plan);

/// A sum over images and pixels of a 4-D value, stored as it is: where the sums go, if the kernel is one.
const Access* stored_channel_sum(const Plan& plan, const Kernel& kernel, const Operand& of);

/// Whether a kernel reads a slot, writes it, does either.
bool reads(const Kernel& kernel, int slot);
bool writes(const Kernel& kernel, int slot);
bool touches(const Kernel& kernel, int slot);
/// The kernels that read or write a slot.
std::vector<std::size_t> readers_of(const Plan& plan, int slot);
std::vector<std::size_t> writers_of(const Plan& plan, int slot);
/// Whether the result of a head and all that it reads are f32.
bool all_f32(const Plan& plan, const Head& head);

/// Moves what follows a head into the head's kernel, copies operands of 16-bit convolutions to channels-last, and has
/// filter gradients sum the bias gradient on the way.
void lower_for_hopper(Plan& plan, bool joins, bool winograd);

/// First layers: shares packed images between the forward pass and the gradient; fuses a 3x3 layer with the max pooling
/// after it, so that the un-pooled output and its gradient are never written.
void lower_first_layers(Plan& plan);

/// Fuses max poolings over 2x2 into the convolutions before them that conv_halo_sm90.cuh computes, and into first
/// layers of stride 4: the un-pooled output is never written.
void lower_pooled_convs(Plan& plan);

}  // namespace nixie::cuda
