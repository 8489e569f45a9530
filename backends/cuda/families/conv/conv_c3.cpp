// First layers of three channels and 3x3 windows, forward pass and filter gradient, optionally with the 2x2
// max pooling after them.
#include <algorithm>

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/image_code.h"
#include "nixie/backends/cuda/families/conv/image_map.h"
#include "nixie/backends/cuda/families/pool_max.h"
#include "nixie/backends/cuda/families/pooled_result.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

std::int64_t window3_shared_bytes(const ConvProblem& conv, std::int64_t stored_bytes = 2) {
  const std::int64_t reach = (conv.width + 2 * conv.pad[1] + 15) * 3, pitch = 2 * ((reach / 2 - 4 + 31) / 32 * 32 + 5),
                     pair_pitch = (reach - 9 + 31) / 32 * 32 + 9;
  return std::max<std::int64_t>({40 * pitch, 40 * pair_pitch, 8448}) + 30 * stored_bytes * conv.width + 16;
}

// Whether rows of images can be copied in pieces of 16 bytes.
bool in_rows_of_pieces(const Operand& x, std::int64_t stored_bytes) {
  const std::int64_t piece = 16 / stored_bytes;
  return x.strides[3] == 1 && x.strides[0] % piece == 0 && x.strides[1] % piece == 0 && x.strides[2] % piece == 0 &&
         x.shape[3] % piece == 0 && x.offset % piece == 0;
}

KernelCode generate_program(const Plan& plan, const Choice& choice, const Chip& chip) {
  const Kernel& kernel = choice.kernel;
  const ConvProblem& conv = problem_of(choice);
  const bool grad = conv.role == ConvRole::filter_grad;
  const std::int64_t pixels = std::int64_t{1} * conv.images * conv.p * conv.q,
                     blocks = std::min<std::int64_t>(grad ? blocks_for_terms(pixels, 2 * chip.sms) : 2 * chip.sms,
                                                     conv.images * ceil_div(conv.p, 8)),
                     columns = conv.filters / 64, part_bytes = blocks * columns * 64 * 32 * 4;
  const std::vector<Operand>& operands = kernel.head->operands;
  const std::int64_t stored_bytes = element_bytes(plan, stored_images(choice).slot);
  const bool pool = choice.pooled || choice.pooled_by;
  KernelCode code;
  code.source = defines({{"CONV_IMAGES", conv.images},
                         {"CONV_H", conv.height},
                         {"CONV_W", conv.width},
                         {"CONV_PAD", conv.pad[0]},
                         {"CONV_K", conv.filters},
                         {"CONV_POOL", pool},
                         {"CONV_GRAD", grad},
                         {"CONV_ROWS", in_rows_of_pieces(stored_images(choice), stored_bytes)},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}}) +
                stride_defines(choice);
  code.variant = fmt::format("conv_c3{}{}", grad ? " gradient" : "", pool ? " with pool" : "");
  const auto launch = [&](const char* entry) {
    code.launches.push_back({.entry = entry,
                             .blocks = blocks,
                             .threads = 256,
                             .blocks_y = columns,
                             .shared_bytes = window3_shared_bytes(conv, stored_bytes)});
  };
  const ImageCode images = image_code(plan, choice);
  std::vector<Pointer> pointers = images.pointers;
  const auto add = [&](const std::string& type, const char* name, Argument argument) {
    pointers.push_back({type, name, argument});
  };
  if (grad) {
    const Access& dw = kernel.stores[0];
    code.source += defines({{"CONV_BLOCKS", blocks}, {"CONV_OUT_FLOAT", dtype_of(plan, dw.slot) == Dtype::f32}});
    code.scratch_bytes = part_bytes + conv.filters * 4;
    add("const unsigned short*", "dy", address_of(plan, operands[0]));
    add("const unsigned char*", "index", address_of(plan, choice.pooled_by.value_or(operands[0])));
    add("float*", "parts", {Argument::kScratch, 0});
    add("void*", "dw", address_of(plan, dw));
    add("float*", "db",
        choice.channel_sum ? address_of(plan, *choice.channel_sum) : Argument{Argument::kScratch, part_bytes});
    code.source += body_of(pointers, code);
    launch("conv_c3_wgrad");
    code.launches.push_back({.entry = "conv_c3_wgrad_reduce", .blocks = 64, .threads = 256, .blocks_y = columns});
  } else if (choice.pooled) {
    const PooledResult& pooled = *choice.pooled;
    code.source += defines({{"CONV_BIAS", pooled.bias.has_value()}, {"CONV_RELU", pooled.relu}});
    add("const unsigned short*", "w", address_of(plan, operands[1]));
    add("const float*", "bias", pooled.bias ? address_of(plan, *pooled.bias) : address_of(plan, operands[1]));
    add("unsigned short*", "y", address_of(plan, pooled.output));
    add("unsigned char*", "index", address_of(plan, pooled.index));
    code.source += body_of(pointers, code);
    launch("conv_c3");
  } else {
    add("const unsigned short*", "w", address_of(plan, operands[1]));
    NhwcFunctor body = nhwc_functor(plan, kernel, pointers);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
    launch("conv_c3");
  }
  code.source += images.code + "#include \"conv_c3.cuh\"\n";
  return code;
}

std::string limits(const ConvProblem& conv) {
  if (conv.role == ConvRole::input_grad) return "input gradient";
  if (conv.channels != 3 || conv.by_rows) return fmt::format("{} channels", conv.channels);
  if (conv.products() != 1) return "three products";
  if (conv.stride != std::array{1, 1} || conv.dilation != std::array{1, 1}) return "stride or dilation";
  if (conv.r != 3 || conv.s != 3) return fmt::format("window {}x{}", conv.r, conv.s);
  if (conv.pad[0] > 1 || conv.pad[0] != conv.pad[1]) return "padding";
  if (conv.filters % 64 != 0) return fmt::format("{} filters", conv.filters);
  return window3_shared_bytes(conv) > 99 * 1024 ? "rows too long for shared memory" : "";
}

class ConvC3 final : public Family {
 public:
  std::string_view name() const override { return "conv_c3"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    if (!chip.has_wgmma() && kernel.head && all_f32(plan, *kernel.head)) return Refusal{"f32 needs sm_90a"};
    const ConvMatch found = conv_in_16_bits(plan, kernel, chip, limits);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    Choice choice{
        .kernel = kernel, .sizes = conv, .layouts = {OperandLayout::channels_last, OperandLayout::channels_last}};
    const auto images = at(images_operand(conv.role));
    Operand stored = kernel.head->operands[images];
    if (const auto map = before_map(plan.kernels, stored); map && map->body.empty()) stored = map->view;
    if (conv.planes > 0 || reads_images(plan, stored, conv.dtype, false))
      choice.layouts[images] = OperandLayout::as_it_is;
    choice.alone = conv.role == ConvRole::filter_grad;
    return choice;
  }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    if (auto with = with_image_map(grouping, choice, other, false)) return with;
    if (problem_of(choice).role == ConvRole::output) return with_pooling(grouping, choice, other, problem_of(choice));
    if (auto with = with_channel_sum(grouping, choice, other)) return with;
    return through_pooling(grouping, choice, other);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return generate_program(plan, choice, chip);
  }

 private:
  // The gradient reads the pooled output's gradient and the index in place of what the pooling's gradient makes of
  // them.
  static std::optional<Absorption> through_pooling(const Grouping& grouping, const Choice& choice, std::size_t other) {
    const Choice* pooling = grouping.choice(other, "pool_max");
    const int dy = choice.kernel.head->operands[0].slot;
    if (choice.pooled_by || !pooling || !only_stores(grouping.plan, pooling->kernel) ||
        pooling->kernel.stores[0].slot != dy || !grouping.only_reader(dy))
      return {};
    const PoolProblem& pool = pool_problem_of(*pooling);
    if (!pool.backward || !pools_by_two(pool, problem_of(choice))) return {};
    Absorption with{.choice = choice};
    with.choice.kernel.head->operands[0] = pooling->kernel.head->operands[0];
    with.choice.pooled_by = pooling->kernel.head->operands[1];
    return with;
  }
};

}  // namespace

const Family& conv_c3() {
  static const ConvC3 family;
  return family;
}

}  // namespace nixie::cuda
