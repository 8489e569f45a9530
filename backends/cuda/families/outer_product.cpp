// Products whose time is that of what is done with the result.
#include "nixie/backends/cuda/families/outer_product.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kTileRows = 64, kTileColumns = 128;                         // as in outer_product.cuh
constexpr std::int64_t kSumsBytes = kTileRows * (kTileColumns + 4) * 4;            // of a tile, its rows padded
constexpr std::int64_t kTermBytes = 2 * (kTileRows + kTileColumns), kChunk = 128;  // terms in shared memory at once

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::optional<OuterProduct> as_outer_product(const Plan& plan, const Kernel& kernel) {
  if (!kernel.head || !std::holds_alternative<Matmul>(kernel.head->op) || kernel.domain.rank() != 2) return {};
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  const auto dtype_of = [&](const Operand& operand) {
    return plan.slots[static_cast<std::size_t>(operand.slot)].dtype;
  };
  const OuterProduct product{kernel.domain[0], kernel.domain[1], a.shape[1], dtype_of(a)};
  const bool halves = (product.dtype == Dtype::f16 || product.dtype == Dtype::bf16) && dtype_of(b) == product.dtype;
  const bool pieces = product.rows % 8 == 0 && product.columns % 8 == 0 && a.offset % 8 == 0 && b.offset % 8 == 0;
  const bool rows_lie = a.strides == Strides{1, product.rows} && b.strides == Strides{product.columns, 1};
  const std::int64_t size = product.rows * product.columns;
  if (!halves || !pieces || !rows_lie || kernel.loads.empty() || product.terms < 1 || product.terms > 512 ||
      size < std::int64_t{1} << 18 || size > std::numeric_limits<std::int32_t>::max())
    return {};
  return product;
}

KernelCode generate_outer_product(const Plan& plan, const Kernel& kernel, const OuterProduct& product) {
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  PixelBody body = pixel_body(
      plan, kernel, {{"const u16*", "a", {a.slot, a.offset * 2}}, {"const u16*", "b", {b.slot, b.offset * 2}}}, 4);
  KernelCode code;
  code.source = defines({{"OUTER_ROWS", product.rows},
                         {"OUTER_COLUMNS", product.columns},
                         {"OUTER_TERMS", product.terms},
                         {"NIXIE_BF16", product.dtype == Dtype::bf16}}) +
                "#include \"ptx.cuh\"\n" + body.text + "#include \"outer_product.cuh\"\n";
  code.arguments = std::move(body.arguments);
  code.variant = "outer_product";
  const std::int64_t terms = std::min(ceil_div(product.terms, 16) * 16, kChunk);
  code.launches.push_back({.entry = "outer_product",
                           .blocks = ceil_div(product.rows, kTileRows) * ceil_div(product.columns, kTileColumns),
                           .threads = 256,
                           .shared_bytes = std::max(terms * kTermBytes, kSumsBytes)});
  return code;
}

}  // namespace nixie::cuda
