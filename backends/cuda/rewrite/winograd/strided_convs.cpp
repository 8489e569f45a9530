// Turns strided f32 convolutions into stride-1 ones for Winograd, by space-to-depth: a block of stride x stride pixels
// becomes the channels of one pixel, and so do a filter's taps, with zeros up to a whole number of blocks.
//
// An 11x11 filter of 3 channels and stride 4 is a 3x3 one of 48: 432 multiplications in place of 363, of which tiles of
// 4x4 take a quarter. Images are copied once with their padding, for the forward pass and the filter gradient, which is
// made in blocks and then copied to the filters' layout.
#include <algorithm>

#include "nixie/backends/cuda/generate/instruction_builder.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/winograd/winograd_layers.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A layer as one of blocks.
ConvProblem in_blocks(const ConvProblem& conv) {
  ConvProblem blocks = conv;
  const int stride = conv.stride[0], taps = (conv.r + stride - 1) / stride;
  blocks.channels = conv.channels * stride * stride;
  blocks.r = blocks.s = taps, blocks.height = conv.p + taps - 1, blocks.width = conv.q + taps - 1;
  blocks.stride = {1, 1}, blocks.pad = {0, 0};
  return blocks;
}

class StridedLowering {
 public:
  StridedLowering(Plan& plan, const Chip& chip, bool wherever_possible)
      : plan_(plan), chip_(chip), wherever_possible_(wherever_possible) {}

  void operator()() {
    for (Kernel& kernel : plan_.kernels) {
      if (const auto conv = wanted(kernel))
        conv->role == ConvRole::output ? forward(kernel, *conv) : gradient(kernel, *conv);
      else
        kernels_.push_back(std::move(kernel));
      std::erase_if(copies_, [&](const Copy& copy) { return writes(kernels_.back(), copy.from.slot); });
    }
    plan_.kernels = std::move(kernels_);
  }

 private:
  struct Copy {
    Operand from;
    ConvProblem conv;
    Operand blocks;
  };

  std::optional<ConvProblem> wanted(const Kernel& kernel) const {
    const auto conv = multiply_add_conv(plan_, kernel);
    if (!conv || conv->role == ConvRole::input_grad || conv->stride[0] < 2 || conv->stride[0] != conv->stride[1])
      return {};
    const ConvProblem blocks = in_blocks(*conv);
    if (!can_be_tiled(blocks)) return {};
    // The copy's cost is left out: first layers copy their images on Hopper anyway (pack_rows_fp32.cpp).
    return wherever_possible_ || fastest_tiles(blocks, chip_, time_in_place(*conv, chip_)) ? conv : std::nullopt;
  }

  // A kernel that copies positions [first, channel, row, column] to blocks, channels of blocks innermost, or back: of
  // each block of `domain` a load and a store for every place in it.
  static Kernel copy(const std::string& label, const Shape& domain, const Access& pixels, const Shape& pixels_shape,
                     std::array<std::int64_t, 2> pad, const Access& blocks, std::int64_t stride, bool back) {
    Kernel kernel{.label = label, .domain = domain};
    Stage stage;
    for (std::int64_t i = 0; i < stride; ++i)
      for (std::int64_t j = 0; j < stride; ++j) {
        const Access pixel = in_tiles(pixels, pixels_shape, {i - pad[0], j - pad[1]}, stride, domain);
        Access block = blocks;
        block.offset += (i * stride + j) * domain[1];
        const auto n = static_cast<int>(kernel.loads.size());
        kernel.loads.push_back(back ? block : pixel), kernel.stores.push_back(back ? pixel : block);
        stage.body.push_back({.primitive = Primitive::load, .index = n});
        stage.stores.push_back({n, n});
      }
    kernel.stages = {std::move(stage)};
    return kernel;
  }

  // The same of channels-last images: the numbers of a block's line are contiguous in both. Of the first and
  // the last block a part may be outside and read zero; these have loads of their own, all of which are added.
  static Kernel copy_lines(const std::string& label, const Operand& x, const ConvProblem& conv, const Shape& shape,
                           const Access& blocks) {
    const std::int64_t stride = conv.stride[0], line = stride * conv.channels;
    struct Part {
      std::pair<std::int64_t, std::int64_t> numbers, columns;
    };
    std::vector<Part> parts;
    for (std::int64_t column = 0; column < shape[3]; ++column) {
      const auto pixel = [&](std::int64_t edge) {
        return std::clamp<std::int64_t>(edge + conv.pad[1] - stride * column, 0, stride) * conv.channels;
      };
      const std::pair numbers{pixel(0), pixel(conv.width)};
      if (numbers.first == numbers.second) continue;
      if (!parts.empty() && parts.back().numbers == numbers)
        parts.back().columns.second = column + 1;
      else
        parts.push_back({numbers, {column, column + 1}});
    }
    Kernel kernel{.label = label, .domain = {shape[0], line, shape[2], shape[3]}};
    InstructionBuilder code;
    Stage stage;
    for (std::int64_t i = 0; i < stride; ++i) {
      const auto row = [&](std::int64_t edge) {
        return std::clamp<std::int64_t>((edge + conv.pad[0] - i + stride - 1) / stride, 0, shape[2]);
      };
      int sum = -1;
      for (const Part& part : parts) {
        const int number = code.load(static_cast<int>(kernel.loads.size()));
        kernel.loads.push_back({.slot = x.slot,
                                .offset = x.offset + (i - conv.pad[0]) * x.strides[2] - conv.pad[1] * x.strides[3],
                                .strides = {x.strides[0], 1, stride * x.strides[2], stride * x.strides[3]},
                                .inside = {{0, shape[0]}, part.numbers, {row(0), row(conv.height)}, part.columns}});
        sum = sum < 0 ? number : code.apply(Primitive::add, sum, number);
      }
      stage.stores.push_back({sum, static_cast<int>(i)});
      kernel.stores.push_back({.slot = blocks.slot, .offset = i * line, .strides = blocks.strides});
    }
    stage.body = std::move(code.body);
    kernel.stages = {std::move(stage)};
    return kernel;
  }

  // The access to blocks [first, channels, rows, columns], by a block's first channel.
  static Access whole(int slot, const Shape& blocks) { return {.slot = slot, .strides = blocks.channels_last()}; }

  Operand blocks_of(const std::string& name, const Operand& pixels, const Shape& shape, const ConvProblem& conv) {
    const int slot = add_slot(plan_, name, Dtype::f32, shape, shape.channels_last());
    const Access from{.slot = pixels.slot, .offset = pixels.offset, .strides = pixels.strides};
    const Shape domain{shape[0], conv.channels, shape[2], shape[3]};
    const bool lines = pixels.strides[1] == 1 && pixels.strides[3] == conv.channels;
    kernels_.push_back(lines ? copy_lines(name, pixels, conv, shape, whole(slot, shape))
                             : copy(name, domain, from, pixels.shape, {conv.pad[0], conv.pad[1]}, whole(slot, shape),
                                    conv.stride[0], false));
    return {slot, 0, shape, shape.channels_last()};
  }

  Operand image_blocks(const Operand& x, const ConvProblem& conv, const ConvProblem& blocks) {
    const Shape shape{blocks.images, blocks.channels, blocks.height, blocks.width};
    for (const Copy& copy : copies_)
      if (copy.from == x && copy.conv.stride == conv.stride && copy.conv.pad == conv.pad && copy.blocks.shape == shape)
        return copy.blocks;
    copies_.push_back({x, conv, blocks_of("blocks of images", x, shape, conv)});
    return copies_.back().blocks;
  }

  void forward(Kernel& kernel, const ConvProblem& conv) {
    const ConvProblem blocks = in_blocks(conv);
    Operand &x = kernel.head->operands[0], &w = kernel.head->operands[1];
    x = image_blocks(x, conv, blocks);
    ConvProblem filter = conv;  // as images that need no padding
    filter.pad = {0, 0}, filter.height = conv.r, filter.width = conv.s;
    w = blocks_of("blocks of filters", w, {blocks.filters, blocks.channels, blocks.r, blocks.s}, filter);
    make_plain(kernel);
    kernels_.push_back(std::move(kernel));
  }

  void gradient(const Kernel& kernel, const ConvProblem& conv) {
    const ConvProblem blocks = in_blocks(conv);
    const Operand x = image_blocks(kernel.head->operands[1], conv, blocks);
    auto [alone, rest] = split_head(plan_, kernel, kernel.domain.channels_last(), kernel.label);
    const Access filter = alone.stores[0];
    const Shape shape{blocks.filters, blocks.channels, blocks.r, blocks.s};
    const int slot = add_slot(plan_, "blocks of a filter gradient", Dtype::f32, shape, shape.channels_last());
    alone.domain = shape, alone.stores[0] = whole(slot, shape);
    alone.head->operands[1] = x;
    make_plain(alone);
    const Shape domain{shape[0], conv.channels, shape[2], shape[3]};
    kernels_.push_back(std::move(alone));
    kernels_.push_back(copy("filter gradient of blocks", domain, filter, kernel.domain, {0, 0}, whole(slot, shape),
                            conv.stride[0], true));
    kernels_.push_back(std::move(rest));
  }

  static void make_plain(Kernel& kernel) {
    auto& op = std::get<Conv>(kernel.head->op);
    std::fill(op.stride.begin(), op.stride.end(), 1), std::fill(op.pad.begin(), op.pad.end(), 0);
  }

  Plan& plan_;
  const Chip& chip_;
  const bool wherever_possible_;
  std::vector<Kernel> kernels_;
  std::vector<Copy> copies_;
};

}  // namespace

void lower_strided_convs(Plan& plan, const Chip& chip, bool wherever_possible) {
  StridedLowering{plan, chip, wherever_possible}();
}

}  // namespace nixie::cuda
