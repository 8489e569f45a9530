// Computes f32 convolutions and matrix products as products of halves: operands are split into planes of halves with a
// scale.
//
// The scale is a power of two that brings the largest element of an operand to 2^14. One plane holds 11 bits of every
// element above 2^-28 of the largest, which is tf32's precision. Two planes, the second 2^11 times the rounding error
// of the first, hold 22 bits and more; three products of planes (conv_fprop_sm90.cuh) then have about the error of an
// f32 sum (docs/cuda.md has the figures). A non-finite element stays itself or becomes NaN, and does not count for
// the scale.
#include "nixie/backends/cuda/rewrite/split_fp32_to_fp16.h"

#include <algorithm>

#include "nixie/backends/cuda/generate/instruction_builder.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// What to read at each position of an array of planes; outside reads zero.
struct Reading {
  Shape shape = {};
  Access access = {};
};
Reading reading(const Operand& operand) {
  return {operand.shape, {.slot = operand.slot, .offset = operand.offset, .strides = operand.strides}};
}

// kernel: scales = {s, 1 / s}, where s brings the largest magnitude to [2^14, 2^15).
Kernel find_scale(const Operand& from, int scales) {
  Kernel kernel{.label = "scale to halves", .domain = from.shape};
  for (int axis = 0; axis < from.shape.rank(); ++axis) kernel.reduced.push_back(axis);
  kernel.loads = {reading(from).access};
  const Strides repeated(at(from.shape.rank()), 0);
  kernel.stores = {{.slot = scales, .strides = repeated}, {.slot = scales, .offset = 1, .strides = repeated}};
  kernel.carried = {Dtype::f32};
  InstructionBuilder all;
  const int x = all.load(0);
  const int size =
      all.apply(Primitive::select, all.apply(Primitive::is_finite, x), all.apply(Primitive::abs, x), all.number(0));
  InstructionBuilder kept;
  const int largest = kept.add({.primitive = Primitive::carried});
  const int binade = kept.apply(Primitive::floor, kept.apply(Primitive::log2, largest));
  // So that neither it nor one over it is a subnormal; zeros have no binade and take the largest scale.
  const int bounded =
      kept.apply(Primitive::max, kept.apply(Primitive::min, binade, kept.number(114)), kept.number(-112));
  const int scale = kept.apply(Primitive::exp2, kept.apply(Primitive::sub, kept.number(14), bounded));
  const int inverse = kept.apply(Primitive::exp2, kept.apply(Primitive::sub, bounded, kept.number(14)));
  kernel.stages = {{.body = std::move(all.body), .reductions = {{ReduceKind::max, size, 0}}},
                   {.full = false, .body = std::move(kept.body), .stores = {{scale, 0}, {inverse, 1}}}};
  return kernel;
}

// kernel: the planes of the values read, channels-last or as the rows of a matrix.
Kernel fill_planes(Plan& plan, const Reading& from, bool two, Planes& planes) {
  Kernel kernel{.label = two ? "two half planes" : "half plane", .domain = from.shape};
  const Strides strides = from.shape.channels_last();
  kernel.loads = {from.access, {.slot = planes.scales, .strides = Strides(at(from.shape.rank()), 0)}};
  const auto plane = [&](const std::string& name) {
    const int slot = add_slot(plan, name, Dtype::f16, from.shape, strides);
    kernel.stores.push_back({.slot = slot, .strides = strides});
    return Operand{slot, 0, from.shape, strides};
  };
  InstructionBuilder code;
  const int x = code.apply(Primitive::mul, code.load(0), code.load(1));
  planes.high = plane("high half");
  Stage stage;
  if (two) {
    // x to 11 bits: by a multiplication (Veltkamp), or, where halves are subnormal, to a multiple of 2^-24.
    const int large = code.apply(Primitive::mul, x, code.number(8193));
    const int normal = code.apply(Primitive::sub, large, code.apply(Primitive::sub, large, x));
    const int magic = code.number(0.75);
    const int small = code.apply(Primitive::sub, code.apply(Primitive::add, x, magic), magic);
    const int is_small = code.apply(Primitive::less, code.apply(Primitive::abs, x), code.number(0x1p-14));
    const int high = code.apply(Primitive::select, is_small, small, normal);
    const int low = code.apply(Primitive::mul, code.apply(Primitive::sub, x, high), code.number(2048));
    planes.low = plane("low half");
    stage.stores = {{high, 0}, {low, 1}};
  } else {
    stage.stores = {{x, 0}};
  }
  stage.body = std::move(code.body);
  kernel.stages = {std::move(stage)};
  return kernel;
}

// A first layer's few channels: the numbers of a row of its window become the channels of every column of outputs, S *
// C of them and zeros to a multiple of 16. Images are copied once with their padding, filters in place.
class RowPacker {
 public:
  RowPacker(Plan& plan, const ConvProblem& conv) : plan_(plan), conv_(conv) {}
  Reading images(const Operand& x, std::vector<Kernel>& kernels) const {
    const std::int64_t c = conv_.channels, width = conv_.width + 2 * conv_.pad[1];
    const Shape padded{conv_.images, c, conv_.height, width};
    const Strides strides = padded.channels_last();
    kernels.push_back(pad_images(plan_, x, padded, conv_.pad[1]));
    const int slot = kernels.back().stores[0].slot;
    const Shape shape{conv_.images, channels(), conv_.height, conv_.q};
    return row({.slot = slot, .strides = {strides[0], 1, strides[2], conv_.stride[1] * c}}, shape);
  }
  Reading filters(Operand w, std::vector<Kernel>& kernels) const {
    if (w.strides != w.shape.channels_last())
      kernels.push_back(pack(plan_, w, w.shape.channels_last(), Dtype::f32, "filter, channels last"));
    return row({.slot = w.slot, .offset = w.offset, .strides = {w.strides[0], 1, w.strides[2], 0}},
               {conv_.filters, channels(), conv_.r, 1});
  }

 private:
  std::int64_t channels() const { return (conv_.s * conv_.channels + 15) / 16 * 16; }
  Reading row(Access access, const Shape& shape) const {
    access.inside = {{0, shape[0]}, {0, conv_.s * conv_.channels}, {0, shape[2]}, {0, shape[3]}};
    return {shape, access};
  }
  Plan& plan_;
  const ConvProblem conv_;
};

Operand transpose(const Operand& matrix) {
  return {matrix.slot, matrix.offset, {matrix.shape[1], matrix.shape[0]}, {matrix.strides[1], matrix.strides[0]}};
}

}  // namespace

void unscale_head(Kernel& kernel, const Planes& first, const Planes& second) {
  const Strides repeated(at(kernel.domain.rank()), 0);
  const int loads = static_cast<int>(kernel.loads.size());
  for (int scales : {first.scales, second.scales})
    kernel.loads.push_back({.slot = scales, .offset = 1, .strides = repeated});
  replace_head(kernel, [&](InstructionBuilder& code, const Instruction& head) {
    int result = code.add(head);
    for (int i : {0, 1}) result = code.apply(Primitive::mul, result, code.load(loads + i));
    return result;
  });
}

Planes Splitter::planes_of(const Kernel& kernel, int operand, const ConvProblem& conv, std::vector<Kernel>& added) {
  const Operand& from = kernel.head->operands[at(operand)];
  if (std::holds_alternative<Conv>(kernel.head->op)) return planes_of_layer(kernel, operand, conv, added);
  if (from.strides[1] == 1) return planes_of_matrix(from, conv.planes, added);
  Planes planes = planes_of_matrix(transpose(from), conv.planes, added);
  planes.high = transpose(planes.high);
  if (planes.low) planes.low = transpose(*planes.low);
  return planes;
}

// Of rows, which products by the matrix and by its transpose share.
Planes Splitter::planes_of_matrix(const Operand& from, int count, std::vector<Kernel>& added) {
  for (const Copy& copy : copies_)
    if (copy.from == from && copy.planes == count) return copy.made;
  Planes planes;
  planes.scales = add_slot(grouping_.plan, "scale to halves", Dtype::f32, Shape{2}, {1});
  added.push_back(find_scale(from, planes.scales));
  Kernel fill = fill_planes(grouping_.plan, reading(from), count == 2, planes);
  added.push_back(std::move(fill));
  copies_.push_back({.from = from, .planes = count, .made = planes});
  return planes;
}

Planes Splitter::planes_of_layer(const Kernel& kernel, int operand, const ConvProblem& conv,
                                 std::vector<Kernel>& added) {
  const Operand& from = kernel.head->operands[at(operand)];
  const bool images = operand == images_operand(conv.role);
  const bool rows = conv.by_rows && (images || conv.role != ConvRole::filter_grad);  // gradients read dy as it is
  const auto layer = std::get<ConvProblem>(conv_problem(grouping_.plan, kernel, Groups::any));
  for (const Copy& copy : copies_)
    if (copy.from == from && copy.planes == conv.planes && copy.by_rows == rows &&
        (!rows || (copy.stride == layer.stride && copy.pad == layer.pad)))
      return copy.made;
  Planes planes;
  planes.scales = add_slot(grouping_.plan, "scale to halves", Dtype::f32, Shape{2}, {1});
  added.push_back(find_scale(from, planes.scales));
  const RowPacker packer(grouping_.plan, layer);
  const Reading source = !rows ? reading(from) : images ? packer.images(from, added) : packer.filters(from, added);
  Kernel fill = fill_planes(grouping_.plan, source, conv.planes == 2, planes);
  added.push_back(std::move(fill));
  copies_.push_back({from, conv.planes, rows, layer.stride, layer.pad, planes});
  grouping_.splits.push_back({from, planes.high, planes.scales});
  return planes;
}

void Splitter::forget_copies_of_what_is_written(const Kernel& kernel) {
  std::erase_if(copies_, [&](const Copy& copy) { return writes(kernel, copy.from.slot); });
}

}  // namespace nixie::cuda
