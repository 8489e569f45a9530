// Maps products and convolutions to the templates' operands (kernels/portable/operands.cuh).
#include "nixie/backends/cuda/generate/products/product.h"

#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// How many neighbours along an axis can be read at once: they begin at multiples of it, and `extent` is one too.
int vector_width(const Operand& operand, int axis, std::int64_t extent, std::int64_t element_bytes) {
  if (operand.strides[at(axis)] != 1) return 1;
  int width = static_cast<int>(16 / element_bytes);
  const auto fits = [&] {
    if (extent % width != 0 || operand.offset % width != 0) return false;
    for (int other = 0; other < operand.shape.rank(); ++other)
      if (other != axis && operand.shape[other] > 1 && operand.strides[at(other)] % width != 0) return false;
    return true;
  };
  while (!fits()) width /= 2;
  return width;
}

// Whether tensor cores multiply operands of these types as they are, or 8-bit floats as f16.
bool meet_on_tensor_cores(const Plan& plan, const Head& head) {
  const Dtype a = dtype_of(plan, head.operands[0]), b = dtype_of(plan, head.operands[1]);
  if (multiplies_f8(plan, head)) return std::get<Matmul>(head.op).math != Math::ieee;
  return a == b && (size_of(a) == 2 || (a == Dtype::f32 && multiplies_tf32(head)));
}

std::int64_t operand_bytes(const Plan& plan, const Operand& operand) { return size_of(dtype_of(plan, operand.slot)); }

Product matmul_of(const Plan& plan, const Kernel& kernel) {
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  const int axes = kernel.domain.rank() - 2;
  Product p{.problem = "MatmulProblem",
            .words = "product of",
            .m = kernel.domain[-2],
            .n = kernel.domain[-1],
            .k = a.shape[-1]};
  std::vector<std::int64_t> batch;
  for (int axis = 0; axis < axes; ++axis) batch.push_back(kernel.domain[axis]), p.groups *= kernel.domain[axis];
  batch.push_back(1);  // the axis before which the last batch axis counts
  p.constants = constant("kBatchAxes", axes) + constant("kM", p.m, "Index") + constant("kN", p.n, "Index") +
                constant("kK", p.k, "Index") + per_axis("batch_size", batch) +
                per_axis("a_stride", a.strides, "Index") + per_axis("b_stride", b.strides, "Index");
  p.along_k_a = a.strides[at(axes + 1)] == 1;
  p.along_k_b = b.strides[at(axes)] == 1;
  const std::int64_t bytes_a = operand_bytes(plan, a), bytes_b = operand_bytes(plan, b);
  p.vector_a = p.along_k_a ? vector_width(a, axes + 1, p.k, bytes_a) : vector_width(a, axes, p.m, bytes_a);
  p.vector_b = p.along_k_b ? vector_width(b, axes, p.k, bytes_b) : vector_width(b, axes + 1, p.n, bytes_b);
  return p;
}

// The step between neighbouring pixels, of all images one after the other; none where it differs. A window of one tap
// needs to know no more of them.
std::optional<std::int64_t> pixel_step(const Shape& images, const Strides& strides) {
  std::int64_t step = 0;
  std::optional<std::int64_t> next;
  for (int axis = images.rank(); axis-- > 0;) {
    const std::int64_t stride = strides[at(axis)];
    if (axis == 1 || images[axis] == 1) continue;
    if (next && stride != *next) return {};
    if (!next) step = stride;
    next = stride * images[axis];
  }
  return step;
}

// Makes runs of `extent` neighbours be read by pieces of 8 halves that begin anywhere, if that is less work: such a
// piece takes two loads and some twenty instructions.
void read_ragged(bool& ragged, int& width, std::int64_t extent, std::int64_t element_bytes) {
  constexpr int kWidth = 8, kLoads = 2;
  if (element_bytes != 2 || width >= kWidth || kLoads * ceil_div(extent, kWidth) >= extent / width) return;
  ragged = true, width = kWidth;
}

Product conv_of(const Plan& plan, const Kernel& kernel, const Conv& conv) {
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  const Shape& domain = kernel.domain;
  const bool output = conv.role == ConvRole::output, input_grad = conv.role == ConvRole::input_grad;
  const Shape& x = output ? first.shape : input_grad ? domain : second.shape;
  const Shape& w = output || input_grad ? second.shape : domain;
  const Shape& y = output ? domain : first.shape;
  const Strides none(at(domain.rank()), 0);
  const Strides& x_strides = output ? first.strides : input_grad ? none : second.strides;
  const Strides& w_strides = output || input_grad ? second.strides : none;
  const Strides& y_strides = output ? none : first.strides;
  const std::int64_t channels = w[1], filters = w[0] / conv.groups;
  std::int64_t window = 1, x_pixels = 1, y_pixels = 1;
  for (std::int64_t size : tail(w, 2)) window *= size;
  for (std::int64_t size : tail(x, 2)) x_pixels *= size;
  for (std::int64_t size : tail(y, 2)) y_pixels *= size;

  Product p{.groups = conv.groups, .one_tap = window == 1, .is_conv = true};
  const Strides& stepped = input_grad ? y_strides : x_strides;  // what runs are part of
  // Runs that are filled up would move the groups of rounded sums, and so would another order of terms.
  const bool rounded = std::holds_alternative<RoundedProduct>(kernel.head->op);
  const bool channels_inner = stepped[1] == 1, ragged = !rounded && meet_on_tensor_cores(plan, *kernel.head);
  const std::int64_t first_bytes = operand_bytes(plan, first), second_bytes = operand_bytes(plan, second);
  // Where neighbouring pixels are neighbours in memory, and their taps too, a row of the window is one run.
  const std::size_t last = at(domain.rank() - 1);
  const bool rows = !input_grad && channels_inner && w[-1] > 1 && conv.groups == 1 && conv.dilation.back() == 1 &&
                    x_strides[last] == channels && (!output || (w_strides[1] == 1 && w_strides[last] == channels));
  std::int64_t run = (input_grad ? filters : channels) * (rows ? w[-1] : 1);
  const auto width_along = [&](const Operand& operand, std::int64_t extent, std::int64_t bytes) {
    return vector_width(operand, 1, extent, bytes);
  };
  if (output) {
    p.problem = "ConvOutput", p.words = "convolution of";
    p.along_k_a = channels_inner, p.along_k_b = true;
    if (channels_inner) p.vector_a = width_along(first, channels, first_bytes);
    if (channels_inner) p.vector_b = width_along(second, channels, second_bytes);
    if (channels_inner && ragged) read_ragged(p.ragged_a, p.vector_a, run, first_bytes);
    if (!p.ragged_a) run = channels;
    if (p.ragged_a && w_strides[1] == 1) read_ragged(p.ragged_b, p.vector_b, run, second_bytes);
  } else if (input_grad) {
    p.problem = "ConvInputGrad", p.words = "input gradient from";
    p.along_k_a = channels_inner;
    if (channels_inner) p.vector_a = width_along(first, filters, first_bytes);
    p.vector_b = width_along(second, channels, second_bytes);
    if (channels_inner && ragged) read_ragged(p.ragged_a, p.vector_a, run, first_bytes);
    if (w_strides[1] == 1 && ragged) read_ragged(p.ragged_b, p.vector_b, channels, second_bytes);
  } else {
    p.problem = "ConvFilterGrad", p.words = "filter gradient from", p.sums_pixels = true;
    p.lanes_are_columns = channels_inner || rounded || window == 1;
    p.along_k_a = y_strides[1] != 1, p.along_k_b = !channels_inner;
    if (!p.along_k_a) p.vector_a = width_along(first, filters, first_bytes);
    if (!p.along_k_b) p.vector_b = width_along(second, channels, second_bytes);
    if (!p.along_k_a && ragged) read_ragged(p.ragged_a, p.vector_a, filters, first_bytes);
    if (!p.along_k_b && ragged) read_ragged(p.ragged_b, p.vector_b, run, second_bytes);
    if (!p.ragged_b) run = channels;
  }
  const bool by_rows = rows && (output ? p.ragged_a : p.ragged_b),
             fills_up = input_grad || output ? p.ragged_a : p.ragged_b;
  const std::int64_t pitch = fills_up ? round_up(run, 8) : run, runs = pitch * (by_rows ? window / w[-1] : window);
  p.m = output ? x[0] * y_pixels : input_grad ? x[0] * x_pixels : filters;
  p.n = output ? filters : input_grad ? channels : runs;
  p.k = output || input_grad ? runs : x[0] * y_pixels;
  p.constants = constant("kChannels", channels) + constant("kFilters", filters) + constant("kPitch", pitch) +
                constant("kRowRuns", by_rows, "bool") + constant("kChannelsInner", channels_inner || rounded, "bool") +
                per_axis("w_stride", w_strides, "Index");
  const std::optional<std::int64_t> x_step = pixel_step(x, x_strides), y_step = pixel_step(y, y_strides);
  const auto all = [](const std::vector<int>& values, int value) {
    return std::ranges::all_of(values, [&](int v) { return v == value; });
  };
  if (window == 1 && all(conv.stride, 1) && all(conv.pad, 0) && tail(x, 2) == tail(y, 2) && x_step && y_step) {
    const std::vector<std::int64_t> pixels{x[0] * x_pixels}, one{1};
    p.constants += constant("kSpatial", 1) + constant("kImages", 1) + per_axis("x_size", pixels) +
                   per_axis("y_size", pixels) + per_axis("window", one) + per_axis("stride", one) +
                   per_axis("pad", Strides{0}) + per_axis("dilation", one) +
                   per_axis("x_stride", Strides{0, x_strides[1], *x_step}, "Index") +
                   per_axis("y_stride", Strides{0, y_strides[1], *y_step}, "Index");
    return p;
  }
  p.constants += constant("kSpatial", domain.rank() - 2) + constant("kImages", x[0]) + per_axis("x_size", tail(x, 2)) +
                 per_axis("y_size", tail(y, 2)) + per_axis("window", tail(w, 2)) + per_axis("stride", conv.stride) +
                 per_axis("pad", conv.pad) + per_axis("dilation", conv.dilation) +
                 per_axis("x_stride", x_strides, "Index") + per_axis("y_stride", y_strides, "Index");
  return p;
}

}  // namespace

Product product_of(const Plan& plan, const Kernel& kernel) {
  check(is_product(*kernel.head), "\"", kernel.label, "\" is no product");
  const auto* conv = product_in<Conv>(kernel.head->op);
  Product p = conv ? conv_of(plan, kernel, *conv) : matmul_of(plan, kernel);
  if (const auto* rounded = std::get_if<RoundedProduct>(&kernel.head->op)) p.sums = &rounded->sums;
  return p;
}

Math math_of(const Head& product) {
  const auto* matmul = product_in<Matmul>(product.op);
  return matmul ? matmul->math : product_in<Conv>(product.op)->math;
}

Multiplier multiplier_of(const Plan& plan, const Head& head, const Chip& chip) {
  if (meet_on_tensor_cores(plan, head)) return Multiplier::tensor_cores;
  const auto is_f32 = [&](const Operand& operand) { return dtype_of(plan, operand) == Dtype::f32; };
  const bool rounded = std::holds_alternative<RoundedProduct>(head.op);  // sums of multiply-adds, in order
  const bool in_parts =
      !rounded && chip.splits_f32() && math_of(head) == Math::fp32 && std::ranges::all_of(head.operands, is_f32);
  return in_parts ? Multiplier::tensor_cores_in_parts : Multiplier::multiply_adds;
}

bool multiplies_f8(const Plan& plan, const Head& head) {
  return std::holds_alternative<Matmul>(head.op) && is_f8(dtype_of(plan, head.operands[0])) &&
         is_f8(dtype_of(plan, head.operands[1]));
}

bool multiplies_bytes(const Plan& plan, const Head& head) {
  const auto is_byte = [&](const Operand& operand) {
    const Dtype dtype = dtype_of(plan, operand);
    return dtype == Dtype::u8 || dtype == Dtype::i8;
  };
  return std::holds_alternative<Matmul>(head.op) && head.dtype == Dtype::i32 &&
         std::ranges::all_of(head.operands, is_byte);
}

}  // namespace nixie::cuda
