// Packs f32 first layers by rows: the numbers of a row of the window become the channels of every output column, so
// that loads can be 16 bytes wide.
//
// Images are copied once with their padding, and with a fourth channel of zeros where a step of the window would not be
// a multiple of 16 bytes; the rows overlap in that copy. Filters are copied to rows; the filter gradient is computed in
// rows and then read as filters.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/conv/conv_ffma.h"
#include "nixie/backends/cuda/families/conv/conv_tma.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// The layout of a layer's rows.
struct Rows {
  explicit Rows(const ConvProblem& conv) : conv(conv) {
    channels = conv.stride[1] * conv.channels % 4 == 0 ? conv.channels : round_up(conv.channels, 4);
    row = conv.s * channels, padded_row = round_up(row, 4), step = conv.stride[1] * channels;
    const std::int64_t read = (conv.q - 1) * conv.stride[1] + (padded_row + channels - 1) / channels;
    width = round_up(std::max<std::int64_t>(read, conv.width + 2 * conv.pad[1]), channels % 4 == 0 ? 1 : 4);
  }
  ConvProblem conv;
  std::int64_t channels, row, padded_row, step, width;  // of images in memory; of a window's row; of the padded images

  // Below some 5 us of multiply-adds by the portable kernel two more kernels are no gain.
  bool pay() const {
    // Tiles of filter gradients are wide; a 3x3 window of three channels has 36 columns.
    if (conv.role == ConvRole::filter_grad && conv.r * padded_row < 96) return false;
    return std::int64_t{1} * conv.images * conv.p * conv.q * conv.filters * conv.r * conv.s * conv.channels >=
           100000000;
  }
  bool fit() const {
    return conv.channels % 4 != 0 && conv.role != ConvRole::input_grad && conv.dilation[1] == 1 &&
           conv.filters % 4 == 0 && 2 * conv.s * conv.channels > padded_row && padded_row <= 64;
  }
  Shape images() const { return {conv.images, channels, conv.height, width}; }
  // Rows of `length` numbers of the window as channels.
  Operand view(int slot, std::int64_t length) const {
    const Strides memory = images().channels_last();
    return {slot, 0, {conv.images, length, conv.height, conv.q}, {memory[0], 1, memory[2], step}};
  }
  // Filters [filters, channels, r, s] in the layout of rows.
  Shape filters() const { return {conv.filters, padded_row, conv.r, 1}; }
  Strides filter_strides() const { return {conv.r * padded_row, 1, padded_row, channels}; }
};

class RowLowering {
 public:
  RowLowering(Plan& plan, const Chip& chip) : plan_(plan), chip_(chip) {}

  void operator()() {
    for (Kernel& kernel : plan_.kernels) {
      const std::optional<Rows> rows = wanted(kernel);
      if (!rows)
        kernels_.push_back(std::move(kernel));
      else if (rows->conv.role == ConvRole::output)
        forward(kernel, *rows);
      else
        gradient(kernel, *rows);
      std::erase_if(copies_, [&](const Copy& copy) { return writes(kernels_.back(), copy.from.slot); });
    }
    plan_.kernels = std::move(kernels_);
  }

 private:
  struct Copy {
    Operand from;
    Shape shape;
    int pad, slot;
  };

  std::optional<Rows> wanted(const Kernel& kernel) const {
    const ConvMatch found = conv_problem(plan_, kernel);
    const auto* conv = std::get_if<ConvProblem>(&found);
    if (!conv || multiplies_tf32(*kernel.head) || !all_f32(plan_, *kernel.head)) return {};
    if (std::holds_alternative<ConvProblem>(conv_in_16_bits(plan_, kernel, chip_, tensor_core_limits))) return {};
    const Rows rows(*conv);
    if (!rows.fit() || !rows.pay() || !ffma_limits(packed(rows), chip_).empty()) return {};
    return rows;
  }

  static ConvProblem packed(const Rows& rows) {
    ConvProblem conv = rows.conv;
    conv.channels = static_cast<int>(conv.role == ConvRole::output ? rows.row : rows.padded_row);
    conv.width = conv.q, conv.s = 1, conv.stride[1] = 1, conv.pad[1] = 0;
    return conv;
  }

  int padded_images(const Operand& x, const Rows& rows) {
    const int pad = rows.conv.pad[1];
    const Shape shape = rows.images();
    for (const Copy& copy : copies_)
      if (copy.from == x && copy.shape == shape && copy.pad == pad) return copy.slot;
    kernels_.push_back(pad_images(plan_, x, shape, pad));
    copies_.push_back({x, shape, pad, kernels_.back().stores[0].slot});
    return copies_.back().slot;
  }

  void forward(Kernel& kernel, const Rows& rows) {
    Operand &x = kernel.head->operands[0], &w = kernel.head->operands[1];
    const ConvProblem& conv = rows.conv;
    const Strides memory = rows.filters().channels_last();
    const int images = padded_images(x, rows),
              filters = add_slot(plan_, "filter rows", Dtype::f32, rows.filters(), memory);
    const Shape shape{conv.filters, rows.channels, conv.r, conv.s};
    Access from{.slot = w.slot, .offset = w.offset, .strides = w.strides};
    from.inside = {{0, shape[0]}, {0, conv.channels}, {0, shape[2]}, {0, shape[3]}};
    Kernel pack{.label = "pack filter rows", .domain = shape, .loads = {std::move(from)}};
    pack.stores = {{.slot = filters, .strides = rows.filter_strides()}};
    pack.stages = {{.body = {{.primitive = Primitive::load}}, .stores = {{0, 0}}}};
    kernels_.push_back(std::move(pack));
    x = rows.view(images, rows.row);
    w = {filters, 0, {conv.filters, rows.row, conv.r, 1}, memory};
    one_column(kernel);
    kernels_.push_back(std::move(kernel));
  }

  void gradient(const Kernel& kernel, const Rows& rows) {
    const int images = padded_images(kernel.head->operands[1], rows);
    auto [alone, rest] = split_head(plan_, kernel, rows.filter_strides(), "conv_filter_grad in rows");
    Slot& made = plan_.slots.back();
    made.shape = rows.filters(), made.strides = made.shape.channels_last();
    alone.domain = made.shape, alone.stores[0].strides = made.strides;
    alone.head->operands[1] = rows.view(images, rows.padded_row);
    one_column(alone);
    kernels_.push_back(std::move(alone));
    kernels_.push_back(std::move(rest));
  }

  static void one_column(Kernel& kernel) {
    auto& op = std::get<Conv>(kernel.head->op);
    op.stride[1] = 1, op.pad[1] = 0;
  }

  Plan& plan_;
  const Chip& chip_;
  std::vector<Kernel> kernels_;
  std::vector<Copy> copies_;
};

}  // namespace

void pack_rows_fp32(Plan& plan, const Chip& chip) { RowLowering{plan, chip}(); }

}  // namespace nixie::cuda
