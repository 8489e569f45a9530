// Writes the programs of products and convolutions: gemm.cuh by multiply-adds, gemm_sm80.cuh on tensor cores.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/backends/cuda/generate/products/product.h"
#include "nixie/backends/cuda/generate/products/tiles.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/ops/elementwise.h"

namespace nixie::cuda {
namespace {

std::string operand_types(const Plan& plan, const Head& head) {
  std::string text;
  for (std::size_t i = 0; i < head.operands.size(); ++i)
    text += fmt::format("  using {} = {};\n", i == 0 ? "A" : "B", type_name(dtype_of(plan, head.operands[i].slot)));
  return text;
}

// As tensor cores read them.
Elements elements_of(const Plan& plan, const Head& head, const Chip& chip) {
  const bool converts = multiplies_f8(plan, head);
  return {.bytes = size_of(converts ? Dtype::f16 : dtype_of(plan, head.operands[0])),
          .converts = converts,
          .in_parts = multiplier_of(plan, head, chip) == Multiplier::tensor_cores_in_parts};
}

// How sums are rounded on the way.
std::string sums_code(const Product& p) {
  if (!p.sums) return constant("kSumsEvery", 0) + constant("kShare", 0, "Index");
  return constant("kSumsEvery", p.sums->every) + constant("kShare", Sums::kPart, "Index") +
         merged_function(*p.sums, "static __device__");
}

std::vector<Tiling> tilings_of(const Plan& plan, const Head& head, const Product& p, const Chip& chip) {
  return multiplier_of(plan, head, chip) == Multiplier::multiply_adds
             ? multiply_add_tilings(p, compute_dtype(head.dtype))
             : tensor_tilings(p, elements_of(plan, head, chip), chip);
}

}  // namespace

std::string merged_function(const Sums& sums, const std::string& qualifiers) {
  std::string text = qualifiers + " float merged(float sum, float group) {\n";
  const std::vector<Instruction>& body = sums.merge->formula.body;
  for (std::size_t i = 0; i < body.size(); ++i)
    text += fmt::format("  const float r{} = {};\n", i,
                        body[i].primitive == Primitive::parameter ? std::string(body[i].index == 0 ? "sum" : "group")
                                                                  : expression(body[i]));
  return text + fmt::format("  return r{};\n}}\n", body.size() - 1);
}

// Tiles by multiply-adds have no estimates: without a measurement the first is taken.
std::vector<Algorithm> product_algorithms(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  std::vector<Algorithm> algorithms;
  if (kernel.domain.size() == 0) return algorithms;
  for (const Tiling& tiling : tilings_of(plan, *kernel.head, product_of(plan, kernel), chip))
    algorithms.push_back({tiling.name(), tiling.clocks});
  return algorithms;
}

Estimate product_estimate(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  const Product p = product_of(plan, kernel);
  const Tiling t = tilings_of(plan, *kernel.head, p, chip).front();
  if (multiplier_of(plan, *kernel.head, chip) != Multiplier::multiply_adds)
    return {.seconds = chip.seconds({.clocks = t.clocks, .launches = 1}), .share = kMeanShare};
  const auto [work, share] = work_of(p, t, chip.sms);
  const double seconds = chip.seconds(work);
  // Of 31 strided input gradients of f32, tiles of 128 rows took 1.1 to 2.6 of what a mean of all layers would.
  const auto* conv = product_in<Conv>(kernel.head->op);
  const bool is_strided = conv && conv->role == ConvRole::input_grad &&
                          std::ranges::any_of(conv->stride, [](int stride) { return stride > 1; });
  return {.seconds = is_strided && t.m >= 128 ? 1.3 * seconds : seconds, .share = share};
}

// With what decides its speed.
std::string product_operation(const Plan& plan, const Kernel& kernel) {
  const Head& head = *kernel.head;
  const Product p = product_of(plan, kernel);
  const Dtype a = dtype_of(plan, head.operands[0]);
  const Math math = math_of(head);
  const std::string_view how = a != Dtype::f32 || math == Math::ieee ? ""
                               : math == Math::tf32                  ? " as tf32"
                                                                     : " as fp32";
  std::string text = fmt::format("{}{} {} {} by {} to {}", a, how, p.words, head.operands[0].shape,
                                 head.operands[1].shape, kernel.domain);
  if (p.sums) text += fmt::format(" in {} every {}", p.sums->merge->name, p.sums->every);
  if (const auto* conv = product_in<Conv>(head.op))
    text += fmt::format(" stride {} pad {} dilation {} groups {}", fmt::join(conv->stride, "x"),
                        fmt::join(conv->pad, "x"), fmt::join(conv->dilation, "x"), conv->groups);
  return text + fmt::format(", {} by {} at once", p.vector_a, p.vector_b);
}

KernelCode generate_product(const Plan& plan, const Kernel& kernel, const Chip& chip, const std::string& tile) {
  const Product p = product_of(plan, kernel);
  const Head& head = *kernel.head;
  BodyWriter body(plan, kernel, false, p.is_conv ? Order::nhwc : Order::matrix);
  const Dtype compute = compute_dtype(head.dtype);
  const Dtype a = dtype_of(plan, head.operands[0]);
  const Multiplier multiplier = multiplier_of(plan, head, chip);
  const bool tensor_cores = multiplier != Multiplier::multiply_adds;
  const std::vector<Tiling> tilings = tilings_of(plan, head, p, chip);
  const Tiling& t = tile_named(tilings, tile);
  const int widest = tensor_cores && size_of(a) <= 2 ? 8 : 4;
  add_operands(body, plan, head);
  const int channel = body.space().kept,
            lanes = tensor_cores && p.lanes_are_columns
                        ? static_cast<int>(std::gcd<std::int64_t>(body.pieces_along(channel), p.n))
                        : 1;
  const bool rows_inside = !body.contiguous_along(channel) && body.contiguous_along(channel - 1);
  const std::string code = load_and_run(body, kernel, lanes, type_name(compute));

  const int split_group = p.sums ? t.splits : kSplitGroup;  // rounded parts are merged one after the other
  KernelCode result;
  if (t.splits > 1) {
    body.pointer("u32*", "arrived", {Argument::kScratch, 0});
    const int counters = static_cast<int>(ceil_div(t.splits, split_group)) + 1;
    result.scratch_bytes = (t.tiles * counters * 4 + 255) / 256 * 256;
    body.pointer("char*", "parts", {Argument::kScratch, result.scratch_bytes});
    result.scratch_bytes += t.tiles * t.splits * t.m * t.n * size_of(compute);
  }
  std::string& text = result.source;
  text = fmt::format("#include \"{}.cuh\"\n", tensor_cores ? "gemm_sm80" : "gemm");
  text += fmt::format("#include \"{}.cuh\"\n#include \"philox.cuh\"\n\nstruct Body {{\n",
                      p.is_conv ? "conv_operands" : "operands");
  text += fmt::format("  using Index = {};\n  using Accumulate = {};\n",
                      index_is_wide(body, kernel) ? "long long" : "int", type_name(compute));
  text += operand_types(plan, head) + p.constants;
  text += fmt::format("  static constexpr int kTileM = {}, kTileN = {}, kTileK = {}, kThreadM = {}, kThreadN = {};\n",
                      t.m, t.n, t.k, t.thread_m, t.thread_n);
  text +=
      fmt::format("  static constexpr int kThreads = {}, kWarpsN = {}, kStages = {}, kSplits = {}, kSplitGroup = {};\n",
                  t.threads, t.warps_n, t.stages, t.splits, split_group);
  text += sums_code(p);
  text += fmt::format("  static constexpr int kVectorA = {}, kVectorB = {};\n", std::min(p.vector_a, widest),
                      std::min(p.vector_b, widest));
  text += fmt::format("  static constexpr bool kRaggedA = {}, kRaggedB = {};\n", p.ragged_a, p.ragged_b);
  text += fmt::format("  static constexpr bool kAlongKA = {}, kAlongKB = {};\n", p.along_k_a, p.along_k_b);
  text += fmt::format("  static constexpr bool kInParts = {};\n", multiplier == Multiplier::tensor_cores_in_parts);
  text += fmt::format("  static constexpr int kLanes = {};\n  static constexpr bool kRowsInside = {};\n", lanes,
                      rows_inside);
  text += body.pointers();
  if (t.splits == 1) text += "  static constexpr char* parts = nullptr;\n  static constexpr u32* arrived = nullptr;\n";
  text += code + "};\n";
  text += entry_point("kernel0", fmt::format("{}, {}", t.threads, t.blocks),
                      fmt::format("{}({}<Body>(body))", tensor_cores ? "gemm_sm80" : "gemm", p.problem));
  result.arguments = body.arguments();
  result.variant = fmt::format("{} {}", tensor_cores ? "gemm_sm80" : "gemm", t.name());
  if (kernel.domain.size() > 0)
    result.launches.push_back(
        {.entry = "kernel0",
         .blocks = t.tiles * t.splits,
         .threads = t.threads,
         .shared_bytes = tensor_cores ? shared_bytes_of(t, elements_of(plan, head, chip).bytes) : 0});
  return result;
}

}  // namespace nixie::cuda
