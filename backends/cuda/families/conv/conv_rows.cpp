// Input gradients of layers with few channels on sm_90a, a filter row of taps at a time.
#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_fprop.h"
#include "nixie/backends/cuda/families/conv/conv_halo.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr int kMostChannels = 96;                      // with more, conv_fprop's tiles are wide enough
constexpr int kConsumers = 2, kMmaM = 2, kGroup = 32;  // 256 positions x 5 taps of 32 channels
constexpr int kRows = 64 * kMmaM, kStages = 3;

std::int64_t positions_of(const ConvProblem& conv) { return std::int64_t{1} * conv.images * conv.height * conv.q; }

std::int64_t tiles_of(const ConvProblem& conv) {
  const std::int64_t own = kRows - (conv.s - 1), shares = (positions_of(conv) - (conv.s - 1) + own - 1) / own;
  return (shares + kConsumers - 1) / kConsumers * (conv.channels / kGroup);
}

std::string limits(const ConvProblem& conv) {
  if (conv.role != ConvRole::input_grad) return "no input gradient";
  if (conv.products() != 1) return "three products";
  if (conv.stride != std::array{1, 1} || conv.dilation != std::array{1, 1}) return "stride or dilation";
  if (conv.s != 5) return fmt::format("{} columns of taps", conv.s);
  if (conv.pad[0] >= conv.r || conv.pad[1] >= conv.s) return "padding as large as the window";
  if (conv.channels > kMostChannels || conv.channels % kGroup != 0) return fmt::format("{} channels", conv.channels);
  if (!conv.ends_with_padding()) return "a phase of a strided input gradient";
  if (positions_of(conv) < conv.s) return "fewer positions than taps";
  return {};
}

KernelCode generate_rows(const Plan& plan, const Choice& choice, const Chip& chip) {
  const ConvProblem& conv = problem_of(choice);
  NhwcFunctor body = nhwc_functor(plan, choice.kernel);
  KernelCode code;
  code.source = defines({{"CONV_C", conv.channels},
                         {"CONV_K", conv.filters},
                         {"CONV_R", conv.r},
                         {"CONV_S", conv.s},
                         {"CONV_H", conv.height},
                         {"CONV_W", conv.width},
                         {"CONV_Q", conv.q},
                         {"CONV_POSITIONS", positions_of(conv)},
                         {"CONV_PAD_H", conv.pad[0]},
                         {"CONV_PAD_W", conv.pad[1]},
                         {"CONV_GROUP", kGroup},
                         {"CONV_CONSUMERS", kConsumers},
                         {"CONV_MMA_M", kMmaM},
                         {"CONV_STAGES", kStages},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}}) +
                products_of_columns({conv.s * kGroup}) + body.text + "#include \"conv_rows_sm90.cuh\"\n";
  code.arguments = std::move(body.arguments);
  code.variant = fmt::format("conv_rows_sm90 {}x{}x{}", kRows * kConsumers, conv.s, kGroup);
  const Operand &dy = choice.kernel.head->operands[0], &w = choice.kernel.head->operands[1];
  code.maps.push_back({.slot = dy.slot,
                       .offset_bytes = dy.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {u64(conv.filters), u64(conv.q), u64(conv.p), u64(conv.images)},
                       .box = {64, kRows},
                       .im2col = true,
                       .lower = {0, conv.pad[0] - (conv.r - 1)},
                       .upper = {0, -conv.pad[0]}});
  code.maps.push_back(tiled_map(w, conv.dtype, {u64(conv.channels), u64(conv.r * conv.s), u64(conv.filters)},
                                {kGroup, 1, 64}, kGroup * 2));
  code.launches.push_back(
      {.entry = "conv_rows",
       .blocks = std::min<std::int64_t>(tiles_of(conv), chip.sms),
       .threads = (kConsumers + 1) * 128,
       .shared_bytes = 1024 + kStages * (kRows * kConsumers + conv.s * kGroup) * 128 + kRows * kConsumers * conv.s * 32,
       .maps = {0, 1}});
  return code;
}

class ConvRows final : public Family {
 public:
  std::string_view name() const override { return "conv_rows_sm90"; }
  std::string_view unit() const override { return kForwardClocks; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    return match_forward(plan, kernel, chip, limits);
  }
  // Faster than its competitors wherever it fits.
  std::vector<Algorithm> algorithms(const Plan&, const Choice& choice, const Chip& chip) const override {
    const ConvProblem& conv = problem_of(choice);
    const auto tiles = static_cast<double>(forward_tiles(conv, chip).front().clocks);
    return {{"rows", fits_halo(conv, chip) ? std::min(tiles, halo_clocks(conv, chip)) : tiles}};
  }
  std::string operation(const Plan&, const Choice& choice) const override { return operation_text(problem_of(choice)); }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return generate_rows(plan, choice, chip);
  }
};

}  // namespace

const Family& conv_rows() {
  static const ConvRows family;
  return family;
}

}  // namespace nixie::cuda
