// First layers of three channels and stride 4 on sm_90a, by space-to-depth: images are packed in blocks of 4x4 pixels.
#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/families/channel_sum.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/image_code.h"
#include "nixie/backends/cuda/families/pooled_result.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

struct Band {
  int rows = 0, buffers = 0;
  std::int64_t shared_bytes = 0;
};

struct Stride4 {
  Stride4(const ConvProblem& conv, const Chip& chip)
      : tap_rows((conv.r + 3) / 4),
        taps(tap_rows * ((conv.s + 3) / 4)),
        pitch(conv.q + (conv.s + 3) / 4 - 1),
        out_rows(conv.p),
        room(chip.block_shared_bytes - 1024) {}
  int tap_rows, taps, pitch, out_rows;
  std::int64_t room;  // shared memory of a block

  // The bands that cover the image with the fewest rows read and computed.
  Band best(std::int64_t filter_bytes, bool with_gradient, int multiple = 1) const {
    Band best;
    double least = std::numeric_limits<double>::max();
    for (int buffers : {3, 2})
      for (int rows = static_cast<int>(std::min<std::int64_t>(round_up(out_rows, multiple), 64)); rows >= multiple;
           rows -= multiple) {
        std::int64_t band =
            round_up(std::int64_t{96} * (rows + tap_rows - 1) * pitch + 16 * (taps / tap_rows + 14), 1024);
        if (with_gradient) band += round_up(std::int64_t{128} * rows * pitch, 2048);
        const std::int64_t shared = 1024 + buffers * band + filter_bytes;
        if (shared > room) continue;
        const double cost = static_cast<double>(ceil_div(out_rows, rows)) * (rows + 0.5 * (tap_rows - 1)) *
                            (buffers == 2 && with_gradient ? 1.05 : 1);
        if (cost < least) least = cost, best = {rows, buffers, shared};
      }
    return best;
  }
  Band forward(const ConvProblem& conv, bool pooled) const {
    return best(std::int64_t{96} * taps * conv.filters, false, pooled ? 8 : 1);
  }
  Band gradient() const { return best(0, true); }
};

// How many 16-bit elements the packed images are.
std::int64_t packed_elements(const ConvProblem& conv, const Chip& chip) {
  const Stride4 shape(conv, chip);
  return std::int64_t{8} * conv.images * 6 * (conv.p + shape.tap_rows - 1) * shape.pitch;
}

// How many images each thread packs: they share index arithmetic.
constexpr std::int64_t kImagesAtOnce = 2;
std::int64_t packing_threads(const ConvProblem& conv, const Chip& chip) {
  return packed_elements(conv, chip) / 8 / conv.images * ceil_div(conv.images, kImagesAtOnce);
}

std::vector<std::pair<const char*, std::int64_t>> stride4_defines(const ConvProblem& conv, const Band& band) {
  return {{"CONV_IMAGES", conv.images},
          {"CONV_H", conv.height},
          {"CONV_W", conv.width},
          {"CONV_PAD_H", conv.pad[0]},
          {"CONV_PAD_W", conv.pad[1]},
          {"CONV_K", conv.filters},
          {"CONV_R", conv.r},
          {"CONV_S", conv.s},
          {"CONV_P", conv.p},
          {"CONV_Q", conv.q},
          {"CONV_BAND", band.rows},
          {"CONV_BUFFERS", band.buffers},
          {"CONV_AT_ONCE", kImagesAtOnce},
          {"NIXIE_BF16", conv.dtype == Dtype::bf16}};
}

Launch threads_of(const char* entry, std::int64_t threads) {
  return {.entry = entry, .blocks = ceil_div(threads, 256), .threads = 256};
}

KernelCode generate_forward(const Plan& plan, const Choice& choice, const Chip& chip) {
  const Kernel& kernel = choice.kernel;
  const ConvProblem& conv = problem_of(choice);
  const Stride4 shape(conv, chip);
  const Band band = shape.forward(conv, choice.pooled.has_value());
  const Operand& w = kernel.head->operands[1];
  KernelCode code;
  const std::int64_t packed_filter_bytes = std::int64_t{96} * shape.taps * conv.filters;
  code.scratch_bytes = packed_filter_bytes + (choice.packed_images ? 0 : packed_elements(conv, chip) * 2);
  const Argument packed =
      choice.packed_images ? Argument{*choice.packed_images, 0} : Argument{Argument::kScratch, packed_filter_bytes};
  const ImageCode images = image_code(plan, choice);
  std::vector<Pointer> pointers = images.pointers;
  pointers.insert(pointers.end(), {{"uint4*", "packed", packed},
                                   {"const unsigned short*", "w", {w.slot, w.offset * 2}},
                                   {"uint4*", "packed_weights", {Argument::kScratch, 0}}});
  code.source = defines(stride4_defines(conv, band)) + stride_defines(choice) +
                defines({{"CONV_GRAD", 0}, {"CONV_POOL", choice.pooled.has_value()}}) +
                products_of_columns({conv.filters});
  if (choice.pooled) {
    const PooledResult& pooled = *choice.pooled;
    pointers.push_back({"const float*", "bias", address_of(plan, pooled.bias.value_or(pooled.output))});
    pointers.push_back({"unsigned short*", "y", address_of(plan, pooled.output)});
    pointers.push_back({"unsigned char*", "index", address_of(plan, pooled.index)});
    code.source +=
        defines({{"CONV_BIAS", pooled.bias.has_value()}, {"CONV_RELU", pooled.relu}}) + body_of(pointers, code);
  } else {
    NhwcFunctor body = nhwc_functor(plan, kernel, pointers);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
  }
  code.source += images.code + "#include \"conv_s2d_sm90.cuh\"\n";
  code.variant = fmt::format("conv_s2d_sm90 band {}{}", band.rows, choice.pooled ? " with pool" : "");
  code.launches = {threads_of("conv_s2d_pack", packing_threads(conv, chip)),
                   threads_of("conv_s2d_pack_weights", packed_filter_bytes / 16),
                   {.entry = "conv_s2d",
                    .blocks = std::min<std::int64_t>(chip.sms, conv.images * ceil_div(conv.p, band.rows)),
                    .threads = 512,
                    .shared_bytes = band.shared_bytes}};
  return code;
}

KernelCode generate_filter_grad(const Plan& plan, const Choice& choice, const Chip& chip) {
  const Kernel& kernel = choice.kernel;
  const ConvProblem& conv = problem_of(choice);
  const Stride4 shape(conv, chip);
  const Band band = shape.gradient();
  const Operand& dy = kernel.head->operands[0];
  const Access& dw = kernel.stores[0];
  const std::int64_t columns = ceil_div(conv.filters, 64), rows = shape.taps * 48 + 8;
  const std::int64_t pixels = std::int64_t{1} * conv.images * conv.p * conv.q,
                     blocks = std::min<std::int64_t>(blocks_for_terms(pixels, chip.sms / columns),
                                                     conv.images * ceil_div(conv.p, band.rows));
  const std::int64_t part_bytes = blocks * columns * rows * 64 * 4, bias_bytes = round_up(conv.filters * 4, 256);
  KernelCode code;
  code.scratch_bytes = part_bytes + bias_bytes + (choice.packed_images ? 0 : packed_elements(conv, chip) * 2);
  const ImageCode images = image_code(plan, choice);
  std::vector<Pointer> pointers = images.pointers;
  pointers.insert(pointers.end(), {{"uint4*", "packed",
                                    choice.packed_images ? Argument{*choice.packed_images, 0}
                                                         : Argument{Argument::kScratch, part_bytes + bias_bytes}},
                                   {"float*", "parts", {Argument::kScratch, 0}},
                                   {"void*", "dw", address_of(plan, dw)},
                                   {"float*", "db",
                                    choice.channel_sum ? address_of(plan, *choice.channel_sum)
                                                       : Argument{Argument::kScratch, part_bytes}}});
  code.source =
      defines(stride4_defines(conv, band)) + stride_defines(choice) +
      defines({{"CONV_GRAD", 1}, {"CONV_BLOCKS", blocks}, {"CONV_OUT_FLOAT", dtype_of(plan, dw.slot) == Dtype::f32}}) +
      products_of_columns({48, 8}) +  // 48 channels of a tap; ones
      body_of(pointers, code) + images.code + "#include \"conv_s2d_sm90.cuh\"\n";
  code.variant = fmt::format("conv_s2d_sm90 gradient, band {}", band.rows);
  code.maps.push_back(tiled_map(dy, conv.dtype, {u64(conv.filters), u64(conv.q), u64(conv.p), u64(conv.images)},
                                {64, u32(shape.pitch), u32(band.rows), 1}, 128));
  if (!choice.packed_images) code.launches.push_back(threads_of("conv_s2d_pack", packing_threads(conv, chip)));
  code.launches.push_back({.entry = "conv_s2d_wgrad",
                           .blocks = blocks,
                           .threads = 512,
                           .blocks_y = columns,
                           .shared_bytes = band.shared_bytes,
                           .maps = {0}});
  code.launches.push_back({.entry = "conv_s2d_wgrad_reduce", .blocks = rows, .threads = 256, .blocks_y = columns});
  return code;
}

std::string limits(const ConvProblem& conv, const Chip& chip) {
  if (conv.role == ConvRole::input_grad) return "input gradient";
  if (conv.channels != 3 || conv.by_rows) return fmt::format("{} channels", conv.channels);
  if (conv.products() != 1) return "three products";
  if (conv.dilation != std::array{1, 1}) return "dilation";
  if (conv.stride != std::array{4, 4}) return fmt::format("stride {}x{}", conv.stride[0], conv.stride[1]);
  if (conv.r > 12 || conv.s > 12) return fmt::format("window {}x{}", conv.r, conv.s);
  const bool grad = conv.role == ConvRole::filter_grad;
  if (grad && conv.r <= 8) return fmt::format("window of {} rows", conv.r);
  if (grad ? conv.filters % 8 != 0 : conv.filters % 32 != 0 || conv.filters > 96)
    return fmt::format("{} filters", conv.filters);
  const Stride4 shape(conv, chip);
  const Band band = grad ? shape.gradient() : shape.forward(conv, false);
  return band.rows == 0 || shape.pitch > 256 ? "rows too long for shared memory" : "";
}

// Whether rows of bands are not much more than the image's where a band is a multiple of 8.
bool pools(const ConvProblem& conv, const Chip& chip) {
  const int rows = Stride4(conv, chip).forward(conv, true).rows;
  return conv.role == ConvRole::output && rows > 0 && ceil_div(conv.p, rows) * rows <= conv.p + conv.p / 8;
}

class ConvS2d final : public Family {
 public:
  std::string_view name() const override { return "conv_s2d_sm90"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    if (!chip.has_wgmma()) return Refusal{"needs sm_90a"};
    const ConvMatch found =
        conv_in_16_bits(plan, kernel, chip, [&](const ConvProblem& conv) { return limits(conv, chip); });
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& conv = std::get<ConvProblem>(found);
    Choice choice{
        .kernel = kernel, .sizes = conv, .layouts = {OperandLayout::channels_last, OperandLayout::channels_last}};
    choice.layouts[at(images_operand(conv.role))] = OperandLayout::as_it_is;
    choice.alone = conv.role == ConvRole::filter_grad;
    return choice;
  }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    const ConvProblem& conv = problem_of(choice);
    if (auto with = with_image_map(grouping, choice, other, true)) return with;
    if (conv.role == ConvRole::output)
      return pools(conv, grouping.chip) ? with_pooling(grouping, choice, other, conv) : std::nullopt;
    if (auto with = with_channel_sum(grouping, choice, other)) return with;
    return with_packed_images(grouping, choice, other);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return problem_of(choice).role == ConvRole::output ? generate_forward(plan, choice, chip)
                                                       : generate_filter_grad(plan, choice, chip);
  }

 private:
  // The gradient reads the images that the forward pass of the same layer packed.
  std::optional<Absorption> with_packed_images(const Grouping& grouping, const Choice& choice,
                                               std::size_t other) const {
    const Choice* forward = grouping.choice(other, name());
    if (choice.packed_images || !forward || forward->packed_images) return {};
    const ConvProblem &own = problem_of(choice), &theirs = problem_of(*forward);
    const bool same_sizes = own.r == theirs.r && own.s == theirs.s && own.pad == theirs.pad && own.p == theirs.p;
    const bool same_images = choice.images || forward->images
                                 ? choice.images == forward->images
                                 : choice.kernel.head->operands[1] == forward->kernel.head->operands[0];
    if (theirs.role != ConvRole::output || !same_sizes || !same_images) return {};
    const Shape shape{packed_elements(own, grouping.chip)};
    return Absorption{
        .choice = choice,
        .other = Absorption::Other::stays,
        .packed = Slot{.name = "packed images", .dtype = own.dtype, .shape = shape, .strides = shape.row_major()}};
  }
};

}  // namespace

const Family& conv_s2d() {
  static const ConvS2d family;
  return family;
}

}  // namespace nixie::cuda
