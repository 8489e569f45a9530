// Programs of first layers: bands, packed images, shared memory.
#include "nixie/backends/cuda/families/first_layer.h"

#include <algorithm>
#include <limits>

#include "nixie/backends/cuda/generate/print.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kSharedBytes = 232448 - 1024;

std::size_t at(int i) { return static_cast<std::size_t>(i); }
// NOLINTNEXTLINE(clang-analyzer-core.DivideZero): layers of which no band fits are not taken
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

const Operand& images_of(const Kernel& kernel, ConvRole role) {
  return kernel.head->operands[role == ConvRole::output ? 0 : 1];
}

std::int64_t element_bytes(const Plan& plan, int slot) { return size_of(plan.slots[at(slot)].dtype); }

// ---- Stride 4 ----
struct Band {
  int rows = 0, buffers = 0;
  std::int64_t shared_bytes = 0;
};

struct Stride4 {
  explicit Stride4(const HopperConv& conv)
      : tap_rows((conv.r + 3) / 4),
        taps(tap_rows * ((conv.s + 3) / 4)),
        pitch(conv.q + (conv.s + 3) / 4 - 1),
        out_rows(conv.p) {}
  int tap_rows, taps, pitch, out_rows;

  // The bands that cover the image with the fewest rows read and computed.
  Band best(std::int64_t filter_bytes, bool with_gradient, int multiple = 1) const {
    Band best;
    double least = std::numeric_limits<double>::max();
    for (int buffers : {3, 2})
      for (int rows = std::min<int>(round_up(out_rows, multiple), 64); rows >= multiple; rows -= multiple) {
        std::int64_t band =
            round_up(std::int64_t{96} * (rows + tap_rows - 1) * pitch + 16 * (taps / tap_rows + 14), 1024);
        if (with_gradient) band += round_up(std::int64_t{128} * rows * pitch, 2048);
        const std::int64_t shared = 1024 + buffers * band + filter_bytes;
        if (shared > kSharedBytes) continue;
        const double cost = static_cast<double>(ceil_div(out_rows, rows)) * (rows + 0.5 * (tap_rows - 1)) *
                            (buffers == 2 && with_gradient ? 1.05 : 1);
        if (cost < least) least = cost, best = {rows, buffers, shared};
      }
    return best;
  }
  Band forward(const HopperConv& conv) const {
    return best(std::int64_t{96} * taps * conv.filters, false, conv.pooled ? 8 : 1);
  }
  Band gradient() const { return best(0, true); }
};

// The strides of the images.
std::string stride_defines(const Kernel& kernel, ConvRole role) {
  const Strides& x = images_of(kernel, role).strides;
  return defines({{"CONV_X_N", x[0]}, {"CONV_X_C", x[1]}, {"CONV_X_H", x[2]}, {"CONV_X_W", x[3]}});
}

// How many images each thread packs: what it knows of a place serves all of them.
constexpr std::int64_t kImagesAtOnce = 2;
std::int64_t packing_threads(const HopperConv& conv) {
  return packed_elements(conv) / 8 / conv.images * ceil_div(conv.images, kImagesAtOnce);
}

std::vector<std::pair<const char*, std::int64_t>> stride4_defines(const HopperConv& conv, const Band& band) {
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

Pointer read_pointer(const Plan& plan, const std::string& name, int slot, std::int64_t offset) {
  const std::string type = type_name(plan.slots[at(slot)].dtype);
  return {"const " + type + "*", name, {slot, offset * element_bytes(plan, slot)}};
}

// What images are read from: members of Body, and the code that makes elements of the first.
struct Images {
  std::vector<Pointer> pointers = {};
  std::string code = {};
};
Images read_images(const Plan& plan, const Kernel& kernel, ConvRole role) {
  const Operand& x = images_of(kernel, role);
  Images images{.pointers = {read_pointer(plan, "x", x.slot, x.offset)}};
  std::string text, result = "stored";
  bool scalars = false;
  for (const Instruction& in : x.body) {
    const std::string type = type_name(in.type);
    std::string value;
    if (in.primitive == Primitive::scalar) {
      value = fmt::format("convert<{}>(body.scalars[{}])", type, in.index);
      scalars = true;
    } else if (in.primitive != Primitive::load) {
      value = expression(in);
    } else if (in.index == 0) {
      value = fmt::format("convert<{}>(stored)", type);
    } else {
      const Access& from = x.more[at(in.index - 1)];
      const Pointer pointer = read_pointer(plan, fmt::format("image{}", in.index), from.slot, from.offset);
      images.pointers.push_back(pointer);
      value = fmt::format("convert<{}>(read<1>(body.{} + (n * ({}) + c * ({}) + h * ({}) + w * ({}))).lane[0])", type,
                          pointer.name, from.strides[0], from.strides[1], from.strides[2], from.strides[3]);
    }
    result = fmt::format("r{}", &in - x.body.data());
    text += fmt::format("  const {} {} = {};\n", type, result, value);
  }
  if (scalars) images.pointers.push_back({"const f64*", "scalars", {Argument::kScalars, 0}});
  images.code = fmt::format(
      "#include \"math.cuh\"\nusing Stored = {};\n"
      "__device__ inline auto element(const Body& body, Stored stored, int n, int c, int h, int w) {{\n{}  return "
      "{};\n}}\n",
      type_name(plan.slots[at(x.slot)].dtype), text, result);
  return images;
}

Launch threads_of(const char* entry, std::int64_t threads) {
  return {.entry = entry, .blocks = ceil_div(threads, 256), .threads = 256};
}

// `struct Body` of these pointers, which become the code's arguments.
std::string body_of(const std::vector<Pointer>& pointers, KernelCode& code) {
  std::string members;
  for (const Pointer& pointer : pointers) {
    members += fmt::format("  {} {};\n", pointer.type, pointer.name);
    code.arguments.push_back(pointer.argument);
  }
  return "#include \"types.cuh\"\nstruct Body {\n" + members + "};\n";
}

KernelCode generate_stride4(const Plan& plan, const Kernel& kernel, const FirstLayer& layer) {
  const HopperConv& conv = layer.conv;
  const Stride4 shape(conv);
  const Band band = shape.forward(conv);
  const Operand& w = kernel.head->operands[1];
  KernelCode code;
  const std::int64_t packed_filter_bytes = std::int64_t{96} * shape.taps * conv.filters;
  code.scratch_bytes = packed_filter_bytes + (layer.extra ? 0 : packed_elements(conv) * 2);
  const Argument packed =
      layer.extra ? Argument{kernel.stores.back().slot, 0} : Argument{Argument::kScratch, packed_filter_bytes};
  const Images images = read_images(plan, kernel, conv.role);
  std::vector<Pointer> pointers = images.pointers;
  pointers.insert(pointers.end(), {{"uint4*", "packed", packed},
                                   {"const unsigned short*", "w", {w.slot, w.offset * 2}},
                                   {"uint4*", "packed_weights", {Argument::kScratch, 0}}});
  code.source = defines(stride4_defines(conv, band)) + stride_defines(kernel, conv.role) +
                defines({{"CONV_GRAD", 0}, {"CONV_POOL", conv.pooled}});
  if (conv.pooled) {
    const BiasRelu epilogue = *bias_relu_of(kernel);
    const Access &y = kernel.stores[0], &index = kernel.stores[1];
    const Access& bias = epilogue.bias >= 0 ? kernel.loads[at(epilogue.bias)] : y;
    pointers.push_back({"const float*", "bias", {bias.slot, bias.offset * element_bytes(plan, bias.slot)}});
    pointers.push_back({"unsigned short*", "y", {y.slot, y.offset * 2}});
    pointers.push_back({"unsigned char*", "index", {index.slot, index.offset}});
    code.source += defines({{"CONV_BIAS", epilogue.bias >= 0}, {"CONV_RELU", epilogue.relu}}) + body_of(pointers, code);
  } else {
    PixelBody body = pixel_body(plan, kernel, pointers);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
  }
  code.source += images.code + "#include \"conv_s2d_sm90.cuh\"\n";
  code.variant = fmt::format("conv_s2d_sm90 band {}{}", band.rows, conv.pooled ? " with pool" : "");
  code.launches = {threads_of("conv_s2d_pack", packing_threads(conv)),
                   threads_of("conv_s2d_pack_weights", packed_filter_bytes / 16),
                   {.entry = "conv_s2d",
                    .blocks = std::min<std::int64_t>(kMultiprocessors, conv.images * ceil_div(conv.p, band.rows)),
                    .threads = 512,
                    .shared_bytes = band.shared_bytes}};
  return code;
}

KernelCode generate_stride4_grad(const Plan& plan, const Kernel& kernel, const FirstLayer& layer) {
  const HopperConv& conv = layer.conv;
  const Stride4 shape(conv);
  const Band band = shape.gradient();
  const Operand& dy = kernel.head->operands[0];
  const Access& dw = kernel.stores[0];
  const std::int64_t columns = ceil_div(conv.filters, 64), rows = shape.taps * 48 + 8;
  const std::int64_t blocks =
      std::min<std::int64_t>(kMultiprocessors / columns, conv.images * ceil_div(conv.p, band.rows));
  const std::int64_t part_bytes = blocks * columns * rows * 64 * 4, bias_bytes = round_up(conv.filters * 4, 256);
  KernelCode code;
  code.scratch_bytes = part_bytes + bias_bytes + (layer.extra ? 0 : packed_elements(conv) * 2);
  const Images images = read_images(plan, kernel, conv.role);
  std::vector<Pointer> pointers = images.pointers;
  pointers.insert(pointers.end(),
                  {{"uint4*", "packed",
                    layer.extra ? Argument{kernel.head->operands[2].slot, kernel.head->operands[2].offset * 2}
                                : Argument{Argument::kScratch, part_bytes + bias_bytes}},
                   {"float*", "parts", {Argument::kScratch, 0}},
                   {"void*", "dw", {dw.slot, dw.offset * element_bytes(plan, dw.slot)}},
                   {"float*", "db",
                    conv.bias_grad ? Argument{kernel.stores[1].slot, kernel.stores[1].offset * 4}
                                   : Argument{Argument::kScratch, part_bytes}}});
  code.source = defines(stride4_defines(conv, band)) + stride_defines(kernel, conv.role) +
                defines({{"CONV_GRAD", 1},
                         {"CONV_BLOCKS", blocks},
                         {"CONV_OUT_FLOAT", plan.slots[at(dw.slot)].dtype == Dtype::f32}}) +
                body_of(pointers, code) + images.code + "#include \"conv_s2d_sm90.cuh\"\n";
  code.variant = fmt::format("conv_s2d_sm90 gradient, band {}", band.rows);
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  code.maps.push_back({.slot = dy.slot,
                       .offset_bytes = dy.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {u64(conv.filters), u64(conv.q), u64(conv.p), u64(conv.images)},
                       .box = {64, static_cast<std::uint32_t>(shape.pitch), static_cast<std::uint32_t>(band.rows), 1}});
  if (!layer.extra) code.launches.push_back(threads_of("conv_s2d_pack", packing_threads(conv)));
  code.launches.push_back({.entry = "conv_s2d_wgrad",
                           .blocks = blocks,
                           .threads = 512,
                           .blocks_y = columns,
                           .shared_bytes = band.shared_bytes,
                           .maps = {0}});
  code.launches.push_back({.entry = "conv_s2d_wgrad_reduce", .blocks = rows, .threads = 256, .blocks_y = columns});
  return code;
}

// ---- 3x3 ----
std::int64_t window3_shared_bytes(const HopperConv& conv, std::int64_t stored_bytes = 2) {
  const std::int64_t reach = (conv.width + 2 * conv.pad[1] + 15) * 3, pitch = 2 * ((reach / 2 - 4 + 31) / 32 * 32 + 5),
                     pair_pitch = (reach - 9 + 31) / 32 * 32 + 9;
  return std::max<std::int64_t>({40 * pitch, 40 * pair_pitch, 8448}) + 30 * stored_bytes * conv.width + 16;
}

// Whether rows of images can be copied in pieces of 16 bytes.
bool lies_in_rows(const Operand& x, std::int64_t stored_bytes) {
  const std::int64_t piece = 16 / stored_bytes;
  return x.strides[3] == 1 && x.strides[0] % piece == 0 && x.strides[1] % piece == 0 && x.strides[2] % piece == 0 &&
         x.shape[3] % piece == 0 && x.offset % piece == 0;
}

KernelCode generate_window3(const Plan& plan, const Kernel& kernel, const FirstLayer& layer) {
  const HopperConv& conv = layer.conv;
  const bool grad = conv.role == ConvRole::filter_grad;
  const std::int64_t blocks = std::min<std::int64_t>(2 * kMultiprocessors, conv.images * ceil_div(conv.p, 8)),
                     columns = conv.filters / 64, part_bytes = blocks * columns * 64 * 32 * 4;
  const std::vector<Operand>& operands = kernel.head->operands;
  const std::int64_t stored_bytes = element_bytes(plan, images_of(kernel, conv.role).slot);
  const auto address = [&](const auto& place) {  // an Operand or an Access
    return Argument{place.slot, place.offset * element_bytes(plan, place.slot)};
  };
  KernelCode code;
  code.source = defines({{"CONV_IMAGES", conv.images},
                         {"CONV_H", conv.height},
                         {"CONV_W", conv.width},
                         {"CONV_PAD", conv.pad[0]},
                         {"CONV_K", conv.filters},
                         {"CONV_POOL", layer.extra},
                         {"CONV_GRAD", grad},
                         {"CONV_ROWS", lies_in_rows(images_of(kernel, conv.role), stored_bytes)},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}}) +
                stride_defines(kernel, conv.role);
  code.variant = fmt::format("conv_c3{}{}", grad ? " gradient" : "", layer.extra ? " with pool" : "");
  const auto launch = [&](const char* entry) {
    code.launches.push_back({.entry = entry,
                             .blocks = blocks,
                             .threads = 256,
                             .blocks_y = columns,
                             .shared_bytes = window3_shared_bytes(conv, stored_bytes)});
  };
  const Images images = read_images(plan, kernel, conv.role);
  std::vector<Pointer> pointers = images.pointers;
  const auto add = [&](const std::string& type, const char* name, Argument argument) {
    pointers.push_back({type, name, argument});
  };
  if (grad) {
    const Access& dw = kernel.stores[0];
    code.source += defines({{"CONV_BLOCKS", blocks}, {"CONV_OUT_FLOAT", plan.slots[at(dw.slot)].dtype == Dtype::f32}});
    code.scratch_bytes = part_bytes + conv.filters * 4;
    add("const unsigned short*", "dy", address(operands[0]));
    add("const unsigned char*", "index", address(layer.extra ? operands[2] : operands[0]));
    add("float*", "parts", {Argument::kScratch, 0});
    add("void*", "dw", address(dw));
    add("float*", "db", conv.bias_grad ? address(kernel.stores[1]) : Argument{Argument::kScratch, part_bytes});
    code.source += body_of(pointers, code);
    launch("conv_c3_wgrad");
    code.launches.push_back({.entry = "conv_c3_wgrad_reduce", .blocks = 64, .threads = 256, .blocks_y = columns});
  } else if (layer.extra) {
    const BiasRelu epilogue = *bias_relu_of(kernel);
    code.source += defines({{"CONV_BIAS", epilogue.bias >= 0}, {"CONV_RELU", epilogue.relu}});
    add("const unsigned short*", "w", address(operands[1]));
    add("const float*", "bias", epilogue.bias >= 0 ? address(kernel.loads[at(epilogue.bias)]) : address(operands[1]));
    add("unsigned short*", "y", address(kernel.stores[0]));
    add("unsigned char*", "index", address(kernel.stores[1]));
    code.source += body_of(pointers, code);
    launch("conv_c3");
  } else {
    add("const unsigned short*", "w", address(operands[1]));
    PixelBody body = pixel_body(plan, kernel, pointers);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
    launch("conv_c3");
  }
  code.source += images.code + "#include \"conv_c3.cuh\"\n";
  return code;
}

}  // namespace

std::int64_t packed_elements(const HopperConv& conv) {
  const Stride4 shape(conv);
  return std::int64_t{8} * conv.images * 6 * (conv.p + shape.tap_rows - 1) * shape.pitch;
}

std::optional<BiasRelu> bias_relu_of(const Kernel& kernel) {
  if (kernel.stages.size() != 1 || kernel.stages[0].stores.size() != 1) return {};
  const std::vector<Instruction>& body = kernel.stages[0].body;
  BiasRelu result;
  int value = kernel.stages[0].stores[0].value;
  // The operand of a commutative instruction that is of this kind, and the other one.
  const auto split = [&](const Instruction& in, Primitive kind) -> std::optional<std::pair<int, int>> {
    for (int i : {0, 1})
      if (body[at(in.args[at(i)])].primitive == kind) return std::pair(in.args[at(i)], in.args[at(1 - i)]);
    return {};
  };
  if (body[at(value)].primitive == Primitive::max) {
    const auto parts = split(body[at(value)], Primitive::constant);
    if (!parts || body[at(parts->first)].value != 0) return {};
    result.relu = true, value = parts->second;
  }
  if (body[at(value)].primitive == Primitive::add) {
    const auto parts = split(body[at(value)], Primitive::load);
    if (!parts) return {};
    result.bias = body[at(parts->first)].index, value = parts->second;
  }
  if (body[at(value)].primitive != Primitive::head) return {};
  return result;
}

std::optional<FirstLayer> fit_first_layer(const HopperConv& conv) {
  if (conv.channels != 3 || conv.dilation != std::array{1, 1} || conv.role == ConvRole::input_grad) return {};
  const bool grad = conv.role == ConvRole::filter_grad;
  FirstLayer layer{.conv = conv};
  if (conv.stride == std::array{4, 4} && conv.r <= 12 && conv.s <= 12) {
    layer.kind = FirstLayer::Kind::stride4;
    const bool filters = grad ? conv.filters % 8 == 0 && conv.r > 8 : conv.filters % 32 == 0 && conv.filters <= 96;
    const Stride4 shape(conv);
    const Band band = grad ? shape.gradient() : shape.forward(conv);
    if (!filters || band.rows == 0 || shape.pitch > 256) return {};
    return layer;
  }
  layer.kind = FirstLayer::Kind::window3;
  const bool window3 = conv.stride == std::array{1, 1} && conv.r == 3 && conv.s == 3 && conv.pad[0] <= 1 &&
                       conv.pad[0] == conv.pad[1] && conv.filters % 64 == 0 && window3_shared_bytes(conv) <= 100 * 1024;
  return window3 ? std::optional(layer) : std::nullopt;
}

std::optional<FirstLayer> first_layer_sizes(const Plan& plan, const Kernel& kernel) {
  const std::optional<HopperConv> conv = conv_sizes(plan, kernel);
  if (!conv || conv->products != 1) return {};
  std::optional<FirstLayer> layer = fit_first_layer(*conv);
  if (!layer) return {};
  layer->extra = conv->role == ConvRole::filter_grad ? kernel.head->operands.size() == 3 : has_extra_store(kernel);
  if (layer->kind == FirstLayer::Kind::stride4 && conv->pooled) layer->extra = kernel.stores.size() == 3;
  return layer;
}

bool reads_images(const Plan& plan, const FirstLayer& layer, const Operand& images) {
  const Dtype stored = plan.slots[at(images.slot)].dtype;
  return layer.kind == FirstLayer::Kind::stride4 || stored == layer.conv.dtype || size_of(stored) == 1;
}

std::optional<FirstLayer> as_first_layer(const Plan& plan, const Kernel& kernel) {
  const std::optional<FirstLayer> layer = first_layer_sizes(plan, kernel);
  if (!layer) return {};
  const bool grad = layer->conv.role == ConvRole::filter_grad;
  for (const Operand& operand : kernel.head->operands) {
    if (operand.shape.rank() != 4) continue;
    if (&operand == &images_of(kernel, layer->conv.role)) {
      if (!reads_images(plan, *layer, operand)) return {};
    } else if (!is_channels_last(operand.shape, operand.strides, operand.offset)) {
      return {};
    }
  }
  if (grad && !only_stores(plan, kernel)) return {};
  return layer;
}

bool pools_first_layer(const FirstLayer& layer) {
  if (layer.kind != FirstLayer::Kind::stride4 || layer.conv.role != ConvRole::output) return false;
  HopperConv pooled = layer.conv;
  pooled.pooled = true;
  const int rows = Stride4(pooled).forward(pooled).rows, p = pooled.p;
  return rows > 0 && ceil_div(p, rows) * rows <= p + p / 8;
}

KernelCode generate_first_layer(const Plan& plan, const Kernel& kernel, const FirstLayer& layer) {
  if (layer.kind == FirstLayer::Kind::window3) return generate_window3(plan, kernel, layer);
  return layer.conv.role == ConvRole::output ? generate_stride4(plan, kernel, layer)
                                             : generate_stride4_grad(plan, kernel, layer);
}

}  // namespace nixie::cuda
