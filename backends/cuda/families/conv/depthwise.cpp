// Depthwise convolutions, one filter or a few for each channel,
// in all roles: how threads share the work, and the program.
#include <algorithm>
#include <bit>
#include <limits>

#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/parts.h"
#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr int kThreads = 128, kBlocks = 3;  // of a block, at most; of blocks on an SM, at least
constexpr int kRegisters = 130;             // by the estimate below, which leaves out what follows the sums
constexpr int kRegistersOfTwo = 200;        // the same with two blocks on an SM, for the sums of many taps
constexpr int kRegistersByRows = 155;       // by the estimate for rows that are read again
constexpr int kMostLive = 8;                // steps that are unrolled together
constexpr int kMostProducts = 2800;         // of unrolled loops that the compiler keeps in registers
constexpr int kMostPlaces = 64;             // of a row of the source, that a thread reads
constexpr int kMostTerms = 8;               // of a place, that a thread reads
constexpr int kTapsAtOnce = 20;             // of a row of the window; wider ones are cut into pieces
constexpr int kSharedBytes = 46 << 10;      // of a block, for rows on their way, if two fit
constexpr int kMostSharedBytes = 80 << 10;  // for two
constexpr int kFilterBytes = 32 << 10;      // of a block, for filters that registers do not hold

// The work of a thread and of a block, in the words of depthwise_rows.cuh.
struct Shares {
  bool back = false, turned = false, slides = false;
  int lanes = 0, columns = 0, cuts = 1, steps = 0, ahead = 0, across = 0, threads = 0;
  int blocks = kBlocks;                                  // on an SM, at least
  std::int64_t items = 0, piece_blocks = 0, shares = 0;  // items of one piece of channels; blocks that share those
  std::int64_t rows() const { return threads / across; }
};

// The problem as the kernel sees it: an input gradient of stride 1 is a forward pass over dy.
struct Computed : ConvProblem {
  bool to_input = false;  // makes dx

  int result_channels() const { return to_input ? channels : filters; }
  int many() const { return filters / channels; }  // filters of a channel
  // The channels that a thread reads at a place for so many of the result, and the filters that it takes there.
  int source_lanes(int lanes) const { return to_input ? lanes * many() : std::max(lanes / many(), 1); }
  int filter_lanes(int lanes) const { return to_input ? lanes * many() : lanes; }
  bool sends(int lanes) const {
    const std::int64_t bytes = source_lanes(lanes) * size_of(dtype);
    return std::has_single_bit(static_cast<std::uint64_t>(bytes)) && bytes >= 4 && bytes <= 16;
  }
};

Computed as_computed(const ConvProblem& conv) {
  Computed computed{conv, conv.role == ConvRole::input_grad};
  if (!computed.to_input || conv.stride != std::array{1, 1}) return computed;
  computed.role = ConvRole::output;
  std::swap(computed.height, computed.p), std::swap(computed.width, computed.q);
  computed.pad = {(conv.r - 1) * conv.dilation[0] - conv.pad[0], (conv.s - 1) * conv.dilation[1] - conv.pad[1]};
  return computed;
}

// Channels of the result that a thread can make, at most.
int most_lanes(const Computed& conv) {
  const int many = conv.many();
  for (int lanes : {4, 2}) {
    const bool fits = conv.to_input ? lanes * many <= kMostTerms : many % lanes == 0 || lanes % many == 0;
    if (conv.result_channels() % lanes == 0 && fits) return lanes;
  }
  return 1;
}

// Columns of the source that a thread reads for so many of the result and a piece of the window, and those between
// them.
int places(const ConvProblem& conv, int columns, int cuts = 1) {
  const int reach = (static_cast<int>(ceil_div(conv.s, cuts)) - 1) * conv.dilation[1], stride = conv.stride[1],
            pad = conv.pad[1];
  if (conv.role != ConvRole::input_grad) return (columns - 1) * stride + reach + 1;
  const auto down = [&](int a) { return a >= 0 ? a / stride : -((stride - 1 - a) / stride); };
  return down(columns - 1 + pad) - down(pad - reach) + 1;
}

// Pieces of a wide window, that a thread can read.
int fewest_cuts(const ConvProblem& conv, int columns) {
  auto cuts = static_cast<int>(ceil_div(conv.s, kTapsAtOnce));
  while (cuts < conv.s && places(conv, columns, cuts) > kMostPlaces) ++cuts;
  return cuts;
}

// Steps that a row of the result spans; rows of stride 1 fall into classes of dilation 1.
int live_steps(const ConvProblem& conv) {
  const int dilation = conv.role != ConvRole::input_grad && conv.stride[0] == 1 ? 1 : conv.dilation[0];
  return (conv.r - 1) * dilation / conv.stride[0] + 1;
}

bool is_held(const Computed& conv, int lanes) { return conv.r * conv.s * conv.filter_lanes(lanes) <= 80; }

// Registers of a row in use, and of the next one where that cannot wait in shared memory.
int registers_of_row(const Computed& conv, int lanes, int columns, int cuts = 1) {
  const int used = std::min(places(conv, columns, cuts), columns * conv.s) * conv.source_lanes(lanes);
  return conv.sends(lanes) ? used : 2 * used + 24;
}

// Whether the sums of a thread stay in registers with rows read once.
bool can_slide(const Computed& conv, int lanes, int columns, int most_registers = kRegisters) {
  const int taps = conv.r * conv.s, live = live_steps(conv), filters = conv.filter_lanes(lanes);
  const int rows = conv.role == ConvRole::input_grad ? conv.stride[0] : 1;
  const int filter = conv.role == ConvRole::filter_grad ? taps * lanes
                     : is_held(conv, lanes)             ? taps * filters
                                                        : filters;
  const int used = registers_of_row(conv, lanes, columns) + live * rows * columns * lanes + filter + 20;
  return live <= kMostLive && used <= most_registers && live * taps * columns * filters <= kMostProducts &&
         places(conv, columns) <= kMostPlaces;
}

// Shared memory of a row on its way.
std::int64_t row_bytes(const Computed& conv, const Shares& shares) {
  return conv.sends(shares.lanes) ? places(conv, shares.columns, shares.cuts) * conv.source_lanes(shares.lanes) *
                                        size_of(conv.dtype) * kThreads
                                  : 0;
}
// Shared memory of the filters that registers do not hold, for a piece of channels.
std::int64_t filter_bytes(const Computed& conv, const Shares& shares) {
  const bool in_registers = conv.role == ConvRole::filter_grad || (shares.slides && is_held(conv, shares.lanes));
  return in_registers ? 0 : std::int64_t{4} * conv.r * conv.s * conv.filter_lanes(shares.lanes);
}

// Whether a thread can read its rows again for each row of the result.
bool fits(const Shares& shares, const Computed& conv, const Chip& chip) {
  const std::int64_t most = std::min<std::int64_t>(kMostSharedBytes, chip.block_shared_bytes - kFilterBytes - 4096);
  const int rows = conv.role == ConvRole::input_grad ? conv.stride[0] : 1;
  const int filters = conv.role == ConvRole::filter_grad ? conv.s * shares.lanes : conv.filter_lanes(shares.lanes);
  const int registers = registers_of_row(conv, shares.lanes, shares.columns, shares.cuts) + filters +
                        rows * shares.columns * shares.lanes;
  return places(conv, shares.columns, shares.cuts) <= kMostPlaces && 2 * row_bytes(conv, shares) <= most &&
         registers <= kRegistersByRows && filter_bytes(conv, shares) <= kFilterBytes;
}

// A thread's columns and channels: as many as registers hold, with rows read once if that can be.
void choose_tile(Shares& shares, const Computed& conv, const Chip& chip) {
  const bool strided = conv.stride[1] > 1,
             is_wide = conv.role == ConvRole::output && (conv.s > kTapsAtOnce || places(conv, 1) > kMostPlaces);
  const int unit = shares.back ? conv.stride[1] : 1, most = most_lanes(conv);
  const int wide = conv.role == ConvRole::filter_grad || strided ? 2 : 4;
  const auto take = [&](int lanes, int columns) {
    shares.lanes = lanes, shares.columns = static_cast<int>(round_up(columns, unit));
  };
  // Filters that registers do not hold are read for each tap, once
  // for all columns: of few that takes longer than the products.
  Shares best;
  for (int lanes = most; !is_wide && lanes >= std::max(most / 2, 1); lanes /= 2)
    for (int columns = wide; columns > best.columns; columns /= 2) {
      take(lanes, columns);
      if (!can_slide(conv, lanes, shares.columns)) continue;
      shares.slides = true;
      if (is_held(conv, lanes)) return;
      best = shares;
      break;
    }
  if (best.slides) {
    shares = best;
    return;
  }
  // Rows that are read for each row of the filter come from L2 so many times, which takes longer than fewer blocks do.
  if (conv.role == ConvRole::filter_grad)
    for (int lanes = most; lanes >= std::max(most / 2, 1); lanes /= 2) {
      take(lanes, wide);
      if (!can_slide(conv, lanes, wide, kRegistersOfTwo)) continue;
      shares.slides = true, shares.blocks = 2;
      return;
    }
  for (int lanes = most; lanes >= 1; lanes /= 2)
    for (int columns = strided ? 2 : is_wide ? 8 : 4; columns >= 1; columns /= 2) {
      take(lanes, columns);
      if (is_wide) shares.cuts = fewest_cuts(conv, columns);
      if (fits(shares, conv, chip)) return;
    }
}

// Pieces of channels side by side in a block: neighbours in memory, 64 bytes or more of them where there are.
int pieces_across(const Computed& conv, const Shares& shares) {
  const int pieces = conv.result_channels() / shares.lanes;
  const auto bytes = static_cast<int>(shares.lanes * size_of(conv.dtype));
  const auto most = static_cast<int>(
      std::clamp<std::int64_t>(kFilterBytes / std::max<std::int64_t>(filter_bytes(conv, shares), 1), 1, 32));
  for (int across : {32, 16, 8})
    if (across <= most && across * bytes >= 64 && (pieces % across == 0 || (across == 8 && pieces > 8))) return across;
  const auto blocks = static_cast<int>(ceil_div(pieces, most));
  return static_cast<int>(ceil_div(pieces, blocks));
}

Shares shares_of(const ConvProblem& layer, const Chip& chip) {
  const Computed conv = as_computed(layer);
  Shares shares{.back = conv.role == ConvRole::input_grad, .turned = conv.role != layer.role};
  choose_tile(shares, conv, chip);
  shares.across = pieces_across(conv, shares);
  shares.threads = kThreads / shares.across * shares.across;
  shares.piece_blocks = ceil_div(conv.result_channels() / shares.lanes, shares.across);
  const std::int64_t row = std::max<std::int64_t>(row_bytes(conv, shares), 1);
  shares.ahead =
      static_cast<int>(std::clamp<std::int64_t>(kSharedBytes / row - 1, 1, conv.role == ConvRole::filter_grad ? 2 : 4));

  const bool classes = shares.slides && !shares.back && conv.stride[0] == 1;
  const int steps = shares.back ? (conv.height - 1 + conv.pad[0]) / conv.stride[0] + 1 - conv.pad[0] / conv.stride[0]
                                : static_cast<int>(ceil_div(conv.p, classes ? conv.dilation[0] : 1));
  const std::int64_t groups = ceil_div(shares.back ? conv.width : conv.q, shares.columns);
  const auto items = [&](int strip) {
    return conv.images * (classes ? conv.dilation[0] : 1) * ceil_div(steps, strip) * groups;
  };
  const std::int64_t kernels =
      shares.piece_blocks * (conv.role == ConvRole::filter_grad && !shares.slides ? conv.r : 1);
  const auto blocks = [&] { return ceil_div(items(shares.steps), shares.rows()) * kernels; };
  if (conv.role == ConvRole::filter_grad) {
    // All blocks run at once. Strips whose rows take a thread the fewest steps, with those that two strips read.
    constexpr int kStart = 2;  // steps that it takes to begin a strip
    const int sources = static_cast<int>(ceil_div(conv.height, conv.stride[0] * (classes ? conv.dilation[0] : 1)));
    shares.shares = std::max<std::int64_t>((shares.blocks == kBlocks ? 4 : shares.blocks) * chip.sms / kernels, 1);
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (int strips = steps; strips >= 1; --strips) {
      const int strip = static_cast<int>(ceil_div(steps, strips)),
                read = shares.slides ? std::min(strip + live_steps(conv) - 1, sources) : strip;
      const std::int64_t taken = ceil_div(items(strip), shares.rows() * shares.shares) * (read + kStart);
      if (taken <= fewest) fewest = taken, shares.steps = strip;
    }
  } else {
    shares.shares = 4 * chip.sms / kernels;
    shares.steps = std::min(steps, 14);
    if (shares.steps > 7 && blocks() < 8 * chip.sms) shares.steps = 7;
    // Rows that are read for each row of the result anyway cost a strip nothing.
    while (!shares.slides && shares.steps > 1 && blocks() < 4 * chip.sms) shares.steps = (shares.steps + 1) / 2;
  }
  shares.items = items(shares.steps);
  shares.shares = std::clamp<std::int64_t>(shares.shares, 1, ceil_div(shares.items, shares.rows()));
  return shares;
}

KernelCode generate_program(const Plan& plan, const Choice& choice, const Chip& chip) {
  const ConvProblem& layer = problem_of(choice);
  const Computed conv = as_computed(layer);
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
  NhwcFunctor body =
      nhwc_functor(plan, choice.kernel, pointers, filter_grad ? 1 : shares.lanes, {.leaves = choice.leaves});
  KernelCode code;
  code.source = window_defines(conv, conv.pad) +
                defines({{"CONV_ROLE", static_cast<int>(conv.role)},
                         {"CONV_C", conv.channels},
                         {"CONV_FILTERS", conv.filters},
                         {"CONV_IMAGES", conv.images},
                         {"CONV_H", conv.height},
                         {"CONV_W", conv.width},
                         {"CONV_P", conv.p},
                         {"CONV_Q", conv.q},
                         {"CONV_TURNED", shares.turned},
                         {"CONV_LANES", shares.lanes},
                         {"CONV_COLUMNS", shares.columns},
                         {"CONV_SLIDES", shares.slides},
                         {"CONV_CUTS", shares.cuts},
                         {"CONV_STEPS", shares.steps},
                         {"CONV_AHEAD", shares.ahead},
                         {"CONV_ACROSS", shares.across},
                         {"CONV_THREADS", shares.threads},
                         {"CONV_BLOCKS", shares.blocks},
                         {"CONV_SHARES", shares.shares}}) +
                fmt::format("#include \"types.cuh\"\nusing Storage = {};\n", storage) + body.text +
                fmt::format("#include \"{}.cuh\"\n", filter_grad ? "depthwise_wgrad" : "depthwise");
  code.arguments = std::move(body.arguments);
  std::int64_t shared_bytes = (shares.ahead + 1) * row_bytes(conv, shares) + shares.across * filter_bytes(conv, shares);
  const char* rows = shares.slides ? "" : shares.cuts == 1 ? " by rows" : " by rows in pieces";
  code.variant = fmt::format("depthwise {}x{}{}", shares.lanes, shares.columns, rows);
  const auto launch = [&](const char* entry, std::int64_t blocks) {
    code.launches.push_back(
        {.entry = entry, .blocks = blocks, .threads = shares.threads, .shared_bytes = shared_bytes});
  };
  if (!filter_grad) {
    std::int64_t blocks = ceil_div(shares.items, shares.rows());
    if (choice.leaves) {
      blocks = choice.leaves->count;
      const int bytes = accumulator_code(choice.kernel.stages.back()).bytes;
      shared_bytes = std::max<std::int64_t>(shared_bytes, shares.threads * shares.lanes * bytes);
    }
    launch("depthwise", blocks * shares.piece_blocks);
    return code;
  }
  const std::int64_t numbers = std::int64_t{1} * conv.filters * conv.r * conv.s;
  code.scratch_bytes = 4 * numbers * shares.shares;
  launch("depthwise_wgrad", shares.shares * shares.piece_blocks * (shares.slides ? 1 : conv.r));
  code.launches.push_back({"depthwise_reduce", ceil_div(numbers, 16), 512});
  return code;
}

class Depthwise final : public Family {
 public:
  std::string_view name() const override { return "depthwise"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    const auto* op = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
    if (!op) return Refusal{"no convolution"};
    Kernel plain = kernel;
    std::get<Conv>(plain.head->op).groups = 1;
    const ConvMatch found = conv_problem(plan, plain);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    if (op->groups != conv.channels) return Refusal{fmt::format("{} channels in {} groups", conv.channels, op->groups)};
    // One channel is a group of its own; of more filters the sums do not fit registers.
    if (op->groups == 1 && (conv.filters > 1 || conv.r * conv.s == 1))
      return Refusal{fmt::format("one channel, {} filters of {}x{}", conv.filters, conv.r, conv.s)};
    if (op->groups == 1 && conv.role == ConvRole::input_grad && conv.stride != std::array{1, 1})
      return Refusal{"one channel, phases of an input gradient"};
    if (!conv.is_16_bit() && conv.dtype != Dtype::f32) return Refusal{fmt::format("{} operands", conv.dtype)};
    for (const Operand& operand : kernel.head->operands)
      if (dtype_of(plan, operand) != conv.dtype) return Refusal{"operands of two types"};
    const Computed computed = as_computed(conv);
    if (computed.source_lanes(1) > kMostTerms) return Refusal{fmt::format("{} filters for a channel", computed.many())};
    Shares shares{.back = computed.role == ConvRole::input_grad};
    choose_tile(shares, computed, chip);
    if (!shares.slides && !fits(shares, computed, chip))
      return Refusal{fmt::format("a thread reads {} columns", places(computed, shares.columns, shares.cuts))};
    return Choice{
        .kernel = kernel, .sizes = conv, .layouts = {OperandLayout::channels_last, OperandLayout::channels_last}};
  }
  Work work(const Plan&, const Choice& choice, const Chip&) const override {
    constexpr double kShare = 0.31;  // of the rate of multiply-adds: 0.2 to 0.5 of 27 windows from 5x5 to 75 on an H200
    return {.fma = flop(choice.kernel) / kShare};
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return generate_program(plan, choice, chip);
  }
  // Where L2 does not hold the result until it is read again. Blocks then go on from item to item, which costs more
  // than it saves with images to load beside the sums.
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    const ConvProblem& conv = problem_of(choice);
    if (conv.role == ConvRole::filter_grad ||
        choice.kernel.domain.size() * size_of(conv.dtype) < grouping.chip.l2_bytes)
      return {};
    const Shares shares = shares_of(conv, grouping.chip);
    const std::int64_t blocks = ceil_div(shares.items, shares.rows());
    const std::int64_t resident = std::max<std::int64_t>(kBlocks * grouping.chip.sms / shares.piece_blocks, 1);
    auto with = with_parts(grouping, choice, other, {.of_channel = std::min(blocks, resident)});
    return with && with->choice.kernel.loads == choice.kernel.loads ? with : std::nullopt;
  }
};

}  // namespace

const Family& depthwise() {
  static const Depthwise family;
  return family;
}

}  // namespace nixie::cuda
