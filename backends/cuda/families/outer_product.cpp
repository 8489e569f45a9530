// Small-K matrix products bound by their epilogue, such as the update of a linear layer's weights.
#include "nixie/backends/cuda/families/outer_product.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/families/parts.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kTileRows = 64, kTileColumns = 128;                         // as in outer_product.cuh
constexpr int kThreads = 256;                                                      // of a block
constexpr std::int64_t kSumsBytes = kTileRows * (kTileColumns + 4) * 4;            // of a tile, its rows padded
constexpr std::int64_t kTermBytes = 2 * (kTileRows + kTileColumns), kChunk = 128;  // terms in shared memory at once

// A^T B of row-major 16-bit matrices a [terms, rows] and b [terms, columns].
struct OuterProduct {
  std::int64_t rows = 0, columns = 0, terms = 0;
  Dtype dtype = Dtype::f16;
};

std::int64_t blocks_of(const OuterProduct& product) {
  return ceil_div(product.rows, kTileRows) * ceil_div(product.columns, kTileColumns);
}

KernelCode generate_program(const Plan& plan, const Choice& choice) {
  const Kernel& kernel = choice.kernel;
  const auto& product = std::any_cast<const OuterProduct&>(choice.sizes);
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  NhwcFunctor body = nhwc_functor(
      plan, kernel, {{"const u16*", "a", {a.slot, a.offset * 2}}, {"const u16*", "b", {b.slot, b.offset * 2}}}, 4,
      {.leaves = choice.leaves});
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
                           .blocks = blocks_of(product),
                           .threads = kThreads,
                           .shared_bytes = std::max(terms * kTermBytes, kSumsBytes)});
  return code;
}

class OuterProducts final : public Family {
 public:
  std::string_view name() const override { return "outer_product"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    if (!kernel.head || !std::holds_alternative<Matmul>(kernel.head->op) || kernel.domain.rank() != 2)
      return Refusal{"no matrix product"};
    const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
    const OuterProduct product{kernel.domain[0], kernel.domain[1], a.shape[1], dtype_of(plan, a)};
    const bool halves =
        (product.dtype == Dtype::f16 || product.dtype == Dtype::bf16) && dtype_of(plan, b) == product.dtype;
    if (!halves) return Refusal{"operands that are not of 16 bits"};
    if (a.strides != Strides{1, product.rows} || b.strides != Strides{product.columns, 1})
      return Refusal{"other strides"};
    if (product.rows % 8 != 0 || product.columns % 8 != 0 || a.offset % 8 != 0 || b.offset % 8 != 0)
      return Refusal{"rows that are not read in pieces of 16 bytes"};
    if (kernel.loads.empty()) return Refusal{"a result that is only stored, which the library does"};
    if (product.terms < 1 || product.terms > 512) return Refusal{fmt::format("{} terms", product.terms)};
    const std::int64_t size = product.rows * product.columns;
    if (size < std::int64_t{1} << 18 || size > std::numeric_limits<std::int32_t>::max())
      return Refusal{fmt::format("{} elements", size)};
    return Choice{.kernel = kernel, .sizes = product};
  }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    const auto& product = std::any_cast<const OuterProduct&>(choice.sizes);
    return with_parts(grouping, choice, other, {.of_all = blocks_of(product)});
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    return generate_program(plan, choice);
  }
};

}  // namespace

const Family& outer_product() {
  static const OuterProducts family;
  return family;
}

}  // namespace nixie::cuda
