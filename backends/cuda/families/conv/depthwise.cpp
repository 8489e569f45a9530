// Depthwise convolutions, one filter for each channel, in all roles: how threads share the work, and the program.
#include <algorithm>
#include <bit>

#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr int kThreads = 128, kBlocks = 3;  // of threads on an SM, at least
constexpr int kRegisters = 130;             // by the estimate below, which leaves out what follows the sums
constexpr int kMostLive = 8;                // steps that are unrolled together
constexpr int kMostProducts = 1500;         // of unrolled loops that the compiler keeps in registers
constexpr int kSharedBytes = 46 << 10;      // of a block, for rows on their way

// The work of a thread and of a block, in the words of depthwise_rows.cuh.
struct Shares {
  bool back = false, turned = false, slides = false;
  int lanes = 0, columns = 0, steps = 0, ahead = 0, across = 0;
  std::int64_t items = 0, piece_blocks = 0, shares = 0;  // items of one piece of channels; blocks that share those
  std::int64_t rows() const { return kThreads / across; }
};

// The problem as the kernel sees it: an input gradient of stride 1 is a forward pass over dy.
ConvProblem as_computed(const ConvProblem& conv) {
  if (conv.role != ConvRole::input_grad || conv.stride != std::array{1, 1}) return conv;
  ConvProblem turned = conv;
  turned.role = ConvRole::output;
  std::swap(turned.height, turned.p), std::swap(turned.width, turned.q);
  turned.pad = {(conv.r - 1) * conv.dilation[0] - conv.pad[0], (conv.s - 1) * conv.dilation[1] - conv.pad[1]};
  return turned;
}

int places(const ConvProblem& conv, int columns) {
  const int reach = (conv.s - 1) * conv.dilation[1];
  if (conv.role == ConvRole::input_grad) return (columns + reach) / conv.stride[1] + 1;
  return (columns - 1) * conv.stride[1] + reach + 1;
}

// Steps that a row of the result spans; rows of stride 1 fall into classes of dilation 1.
int live_steps(const ConvProblem& conv) {
  const int dilation = conv.role != ConvRole::input_grad && conv.stride[0] == 1 ? 1 : conv.dilation[0];
  return (conv.r - 1) * dilation / conv.stride[0] + 1;
}

// Whether the sums of a thread stay in registers with rows read once.
bool can_slide(const ConvProblem& conv, int lanes, int columns) {
  const int taps = conv.r * conv.s, live = live_steps(conv);
  const int rows = conv.role == ConvRole::input_grad ? conv.stride[0] : 1;
  const int filter = conv.role == ConvRole::filter_grad || taps * lanes <= 80 ? taps * lanes : lanes;
  const int used = std::min(places(conv, columns), columns * conv.s);
  return live <= kMostLive && filter + (live * rows * columns + used) * lanes + 20 <= kRegisters &&
         live * taps * columns * lanes <= kMostProducts;
}

// A thread's columns and channels: as many as registers hold, with rows read once if that can be.
void choose_tile(Shares& shares, const ConvProblem& conv, int most_lanes) {
  const bool strided = conv.stride[1] > 1;
  const int unit = shares.back ? conv.stride[1] : 1;
  const int wide = conv.role == ConvRole::filter_grad || strided ? 2 : 4;
  for (int lanes = most_lanes; lanes >= std::max(most_lanes / 2, 1); lanes /= 2)
    for (int columns = wide; columns >= 1; columns /= 2) {
      shares.lanes = lanes, shares.columns = static_cast<int>(round_up(columns, unit));
      shares.slides = can_slide(conv, lanes, shares.columns);
      if (shares.slides) return;
    }
  shares.lanes = most_lanes, shares.columns = static_cast<int>(round_up(strided ? 2 : 4, unit));
}

Shares shares_of(const ConvProblem& layer, const Chip& chip) {
  const ConvProblem conv = as_computed(layer);
  Shares shares{.back = conv.role == ConvRole::input_grad, .turned = conv.role != layer.role};
  const int bytes = static_cast<int>(size_of(conv.dtype));
  choose_tile(shares, conv, conv.channels % 4 == 0 ? 4 : conv.channels % 2 == 0 ? 2 : 1);
  const int row_bytes = places(conv, shares.columns) * shares.lanes * bytes * kThreads;
  shares.ahead = std::clamp(kSharedBytes / row_bytes - 1, 1, conv.role == ConvRole::filter_grad ? 2 : 4);
  const int pieces = conv.channels / shares.lanes;
  shares.across = pieces < 8 ? static_cast<int>(std::bit_floor(static_cast<unsigned>(pieces))) : 8;
  for (int across : {32, 16})
    if (shares.across == 8 && pieces % across == 0) shares.across = across;
  shares.piece_blocks = ceil_div(pieces, shares.across);

  const bool classes = shares.slides && !shares.back && conv.stride[0] == 1;
  const int steps = shares.back ? (conv.height - 1 + conv.pad[0]) / conv.stride[0] + 1 - conv.pad[0] / conv.stride[0]
                                : static_cast<int>(ceil_div(conv.p, classes ? conv.dilation[0] : 1));
  const std::int64_t groups = ceil_div(shares.back ? conv.width : conv.q, shares.columns);
  const auto items = [&](int strip) {
    return conv.images * (classes ? conv.dilation[0] : 1) * ceil_div(steps, strip) * groups;
  };
  shares.steps = std::min(steps, 14);
  if (shares.steps > 7 && ceil_div(items(shares.steps), shares.rows()) * shares.piece_blocks < 8 * chip.sms)
    shares.steps = 7;
  shares.items = items(shares.steps);
  shares.shares =
      std::clamp<std::int64_t>(4 * chip.sms / shares.piece_blocks, 1, ceil_div(shares.items, shares.rows()));
  return shares;
}

KernelCode generate_program(const Plan& plan, const Choice& choice, const Chip& chip) {
  const ConvProblem& layer = problem_of(choice);
  const ConvProblem conv = as_computed(layer);
  const Shares shares = shares_of(layer, chip);
  const bool filter_grad = conv.role == ConvRole::filter_grad;
  const std::string storage{type_name(conv.dtype)};
  const Operand &first = choice.kernel.head->operands[0], &second = choice.kernel.head->operands[1];
  const auto pointer = [&](const char* name, const Operand& operand) {
    return Pointer{"const " + storage + "*", name, {operand.slot, operand.offset * size_of(conv.dtype)}};
  };
  std::vector<Pointer> pointers{pointer("source", filter_grad ? second : first),
                                pointer("other", filter_grad ? first : second)};
  if (filter_grad) pointers.push_back({"float*", "parts", {Argument::kScratch, 0}});
  NhwcFunctor body = nhwc_functor(plan, choice.kernel, pointers, filter_grad ? 1 : shares.lanes);
  KernelCode code;
  code.source = window_defines(conv, conv.pad) +
                defines({{"CONV_ROLE", static_cast<int>(conv.role)},
                         {"CONV_C", conv.channels},
                         {"CONV_IMAGES", conv.images},
                         {"CONV_H", conv.height},
                         {"CONV_W", conv.width},
                         {"CONV_P", conv.p},
                         {"CONV_Q", conv.q},
                         {"CONV_TURNED", shares.turned},
                         {"CONV_LANES", shares.lanes},
                         {"CONV_COLUMNS", shares.columns},
                         {"CONV_SLIDES", shares.slides},
                         {"CONV_STEPS", shares.steps},
                         {"CONV_AHEAD", shares.ahead},
                         {"CONV_ACROSS", shares.across},
                         {"CONV_THREADS", kThreads},
                         {"CONV_BLOCKS", kBlocks},
                         {"CONV_SHARES", shares.shares}}) +
                fmt::format("#include \"types.cuh\"\nusing Storage = {};\n", storage) + body.text +
                fmt::format("#include \"{}.cuh\"\n", filter_grad ? "depthwise_wgrad" : "depthwise");
  code.arguments = std::move(body.arguments);
  code.variant = fmt::format("depthwise {}x{}{}", shares.lanes, shares.columns, shares.slides ? "" : " by rows");
  if (!filter_grad) {
    code.launches.push_back({"depthwise", ceil_div(shares.items, shares.rows()) * shares.piece_blocks, kThreads});
    return code;
  }
  const std::int64_t numbers = std::int64_t{1} * conv.channels * conv.r * conv.s;
  code.scratch_bytes = 4 * numbers * shares.shares;
  code.launches.push_back(
      {"depthwise_wgrad", shares.shares * shares.piece_blocks * (shares.slides ? 1 : conv.r), kThreads});
  code.launches.push_back({"depthwise_reduce", ceil_div(numbers, 16), 512});
  return code;
}

class Depthwise final : public Family {
 public:
  std::string_view name() const override { return "depthwise"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    const auto* op = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
    if (!op) return Refusal{"no convolution"};
    if (op->groups == 1) return Refusal{"one group"};
    Kernel plain = kernel;
    std::get<Conv>(plain.head->op).groups = 1;
    const ConvMatch found = conv_problem(plan, plain);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    if (op->groups != conv.channels || conv.filters != conv.channels)
      return Refusal{fmt::format("{} channels to {} filters in {} groups", conv.channels, conv.filters, op->groups)};
    if (!conv.is_16_bit() && conv.dtype != Dtype::f32) return Refusal{fmt::format("{} operands", conv.dtype)};
    for (const Operand& operand : kernel.head->operands)
      if (dtype_of(plan, operand) != conv.dtype) return Refusal{"operands of two types"};
    if (conv.is_16_bit() && conv.channels % 2 != 0) return Refusal{"an odd number of 16-bit channels"};
    const ConvProblem computed = as_computed(conv);
    if (places(computed, static_cast<int>(round_up(4, computed.stride[1]))) > 32)
      return Refusal{"more than 32 columns that a thread reads"};
    return Choice{.kernel = kernel, .sizes = conv, .layouts = {Layout::channels_last, Layout::channels_last}};
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return generate_program(plan, choice, chip);
  }
};

}  // namespace

const Family& depthwise() {
  static const Depthwise family;
  return family;
}

}  // namespace nixie::cuda
