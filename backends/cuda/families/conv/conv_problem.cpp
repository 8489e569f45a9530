// Derives the convolution problem of a kernel.
#include "nixie/backends/cuda/families/conv/conv_problem.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/families/conv/conv_cost.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/generate/products/product.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A window of one column whose channels are the numbers of a row, S * C of them and zeros to a multiple of 16.
ConvMatch by_rows(const ConvProblem& conv) {
  if (conv.groups != 1) return Refusal{"groups to pack by rows"};
  if (conv.channels >= 8) return Refusal{"8 channels or more to pack by rows"};
  if (conv.role == ConvRole::input_grad) return Refusal{"input gradient to pack by rows"};
  if (conv.role == ConvRole::filter_grad && conv.channels == 1) return Refusal{"one channel to pack by rows"};
  if (conv.dilation[1] != 1) return Refusal{"dilation to pack by rows"};
  ConvProblem packed = conv;
  packed.by_rows = true;
  packed.channels = static_cast<int>(round_up(std::int64_t{conv.s} * conv.channels, 16));
  packed.width = conv.q, packed.s = 1, packed.stride[1] = 1, packed.pad[1] = 0;
  if (conv.role == ConvRole::filter_grad) packed.row_channels = conv.channels, packed.row_s = conv.s;
  return packed;
}

// Whether f32 matrices are multiplied faster by the library. Each operand has two readers in a training step, which
// share its planes. Large products take less than tiles of small layers, by which tensor_core_work was fitted.
bool library_is_faster(const ConvProblem& product, const Chip& chip) {
  constexpr double kPerEstimate = 0.85, kNotInL2 = 0.75,
                   kPerTf32 = 1.67;  // 16-bit operations in the time of one of tf32
  const double m = product.images, n = product.filters, k = product.channels;
  const double operands = product.role == ConvRole::output       ? m * k + n * k
                          : product.role == ConvRole::input_grad ? m * n + n * k
                                                                 : m * n + m * k;
  const Work splitting{.bytes = kNotInL2 * operands * (8 + 2 * product.planes), .launches = 4};
  const double flop = 2 * m * n * k;
  const Work library = product.planes == 2 ? Work{.fma = flop} : Work{.mma = kPerTf32 * flop};
  return chip.seconds(library) <
         kPerEstimate * chip.seconds(tensor_core_work(product, chip)) + chip.seconds(splitting) / 2;
}

}  // namespace

bool ConvProblem::ends_with_padding() const {
  const auto reaches = [&](int size, int results, int window, std::size_t i) {
    return (size + 2 * pad[i] - dilation[i] * (window - 1) - 1) / stride[i] + 1 == results;
  };
  return reaches(height, p, r, 0) && reaches(width, q, s, 1);
}

std::optional<ConvProblem> in_planes(ConvProblem conv, Math math) {
  if (math == Math::ieee) return {};
  conv.dtype = Dtype::f16, conv.planes = math == Math::fp32 ? 2 : 1;
  return conv;
}

ConvMatch conv_problem(const Plan& plan, const Kernel& kernel, Groups groups) {
  const auto* op = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
  if (!op) return Refusal{"no convolution"};
  if (kernel.domain.rank() != 4) return Refusal{fmt::format("{} spatial axes", kernel.domain.rank() - 2)};
  if (op->groups != 1 && groups == Groups::one) return Refusal{fmt::format("groups {}", op->groups)};
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  if (kernel.domain.size() == 0 || first.shape.size() == 0 || second.shape.size() == 0) return Refusal{"no elements"};
  const bool output = op->role == ConvRole::output, input_grad = op->role == ConvRole::input_grad;
  const Shape& x = output ? first.shape : input_grad ? kernel.domain : second.shape;
  const Shape& w = output || input_grad ? second.shape : kernel.domain;
  const Shape& y = output ? kernel.domain : first.shape;
  if (std::max({x.size(), y.size(), w.size()}) > std::numeric_limits<std::int32_t>::max())
    return Refusal{"2^31 elements or more"};
  ConvProblem conv{.role = op->role, .dtype = dtype_of(plan, output ? second : first)};  // of w, or of dy
  const auto size = [](const Shape& shape, int axis) { return static_cast<int>(shape[axis]); };
  conv.images = size(x, 0), conv.channels = size(x, 1), conv.height = size(x, 2), conv.width = size(x, 3);
  conv.filters = size(w, 0), conv.r = size(w, 2), conv.s = size(w, 3), conv.p = size(y, 2), conv.q = size(y, 3);
  conv.groups = op->groups;
  for (std::size_t i : {0u, 1u})
    conv.stride[i] = op->stride[i], conv.pad[i] = op->pad[i], conv.dilation[i] = op->dilation[i];
  return conv;
}

std::optional<ConvProblem> conv_of(const Plan& plan, const Kernel& kernel, Groups groups) {
  const ConvMatch match = conv_problem(plan, kernel, groups);
  const auto* conv = std::get_if<ConvProblem>(&match);
  return conv ? std::optional(*conv) : std::nullopt;
}

std::optional<ConvProblem> conv_of_16_bits(const Plan& plan, const Kernel& kernel, Groups groups) {
  const auto conv = conv_of(plan, kernel, groups);
  return conv && conv->is_16_bit() && all_operands_are(conv->dtype, plan, *kernel.head) ? conv : std::nullopt;
}

ConvMatch product_problem(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& refuses) {
  const auto* op = kernel.head ? product_in<Matmul>(kernel.head->op) : nullptr;
  if (!op) return Refusal{"no matrix product"};
  if (kernel.domain.rank() != 2) return Refusal{"batched matrix product"};
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  const std::int64_t rows = kernel.domain[0], columns = kernel.domain[1], terms = a.shape[1];
  if (ceil_div(rows, 128) * ceil_div(columns, 128) < chip.sms / 3) return Refusal{"matrix product of few tiles"};
  ConvProblem product{.height = 1, .width = 1, .r = 1, .s = 1, .p = 1, .q = 1, .dtype = dtype_of(plan, a)};
  product.stride = product.dilation = {1, 1};
  std::int64_t images = rows, channels = terms, filters = columns;
  const bool rows_of_a = a.strides == Strides{terms, 1}, rows_of_b = b.strides == Strides{columns, 1};
  const auto* rounded = std::get_if<RoundedProduct>(&kernel.head->op);
  const bool of_floats = !rounded && multiplies_f8(plan, *kernel.head),
             of_pairs = of_floats || (!rounded && multiplies_bytes(plan, *kernel.head));
  if (of_pairs) {  // copied to these strides where they have others
    if (terms % 2 != 0) return Refusal{"an odd number of 8-bit terms"};
    channels = terms / 2;
  } else if (rounded) {  // copied likewise, but for transposed ones
    product.sums_every = rounded->sums.every;
    product.transposed_x = a.strides == Strides{1, rows} && rows % 8 == 0;
    if (rows_of_b) product.role = ConvRole::input_grad, std::swap(channels, filters);
  } else if (rows_of_a && rows_of_b) {
    product.role = ConvRole::input_grad;
    std::swap(channels, filters);
  } else if (a.strides == Strides{1, rows} && rows_of_b) {
    product.role = ConvRole::filter_grad;
    images = terms, channels = columns, filters = rows;
  } else if (!rows_of_a || b.strides != Strides{1, terms}) {
    return Refusal{"matrix product of other strides"};
  }
  if (of_pairs) {
    if (of_floats && op->math == Math::ieee) return Refusal{"8-bit floats by multiply-adds (ieee)"};
    product.dtype = Dtype::f16, product.pairs_of = {dtype_of(plan, a), dtype_of(plan, b)};
  } else if (all_f32(plan, *kernel.head)) {
    const auto split = product.sums_every > 0 ? std::nullopt : in_planes(product, op->math);
    if (!split) return Refusal{"f32 by multiply-adds"};
    product = *split;
  } else if (!product.is_16_bit() || dtype_of(plan, b) != product.dtype) {
    return Refusal{"matrix product of other types"};
  }
  const std::int64_t alignment = of_pairs ? 16 : 8;
  if (a.offset % alignment != 0 || b.offset % alignment != 0 ||
      std::max({rows * columns, rows * terms, terms * columns}) > std::numeric_limits<std::int32_t>::max())
    return Refusal{"matrix product of other sizes"};
  product.images = static_cast<int>(images), product.channels = static_cast<int>(channels);
  product.filters = static_cast<int>(filters);
  if (std::string why = refuses(product); !why.empty()) return Refusal{why};
  if (product.planes > 0 && library_is_faster(product, chip))
    return Refusal{"matrix product of f32 too small to split"};
  return product;
}

ConvMatch conv_in_16_bits(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& refuses,
                          Groups groups) {
  const ConvMatch found = conv_problem(plan, kernel, groups);
  const auto* conv = std::get_if<ConvProblem>(&found);
  if (!conv) return found;
  std::string why;
  if (conv->is_16_bit()) {
    why = refuses(*conv);
    return why.empty() ? found : Refusal{why};
  }
  if (!all_f32(plan, *kernel.head)) return Refusal{fmt::format("{} operands", conv->dtype)};
  const std::optional<ConvProblem> split = in_planes(*conv, std::get<Conv>(kernel.head->op).math);
  if (!split) return Refusal{"f32 by multiply-adds (ieee)"};
  why = refuses(*split);
  ConvMatch accepted = why.empty() ? *split : by_rows(*split);
  const auto* problem = std::get_if<ConvProblem>(&accepted);
  if (!problem || !refuses(*problem).empty()) return Refusal{why};
  // The estimate is that of tiles, so first layers with kernels of their own are split in any case.
  constexpr double kSurely = 0.9;
  if (tensor_core_limits(*problem).empty() &&
      unsplit_estimate(plan, kernel, chip).seconds < kSurely * split_estimate(plan, kernel, *problem, chip).seconds)
    return Refusal{"f32 operands too small to split"};
  return accepted;
}

bool is_channels_last(const Shape& shape, const Strides& strides, std::int64_t offset) {
  const Strides expected = shape.channels_last();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && strides[at(axis)] != expected[at(axis)]) return false;
  return offset % 8 == 0;
}

bool is_in_pieces(const Operand& operand) {
  if (operand.strides[1] != 1 || operand.offset % 8 != 0) return false;
  for (int axis : {0, 2, 3})
    if (operand.shape[axis] > 1 && (operand.strides[at(axis)] % 8 != 0 || operand.strides[at(axis)] <= 0)) return false;
  return true;
}

bool only_stores(const Plan& plan, const Kernel& kernel, const std::vector<Dtype>& dtypes) {
  if (!kernel.loads.empty() || kernel.stages.size() != 1 || kernel.stores.size() != 1) return false;
  const Stage& stage = kernel.stages[0];
  const Access& to = kernel.stores[0];
  return stage.body.size() == 1 && stage.body[0].primitive == Primitive::head && stage.stores.size() == 1 &&
         stage.reductions.empty() && to.inside.empty() && std::ranges::count(dtypes, dtype_of(plan, to.slot)) > 0 &&
         is_channels_last(kernel.domain, to.strides, to.offset);
}

bool only_stores(const Plan& plan, const Kernel& kernel) {
  return only_stores(plan, kernel, {Dtype::f32, dtype_of(plan, kernel.head->operands[0])});
}

bool all_operands_are(Dtype dtype, const Plan& plan, const Head& head) {
  return std::ranges::all_of(head.operands, [&](const Operand& operand) { return dtype_of(plan, operand) == dtype; });
}

bool all_f32(const Plan& plan, const Head& head) {
  return head.dtype == Dtype::f32 && all_operands_are(Dtype::f32, plan, head);
}

std::string operation_text(const ConvProblem& conv, bool pooled) {
  if (conv.pairs_of)
    return fmt::format("{} by {} product of {}x{} by {}", (*conv.pairs_of)[0], (*conv.pairs_of)[1], conv.images,
                       2 * conv.channels, conv.filters);
  static constexpr const char* kRoles[] = {"convolution", "input gradient", "filter gradient"};
  std::string text = fmt::format("{} {} of {}x{}x{}x{} by {}x{}x{}", conv.dtype, kRoles[static_cast<int>(conv.role)],
                                 conv.images, conv.channels, conv.height, conv.width, conv.filters, conv.r, conv.s);
  if (conv.groups > 1) text += fmt::format(" in {} groups", conv.groups);
  const auto pair = [&](const char* word, std::array<int, 2> values, int usual) {
    if (values != std::array{usual, usual}) text += fmt::format(" {} {}x{}", word, values[0], values[1]);
  };
  pair("stride", conv.stride, 1);
  pair("pad", conv.pad, 0);
  pair("dilation", conv.dilation, 1);
  if (!conv.ends_with_padding())
    text += fmt::format(" {} {}x{}", conv.role == ConvRole::output ? "to" : "from", conv.p, conv.q);
  if (pooled) text += " pooled";
  if (conv.products() > 1) text += fmt::format(" in {} products", conv.products());
  if (conv.sums_every > 0) text += fmt::format(" rounded every {}", conv.sums_every);
  if (conv.transposed_x) text += " transposed";
  if (conv.row_channels > 0) text += fmt::format(" packed from {}x{}", conv.row_channels, conv.row_s);
  return text;
}

}  // namespace nixie::cuda
