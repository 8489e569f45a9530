// Forward convolutions and input gradients of stride 1 on sm_90a whose taps share a patch of pixels with its halo;
// optionally with bias, ReLU and the 2x2 max pooling after them.
#include "nixie/backends/cuda/families/conv/conv_halo.h"
#include "nixie/backends/cuda/families/parts.h"

#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_fprop.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/conv/image_code.h"
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/families/pooled_result.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr int kChunkBytes = 4 * 4608;  // through which sums pass, of both consumers
constexpr double kLeastUse = 0.9;      // of the products that are computed
// Words of sums, accumulators and loads on their way that a thread may hold where it leaves parts.
constexpr int kMostHeld = 124;
// Below this many channels or filters conv_fprop is bound by L2, so even patches that fill tiles badly win.
constexpr int kFew = 32;

// The sum as the kernel sees it: of the output's pixels over the input's channels.
struct Sides {
  int channels, filters, p, q, pad_h, pad_w;
};
Sides sides_of(const ConvProblem& conv) {
  if (conv.role == ConvRole::output) return {conv.channels, conv.filters, conv.p, conv.q, conv.pad[0], conv.pad[1]};
  return {conv.filters, conv.channels, conv.height, conv.width, conv.r - 1 - conv.pad[0], conv.s - 1 - conv.pad[1]};
}

bool has_few(const Sides& sides) { return std::min(sides.channels, sides.filters) <= kFew; }

struct Patches {
  int together = 0, high = 0;  // images side by side, rows
  double use = 0;              // of the pixels that are computed
  double clocks = 0;           // of the products of all patches, or of copying them
  int places = 0;
  bool shared = false;
  int slice = 0;            // channels of a slab
  int ring = 0, bytes = 0;  // patches that a ring holds, bytes of all rings
  int stages = 0;           // of filters
  int filter_rows = 64;     // of a stage
  bool resident = false;    // all filters stay
  int filter_bytes() const { return (resident && !shared ? 1 : 2) * stages * slice * 2 * filter_rows; }
  int barrier_bytes() const { return 2 * 2 * 8 * stages; }
};

// Clocks for one patch and 64 filters: the products, or twice the L2 time of its lines if longer, as products wait for
// whole patches.
double clocks_of(const ConvProblem& conv, const Sides& sides, int high, int patch_places, int slabs, const Chip& chip) {
  const double products = 4.0 * high * static_cast<double>(ceil_div(sides.channels, 16)) * conv.r * conv.s;
  return std::max(products, 256.0 * patch_places * slabs / chip.l2_bytes_per_clock);
}

// The patches of least clocks. `half`: of half as many rows, whose sums leave registers for images beside parts.
Patches patches_of(const ConvProblem& conv, const Chip& chip, bool half = false) {
  const int ring_bytes = static_cast<int>(dynamic_shared_bytes(chip)) - kChunkBytes;
  const Sides sides = sides_of(conv);
  const int slice = sides.channels <= 16 ? 16 : sides.channels <= 32 ? 32 : 64;
  const auto slabs = static_cast<int>(ceil_div(sides.channels, slice));
  const int filter_rows = conv.role == ConvRole::input_grad ? 64 : std::min(64, (sides.filters + 7) / 8 * 8);
  Patches best;
  for (int together : {1, 2, 4, 8})
    for (int rows : {28, 24, 32, 16}) {
      if (rows != 28 && rows != 24 && !has_few(sides) && !half) continue;
      const int high = half ? rows / 2 : rows;
      if (high < 12) continue;
      const int places =
          static_cast<int>(ceil_div(conv.images, together) * ceil_div(sides.p, high) * ceil_div(sides.q, 8 / together));
      const double use = static_cast<double>(conv.images) * sides.p * sides.q / (8.0 * high * places);
      const int patch_places = (8 / together + conv.s - 1) * together * (high + conv.r - 1);
      const double clocks = places * clocks_of(conv, sides, high, patch_places, slabs, chip);
      const bool shared = ceil_div(sides.filters, 64) % 2 == 0;
      const int ring = shared ? 3 : 2,
                room = static_cast<int>(round_up(patch_places * slice * 2, 1024)) * ring * (shared ? 1 : 2);
      const int stages = std::min(8, (ring_bytes - room) / (4 * slice * filter_rows));
      if ((best.places > 0 && clocks >= best.clocks) || room > ring_bytes || stages < 2) continue;
      best = {together,    high, use, clocks, places, shared, slice, ring, room, slabs * conv.r * conv.s,
              filter_rows, true};
      if (sides.filters > (shared ? 128 : 64) || best.filter_bytes() + best.barrier_bytes() > ring_bytes - room)
        best.stages = stages, best.resident = false;
    }
  best.use *= static_cast<double>(sides.filters) / static_cast<double>(round_up(sides.filters, 64)) * sides.channels /
              static_cast<double>(round_up(sides.channels, 16));
  return best;
}

// Tiles that a patch, or two, take part in.
std::int64_t columns_of(const Sides& sides, const Patches& patches) {
  return ceil_div(sides.filters, 64) / (patches.shared ? 2 : 1);
}

std::int64_t tiles_of(const Sides& sides, const Patches& patches) {
  return (patches.shared ? patches.places : ceil_div(patches.places, 2)) * columns_of(sides, patches);
}

Patches patches_of(const Plan& plan, const Choice& choice, const Chip& chip) {
  return patches_of(problem_of(choice), chip,
                    leaves_of_channels(choice) && loaded_words(plan, choice.kernel).of_pixels > 0);
}

// Pixels of a thread whose loads are on their way where parts are left; none fits: 0.
int pixels_ahead(const Plan& plan, const Choice& choice, const Patches& patches) {
  const LoadedWords loaded = loaded_words(plan, choice.kernel);
  const int room = kMostHeld - 4 * patches.high - 8 * accumulated_words(choice) - loaded.of_channels;
  return loaded.of_pixels == 0 ? 1 : std::clamp(room / loaded.of_pixels, 0, 4);
}

// Clocks of a choice's blocks. One consumer's epilogue is hidden behind the other's products, unless it is longer, as
// where images are loaded beside parts.
double clocks_of(const Plan& plan, const Choice& choice, const Chip& chip) {
  constexpr double kClocksOfTwoRows = 350;
  const Sides sides = sides_of(problem_of(choice));
  const Patches patches = patches_of(plan, choice, chip);
  const double products = patches.clocks / patches.places, epilogue = patches.high / 2 * kClocksOfTwoRows;
  const bool images = leaves_of_channels(choice) && loaded_words(plan, choice.kernel).of_pixels > 0;
  return static_cast<double>(ceil_div(tiles_of(sides, patches), chip.sms)) *
         (images ? std::max(2 * products, products + epilogue) : 2 * products);
}

KernelCode generate_halo(const Plan& plan, const Choice& choice, const Chip& chip) {
  const ConvProblem& conv = problem_of(choice);
  const Sides sides = sides_of(conv);
  const Patches patches = patches_of(plan, choice, chip);
  check(patches.together > 0, "no patch of this convolution fits shared memory; fits_halo says which do");
  const bool transposed = conv.role == ConvRole::input_grad;
  KernelCode code;
  code.source = defines({{"CONV_C", sides.channels},
                         {"CONV_K", sides.filters},
                         {"CONV_R", conv.r},
                         {"CONV_S", conv.s},
                         {"CONV_IMAGES", conv.images},
                         {"CONV_P", sides.p},
                         {"CONV_Q", sides.q},
                         {"CONV_PAD_H", sides.pad_h},
                         {"CONV_PAD_W", sides.pad_w},
                         {"CONV_SLICE", patches.slice},
                         {"CONV_TOGETHER", patches.together},
                         {"CONV_HIGH", patches.high},
                         {"CONV_SHARED", patches.shared},
                         {"CONV_PATCHES", patches.ring},
                         {"CONV_STAGES", patches.stages},
                         {"CONV_RESIDENT", patches.resident},
                         {"CONV_TRANSPOSED_W", transposed},
                         {"CONV_POOL", choice.pooled.has_value()},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}}) +
                products_of_columns({8 * patches.high});
  if (choice.pooled) {
    const PooledResult& pooled = *choice.pooled;
    code.source += defines({{"CONV_BIAS", pooled.bias.has_value()}, {"CONV_RELU", pooled.relu}});
    code.arguments = {address_of(plan, pooled.bias.value_or(pooled.output)), address_of(plan, pooled.output),
                      address_of(plan, pooled.index)};
  } else {
    NhwcFunctor body = nhwc_functor(plan, choice.kernel, {}, 8, {.fixed = true, .leaves = choice.leaves});
    code.source += body.text;
    if (leaves_of_channels(choice)) code.source += defines({{"CONV_AHEAD", pixels_ahead(plan, choice, patches)}});
    code.arguments = std::move(body.arguments);
  }
  code.source += "#include \"conv_halo_sm90.cuh\"\n";
  code.variant = fmt::format("conv_halo_sm90 {}x{}x{}{}{}", patches.together, 8 / patches.together, patches.high,
                             patches.shared ? ", shared" : "", choice.pooled ? " with pool" : "");
  const Operand &x = choice.kernel.head->operands[0], &w = choice.kernel.head->operands[1];
  const int height = transposed ? conv.p : conv.height, width = transposed ? conv.q : conv.width;
  TensorMap images = tiled_map(x, conv.dtype, {u64(sides.channels), u64(conv.images), u64(width), u64(height)},
                               {u32(patches.slice), u32(patches.together), u32(8 / patches.together + conv.s - 1),
                                u32(patches.high + conv.r - 1)},
                               patches.slice * 2);
  images.strides = {u64(height) * u64(width) * u64(sides.channels), u64(sides.channels),
                    u64(width) * u64(sides.channels)};
  const std::vector<std::uint32_t> w_box = transposed ? std::vector{64u, 1u, u32(patches.slice)}
                                                      : std::vector{u32(patches.slice), 1u, u32(patches.filter_rows)};
  code.maps = {std::move(images),
               tiled_map(w, conv.dtype, {u64(conv.channels), u64(conv.r * conv.s), u64(conv.filters)}, w_box,
                         transposed ? 128 : patches.slice * 2)};
  code.launches.push_back({.entry = "conv_halo",
                           .blocks = blocks_for(choice, tiles_of(sides, patches), columns_of(sides, patches), chip),
                           .threads = 384,
                           .shared_bytes = 1024 + patches.bytes + patches.filter_bytes() + kChunkBytes,
                           .maps = {0, 1}});
  return code;
}

std::string limits(const ConvProblem& conv, const Chip& chip) {
  const Sides sides = sides_of(conv);
  if (conv.products() != 1) return "three products";
  if (conv.role == ConvRole::filter_grad) return "filter gradient";
  if (conv.stride != std::array{1, 1} || conv.dilation != std::array{1, 1}) return "stride or dilation";
  if (conv.r * conv.s < (has_few(sides) ? 4 : 9) || conv.r > 16 || conv.s > 16)
    return fmt::format("window {}x{}", conv.r, conv.s);
  if (sides.pad_h < 0 || sides.pad_w < 0) return "padding larger than the window";
  const double use = patches_of(conv, chip).use;
  if (use == 0) return "no patch fits shared memory";
  if (use < kLeastUse && !has_few(sides)) return fmt::format("patches fill {:.0f} % of their tiles", 100 * use);
  return {};
}

// Whether registers hold what a choice that leaves parts loads, and blocks keep to their columns. Numbers of channels
// have no room beside the sums of 28 rows and addresses of several images.
bool holds(const Grouping& grouping, const Choice& choice) {
  const ConvProblem& conv = problem_of(choice);
  const Patches patches = patches_of(grouping.plan, choice, grouping.chip);
  const LoadedWords loaded = loaded_words(grouping.plan, choice.kernel);
  if (patches.places == 0 || columns_of(sides_of(conv), patches) > grouping.chip.sms) return false;
  if (loaded.of_pixels > 0) return patches.use >= kLeastUse && pixels_ahead(grouping.plan, choice, patches) > 0;
  return loaded.of_channels <= (patches.together == 1 && conv.dtype == Dtype::f16 ? 9 : 0);
}

class ConvHalo final : public Family {
 public:
  std::string_view name() const override { return "conv_halo_sm90"; }
  std::string_view unit() const override { return kForwardClocks; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip& chip) const override {
    return match_forward(plan, kernel, chip, [&](const ConvProblem& conv) { return limits(conv, chip); });
  }
  std::vector<Algorithm> algorithms(const Plan& plan, const Choice& choice, const Chip& chip) const override {
    return {{"halo", clocks_of(plan, choice, chip)}};
  }
  std::string operation(const Plan&, const Choice& choice) const override {
    return operation_text(problem_of(choice), choice.pooled.has_value());
  }
  std::optional<Absorption> absorb(const Grouping& grouping, const Choice& choice, std::size_t other) const override {
    const ConvProblem& conv = problem_of(choice);
    if (std::optional<Absorption> with =
            with_parts(grouping, choice, other, parts_of_convolution(choice, grouping.chip));
        with && (!leaves_of_channels(with->choice) ||
                 (holds(grouping, with->choice) && parts_pay(grouping, choice, with->choice, clocks_of))))
      return with;
    const Patches patches = patches_of(conv, grouping.chip);
    if (choice.leaves || conv.role != ConvRole::output || patches.together > 2) return {};
    return with_pooling(grouping, choice, other, conv);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return generate_halo(plan, choice, chip);
  }
};

}  // namespace

bool fits_halo(const ConvProblem& conv, const Chip& chip) { return limits(conv, chip).empty(); }

double halo_clocks(const ConvProblem& conv, const Chip& chip) {
  const Patches patches = patches_of(conv, chip);
  return static_cast<double>(ceil_div(tiles_of(sides_of(conv), patches), chip.sms)) * 2 * patches.clocks /
         patches.places;
}

const Family& conv_halo() {
  static const ConvHalo family;
  return family;
}

}  // namespace nixie::cuda
