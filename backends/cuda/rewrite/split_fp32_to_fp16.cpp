// Computes f32 convolutions and matrix products as products of halves: operands are split into planes of halves with a
// scale for each channel.
//
// A scale is a power of two, so scaling is exact. Images x (or gradients dy) have one for each
// channel, which brings the channel's largest element to 2^14. Filters of a sum over these
// channels take up the inverse scales, so that each product of two elements keeps its share of the
// sum, and then have a scale for each channel of the result, by whose inverse the result is
// multiplied. A filter gradient has no such sum: its result is multiplied by the inverses of both.
//
// One plane holds 11 bits of every element above 2^-28 of the channel's largest, which is tf32's precision. Two planes,
// the second 2^11 times the rounding error of the first, hold 22 bits and more; three products of planes
// (conv_fprop_sm90.cuh) then have about the error of an f32 sum (docs/cuda.md has the figures). A non-finite element
// stays itself or becomes NaN, and does not count for the scale.
#include "nixie/backends/cuda/rewrite/split_fp32_to_fp16.h"

#include <algorithm>
#include <utility>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// An access at each position of a domain; outside reads zero.
struct Reading {
  Shape shape = {};
  Access access = {};
};
Reading reading(const Operand& operand) { return {operand.shape, access_of(operand)}; }

// The strides of one number for each index of an axis.
Strides along(int axis, int rank) {
  Strides strides(at(rank), 0);
  strides[at(axis)] = 1;
  return strides;
}
Access scale_of(const Planes& planes, Strides strides) {
  return {.slot = planes.scales, .strides = std::move(strides)};
}
Access inverse_of(const Planes& planes, Strides strides) {
  return {.slot = planes.scales, .offset = planes.count, .strides = std::move(strides)};
}
Planes with_scales(Plan& plan, std::int64_t count) {
  const Shape shape{2, count};
  return {.scales = add_slot(plan, "scales to halves", Dtype::f32, shape, shape.row_major()), .count = count};
}

// The value at a position times all factors.
int product_of_loads(InstructionBuilder& code, std::size_t loads) {
  int x = code.load(0);
  for (std::size_t i = 1; i < loads; ++i) x = code.apply(Primitive::mul, x, code.load(static_cast<int>(i)));
  return x;
}

// kernel: scales and their inverses; a scale brings the largest magnitude among the positions that share a place of
// `strides` to [2^14, 2^15).
Kernel find_scales(const Reading& from, const std::vector<Access>& factors, const Planes& planes,
                   const Strides& strides) {
  Kernel kernel{.label = "scales to halves", .domain = from.shape, .loads = {from.access}};
  kernel.loads.insert(kernel.loads.end(), factors.begin(), factors.end());
  for (int axis = 0; axis < from.shape.rank(); ++axis)
    if (strides[at(axis)] == 0) kernel.reduced.push_back(axis);
  kernel.stores = {scale_of(planes, strides), inverse_of(planes, strides)};
  kernel.carried = {Dtype::f32};
  InstructionBuilder all;
  const int x = product_of_loads(all, kernel.loads.size());
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

// kernel: the planes of the values read times the factors, in new slots of this shape, channels-last or as the rows of
// a matrix; `strides` are those of the slots over the domain.
Kernel fill_planes(Plan& plan, const Reading& from, const std::vector<Access>& factors, bool two, const Shape& shape,
                   const Strides& strides, Planes& planes) {
  Kernel kernel{.label = two ? "two half planes" : "half plane", .domain = from.shape, .loads = {from.access}};
  kernel.loads.insert(kernel.loads.end(), factors.begin(), factors.end());
  const auto plane = [&](const std::string& name) {
    const int slot = add_slot(plan, name, Dtype::f16, shape, shape.channels_last());
    kernel.stores.push_back({.slot = slot, .strides = strides});
    return Operand{slot, 0, shape, shape.channels_last()};
  };
  InstructionBuilder code;
  const int x = product_of_loads(code, kernel.loads.size());
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
// C of them and zeros to a multiple of 16. Images are copied once with their padding and scaled, filters scaled.
class RowPacker {
 public:
  RowPacker(Plan& plan, const ConvProblem& conv) : plan_(plan), conv_(conv) {}
  Reading images(const Operand& x, const std::vector<Access>& factors, std::vector<Kernel>& kernels) const {
    const std::int64_t c = conv_.channels, width = conv_.width + 2 * conv_.pad[1];
    const Shape padded{conv_.images, c, conv_.height, width};
    const Strides strides = padded.channels_last();
    Kernel copy = pad_images(plan_, x, padded, conv_.pad[1]);
    scale(copy, factors);
    const int slot = copy.stores[0].slot;
    kernels.push_back(std::move(copy));
    const Shape shape{conv_.images, channels(), conv_.height, conv_.q};
    return row({.slot = slot, .strides = {strides[0], 1, strides[2], conv_.stride[1] * c}}, shape);
  }
  Reading filters(Operand w, const std::vector<Access>& factors, std::vector<Kernel>& kernels) const {
    Kernel copy = pack(plan_, w, w.shape.channels_last(), Dtype::f32, "filter, channels last");
    scale(copy, factors);
    kernels.push_back(std::move(copy));
    return row({.slot = w.slot, .offset = w.offset, .strides = {w.strides[0], 1, w.strides[2], 0}},
               {conv_.filters, channels(), conv_.r, 1});
  }

 private:
  static void scale(Kernel& copy, const std::vector<Access>& factors) {
    copy.loads.insert(copy.loads.end(), factors.begin(), factors.end());
    InstructionBuilder code;
    copy.stages[0].stores[0].value = product_of_loads(code, copy.loads.size());
    copy.stages[0].body = std::move(code.body);
  }
  std::int64_t channels() const { return (conv_.s * conv_.channels + 15) / 16 * 16; }
  Reading row(Access access, const Shape& shape) const {
    access.inside = {{0, shape[0]}, {0, conv_.s * conv_.channels}, {0, shape[2]}, {0, shape[3]}};
    return {shape, access};
  }
  Plan& plan_;
  const ConvProblem conv_;
};

// Filters [K, C / groups, ...] with their groups as an axis of its own: how each position maps to filters, channels
// and the filters' elements. One group needs no axis.
struct GroupedFilters {
  GroupedFilters(const Operand& w, int groups) : groups(groups) {
    const std::int64_t k = w.shape[0] / groups, c = w.shape[1];
    std::vector<std::int64_t> sizes = w.shape.sizes();
    by_filter = along(0, w.shape.rank()), by_channel = along(1, w.shape.rank());
    if (groups > 1) {
      sizes[0] = k, sizes.insert(sizes.begin(), groups);
      by_filter.insert(by_filter.begin(), k), by_channel.insert(by_channel.begin(), c);
    }
    shape = Shape(sizes);
  }
  Strides of(Strides strides) const {  // strides of an array of the filters' shape, over the domain
    if (groups > 1) strides.insert(strides.begin(), strides[0] * shape[1]);
    return strides;
  }
  int groups;
  Shape shape;
  Strides by_filter, by_channel;
};

// kernel: a number for each channel, repeated for each filter that reads the channel.
std::pair<Kernel, Access> repeat_by_filter(Plan& plan, const Planes& images, const ConvProblem& layer) {
  const std::int64_t filters = layer.filters / layer.groups, channels = layer.channels / layer.groups;
  const Shape shape{layer.filters, channels}, domain{layer.groups, filters, channels};
  Kernel kernel{.label = "scales by filter", .domain = domain, .loads = {inverse_of(images, {channels, 0, 1})}};
  const int slot = add_slot(plan, "scales by filter", Dtype::f32, shape, shape.row_major());
  kernel.stores = {{.slot = slot, .strides = domain.row_major()}};
  kernel.stages = {{.body = {{.primitive = Primitive::load}}, .stores = {{0, 0}}}};
  return {std::move(kernel), {.slot = slot, .strides = {channels, 1, 0, 0}}};
}

Operand transpose(const Operand& matrix) {
  return {matrix.slot, matrix.offset, {matrix.shape[1], matrix.shape[0]}, {matrix.strides[1], matrix.strides[0]}};
}
Planes transpose(Planes planes) {
  planes.high = transpose(planes.high);
  if (planes.low) planes.low = transpose(*planes.low);
  return planes;
}

}  // namespace

void scale_head(Kernel& kernel, const std::vector<Access>& factors) {
  const int loads = static_cast<int>(kernel.loads.size());
  kernel.loads.insert(kernel.loads.end(), factors.begin(), factors.end());
  replace_head(kernel, [&](InstructionBuilder& code, const Instruction& head) {
    int result = code.add(head);
    for (int i = loads; i < static_cast<int>(kernel.loads.size()); ++i)
      result = code.apply(Primitive::mul, result, code.load(i));
    return result;
  });
}

SplitOperands Splitter::split(const Kernel& kernel, const ConvProblem& conv, std::vector<Kernel>& added) {
  const bool matrices = std::holds_alternative<Matmul>(kernel.head->op);
  const auto layer =
      matrices ? conv : std::get<ConvProblem>(conv_problem(grouping_.plan, kernel, Groups::any));  // not by rows
  // A matrix is split as the rows that it has in memory, which products by it and by its transpose share.
  std::array<Operand, 2> operands{kernel.head->operands[0], kernel.head->operands[1]};
  std::array<bool, 2> transposed{};
  for (std::size_t i : {0u, 1u})
    if (matrices && operands[i].strides[1] != 1) operands[i] = transpose(operands[i]), transposed[i] = true;
  const auto source = [&](std::size_t i, bool rows) {
    Source made{.from = operands[i], .planes = conv.planes, .by_rows = rows};
    if (rows) made.stride = layer.stride, made.pad = layer.pad;
    return made;
  };

  SplitOperands result;
  const int rank = kernel.domain.rank();
  if (conv.role == ConvRole::filter_grad) {
    result.planes = {images(source(0, false), layer, added), images(source(1, conv.by_rows), layer, added)};
    result.inverses = {inverse_of(result.planes[0], along(0, rank)), inverse_of(result.planes[1], along(1, rank))};
    if (layer.groups > 1) {
      auto [repeat, inverses] = repeat_by_filter(grouping_.plan, result.planes[1], layer);
      added.push_back(std::move(repeat));
      result.inverses[1] = std::move(inverses);
    }
  } else {
    result.planes[0] = images(source(0, conv.by_rows), layer, added);
    Source of_filters = source(1, conv.by_rows);
    of_filters.taken_up = result.planes[0].scales, of_filters.role = conv.role;
    result.planes[1] = filters(of_filters, layer, result.planes[0], added);
    result.inverses = {inverse_of(result.planes[1], along(1, rank))};
  }
  for (std::size_t i : {0u, 1u})
    if (transposed[i]) result.planes[i] = transpose(result.planes[i]);
  return result;
}

Planes Splitter::images(const Source& source, const ConvProblem& layer, std::vector<Kernel>& added) {
  if (const Planes* planes = made(source)) return *planes;
  Plan& plan = grouping_.plan;
  const Operand& from = source.from;
  const Strides by_channel = along(1, from.shape.rank());
  Planes planes = with_scales(plan, from.shape[1]);
  std::vector<Access> factors{scale_of(planes, by_channel)};
  added.push_back(find_scales(reading(from), {}, planes, by_channel));
  Reading values = reading(from);
  if (source.by_rows) {
    values = RowPacker(plan, layer).images(from, factors, added);
    factors.clear();
  }
  const Shape shape = values.shape;
  Kernel fill = fill_planes(plan, values, factors, source.planes == 2, shape, shape.channels_last(), planes);
  added.push_back(std::move(fill));
  copies_.push_back({source, planes});
  if (!source.by_rows) grouping_.splits.push_back({from, planes.high, planes.scales});
  return planes;
}

Planes Splitter::filters(const Source& source, const ConvProblem& layer, const Planes& images,
                         std::vector<Kernel>& added) {
  if (const Planes* planes = made(source)) return *planes;
  Plan& plan = grouping_.plan;
  const Operand& from = source.from;
  const bool output = source.role == ConvRole::output;
  const GroupedFilters grouped(from, layer.groups);
  const Strides &summed = output ? grouped.by_channel : grouped.by_filter,
                &kept = output ? grouped.by_filter : grouped.by_channel;
  Planes planes = with_scales(plan, output ? layer.filters : layer.channels);
  Reading values{grouped.shape, access_of(from)};
  values.access.strides = grouped.of(from.strides);
  std::vector<Access> factors{inverse_of(images, summed)};
  added.push_back(find_scales(values, factors, planes, kept));
  factors.push_back(scale_of(planes, kept));
  Shape shape = from.shape;
  Strides strides = grouped.of(shape.channels_last());
  if (source.by_rows) {
    values = RowPacker(plan, layer).filters(from, factors, added);
    factors.clear();
    shape = values.shape, strides = shape.channels_last();
  }
  Kernel fill = fill_planes(plan, values, factors, source.planes == 2, shape, strides, planes);
  added.push_back(std::move(fill));
  copies_.push_back({source, planes});
  return planes;
}

const Planes* Splitter::made(const Source& source) const {
  const auto copy = std::ranges::find(copies_, source, &Copy::source);
  return copy == copies_.end() ? nullptr : &copy->made;
}

void Splitter::forget_copies_of_what_is_written(const Kernel& kernel) {
  std::erase_if(copies_, [&](const Copy& copy) { return writes(kernel, copy.source.from.slot); });
}

}  // namespace nixie::cuda
