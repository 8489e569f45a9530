// Writes the programs of kernels with a head: gemm.cuh for products and convolutions, gather.cuh inside map.cuh for
// pooling, gather and scatter.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// A constant per axis, as Body::name(axis): device code may not index constant arrays.
template <class Values>
std::string per_axis(const std::string& name, const Values& values, const std::string& type = "int") {
  std::string text = fmt::format("  static constexpr {} {}(int axis) {{\n    return ", type, name);
  int axis = 0;
  for (std::int64_t value : values) text += fmt::format("axis == {} ? {} : ", axis++, value);
  return text + "0;\n  }\n";
}

template <class T>
std::string constant(const std::string& name, T value, const std::string& type = "int") {
  return fmt::format("  static constexpr {} {} = {};\n", type, name, value);
}

std::vector<std::int64_t> tail(const Shape& shape, int from) {
  return {shape.sizes().begin() + from, shape.sizes().end()};
}

bool reaches_far(const Operand& operand) {
  std::int64_t reach = 0;
  for (int axis = 0; axis < operand.shape.rank(); ++axis) reach += operand.shape[axis] * operand.strides[at(axis)];
  return reach > std::int64_t{1} << 30;
}

bool index_is_wide(const BodyWriter& body, const Kernel& kernel) {
  const auto& operands = kernel.head->operands;
  return body.wide() || kernel.domain.size() > std::int64_t{1} << 30 ||
         std::any_of(operands.begin(), operands.end(), reaches_far);
}

// Pointers operand0, operand1 and their types.
void add_operands(BodyWriter& body, const Plan& plan, const Head& head) {
  for (std::size_t i = 0; i < head.operands.size(); ++i) {
    const Operand& operand = head.operands[i];
    const Dtype dtype = dtype_of(plan, operand.slot);
    body.pointer(fmt::format("const {}*", type_name(dtype)), fmt::format("operand{}", i),
                 {operand.slot, operand.offset * size_of(dtype)});
  }
}

std::string operand_types(const Plan& plan, const Head& head) {
  std::string text;
  for (std::size_t i = 0; i < head.operands.size(); ++i)
    text += fmt::format("  using {} = {};\n", i == 0 ? "A" : "B", type_name(dtype_of(plan, head.operands[i].slot)));
  return text;
}

// ---- Products and convolutions ----
struct Product {
  std::string problem{};    // "ConvOutput"
  std::string words{};      // "convolution of"
  std::string constants{};  // of Body
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
  bool along_k_a = false, along_k_b = false;  // neighbouring threads read along k
  int vector_a = 1, vector_b = 1;             // elements read at once
  bool lanes_are_columns = true;              // neighbours along the domain's channels are neighbouring columns
};

// How many neighbours along an axis can be read at once: they begin at multiples of it, and `extent` is one too.
int vector_width(const Operand& operand, int axis, std::int64_t extent, std::int64_t element_bytes) {
  if (operand.strides[at(axis)] != 1) return 1;
  int width = static_cast<int>(16 / element_bytes);
  const auto fits = [&] {
    if (extent % width != 0 || operand.offset % width != 0) return false;
    for (int other = 0; other < operand.shape.rank(); ++other)
      if (other != axis && operand.shape[other] > 1 && operand.strides[at(other)] % width != 0) return false;
    return true;
  };
  while (!fits()) width /= 2;
  return width;
}

std::int64_t operand_bytes(const Plan& plan, const Operand& operand) { return size_of(dtype_of(plan, operand.slot)); }

Product matmul_of(const Plan& plan, const Kernel& kernel) {
  const Operand &a = kernel.head->operands[0], &b = kernel.head->operands[1];
  const int axes = kernel.domain.rank() - 2;
  Product p{.problem = "MatmulProblem",
            .words = "product of",
            .m = kernel.domain[-2],
            .n = kernel.domain[-1],
            .k = a.shape[-1]};
  std::vector<std::int64_t> batch;
  for (int axis = 0; axis < axes; ++axis) batch.push_back(kernel.domain[axis]), p.groups *= kernel.domain[axis];
  batch.push_back(1);  // the axis before which the last batch axis counts
  p.constants = constant("kBatchAxes", axes) + constant("kM", p.m, "Index") + constant("kN", p.n, "Index") +
                constant("kK", p.k, "Index") + per_axis("batch_size", batch) +
                per_axis("a_stride", a.strides, "Index") + per_axis("b_stride", b.strides, "Index");
  p.along_k_a = a.strides[at(axes + 1)] == 1;
  p.along_k_b = b.strides[at(axes)] == 1;
  const std::int64_t bytes_a = operand_bytes(plan, a), bytes_b = operand_bytes(plan, b);
  p.vector_a = p.along_k_a ? vector_width(a, axes + 1, p.k, bytes_a) : vector_width(a, axes, p.m, bytes_a);
  p.vector_b = p.along_k_b ? vector_width(b, axes, p.k, bytes_b) : vector_width(b, axes + 1, p.n, bytes_b);
  return p;
}

// The step between neighbouring pixels, of all images one after the other; none where it differs. A window of one tap
// needs to know no more of them.
std::optional<std::int64_t> pixel_step(const Shape& images, const Strides& strides) {
  std::int64_t step = 0;
  std::optional<std::int64_t> next;
  for (int axis = images.rank(); axis-- > 0;) {
    const std::int64_t stride = strides[at(axis)];
    if (axis == 1 || images[axis] == 1) continue;
    if (next && stride != *next) return {};
    if (!next) step = stride;
    next = stride * images[axis];
  }
  return step;
}

Product conv_of(const Plan& plan, const Kernel& kernel, const Conv& conv) {
  const Operand &first = kernel.head->operands[0], &second = kernel.head->operands[1];
  const Shape& domain = kernel.domain;
  const bool output = conv.role == ConvRole::output, input_grad = conv.role == ConvRole::input_grad;
  const Shape& x = output ? first.shape : input_grad ? domain : second.shape;
  const Shape& w = output || input_grad ? second.shape : domain;
  const Shape& y = output ? domain : first.shape;
  const Strides none(at(domain.rank()), 0);
  const Strides& x_strides = output ? first.strides : input_grad ? none : second.strides;
  const Strides& w_strides = output || input_grad ? second.strides : none;
  const Strides& y_strides = output ? none : first.strides;
  const std::int64_t channels = w[1], filters = w[0] / conv.groups;
  std::int64_t window = 1, x_pixels = 1, y_pixels = 1;
  for (std::int64_t size : tail(w, 2)) window *= size;
  for (std::int64_t size : tail(x, 2)) x_pixels *= size;
  for (std::int64_t size : tail(y, 2)) y_pixels *= size;

  Product p{.groups = conv.groups};
  const Strides& stepped = output ? x_strides : y_strides;  // what k steps through in A
  const bool channels_inner = (conv.role == ConvRole::filter_grad ? x_strides : stepped)[1] == 1;
  const std::int64_t first_bytes = operand_bytes(plan, first), second_bytes = operand_bytes(plan, second);
  if (output) {
    p.problem = "ConvOutput", p.words = "convolution of";
    p.m = x[0] * y_pixels, p.n = filters, p.k = channels * window;
    p.along_k_a = channels_inner, p.along_k_b = true;
    if (channels_inner) p.vector_a = vector_width(first, 1, channels, first_bytes);
    if (channels_inner) p.vector_b = vector_width(second, 1, channels, second_bytes);
  } else if (input_grad) {
    p.problem = "ConvInputGrad", p.words = "input gradient from";
    p.m = x[0] * x_pixels, p.n = channels, p.k = filters * window;
    p.along_k_a = channels_inner;
    if (channels_inner) p.vector_a = vector_width(first, 1, filters, first_bytes);
    p.vector_b = vector_width(second, 1, channels, second_bytes);
  } else {
    p.problem = "ConvFilterGrad", p.words = "filter gradient from";
    p.m = filters, p.n = channels * window, p.k = x[0] * y_pixels;
    p.lanes_are_columns = channels_inner || window == 1;
    p.along_k_a = y_strides[1] != 1, p.along_k_b = x_strides[1] != 1;
    if (!p.along_k_a) p.vector_a = vector_width(first, 1, filters, first_bytes);
    if (!p.along_k_b) p.vector_b = vector_width(second, 1, channels, second_bytes);
  }
  p.constants = constant("kChannels", channels) + constant("kFilters", filters) +
                constant("kChannelsInner", channels_inner, "bool") + per_axis("w_stride", w_strides, "Index");
  const std::optional<std::int64_t> x_step = pixel_step(x, x_strides), y_step = pixel_step(y, y_strides);
  const auto all = [](const std::vector<int>& values, int value) {
    return std::all_of(values.begin(), values.end(), [&](int v) { return v == value; });
  };
  if (window == 1 && all(conv.stride, 1) && all(conv.pad, 0) && tail(x, 2) == tail(y, 2) && x_step && y_step) {
    const std::vector<std::int64_t> pixels{x[0] * x_pixels}, one{1};
    p.constants += constant("kSpatial", 1) + constant("kImages", 1) + per_axis("x_size", pixels) +
                   per_axis("y_size", pixels) + per_axis("window", one) + per_axis("stride", one) +
                   per_axis("pad", Strides{0}) + per_axis("dilation", one) +
                   per_axis("x_stride", Strides{0, x_strides[1], *x_step}, "Index") +
                   per_axis("y_stride", Strides{0, y_strides[1], *y_step}, "Index");
    return p;
  }
  p.constants += constant("kSpatial", domain.rank() - 2) + constant("kImages", x[0]) + per_axis("x_size", tail(x, 2)) +
                 per_axis("y_size", tail(y, 2)) + per_axis("window", tail(w, 2)) + per_axis("stride", conv.stride) +
                 per_axis("pad", conv.pad) + per_axis("dilation", conv.dilation) +
                 per_axis("x_stride", x_strides, "Index") + per_axis("y_stride", y_strides, "Index");
  return p;
}

struct Tiling {
  int m, n, k, thread_m, thread_n, warps_n, threads, splits = 1;
  int share = 0;  // terms in which parts of the sum are counted
  std::int64_t tiles = 1;
  std::string name() const { return fmt::format("{}x{}", m, n); }
};

constexpr std::int64_t kEnoughThreads = 256 * 256;
constexpr int kSplitGroup = 16;  // parts that one block adds, before one adds their sums

// One block adds the parts of a tile: more parts than each has steps would only move the wait there.
std::int64_t most_splits(const Product& p, const Tiling& t) {
  const std::int64_t steps = ceil_div(p.k, t.share);
  return std::clamp<std::int64_t>(std::min(steps / 8, static_cast<std::int64_t>(std::sqrt(static_cast<double>(steps)))),
                                  1, 128);
}

// Where most of a device would be idle even with parts, adding up more parts takes less time than waiting for long
// ones. Tensor cores add no more terms in one accumulator than they should.
int splits_of(const Product& p, const Tiling& t, bool tensor_cores) {
  const std::int64_t steps = ceil_div(p.k, t.share), tiles = std::max<std::int64_t>(t.tiles, 1);
  const std::int64_t most = std::max(most_splits(p, t), std::min(steps / 8, kSplitGroup * kSplitGroup / tiles));
  const std::int64_t splits = std::clamp<std::int64_t>(kEnoughThreads / t.threads / tiles, 1, most);
  return static_cast<int>(tensor_cores ? std::max(splits, ceil_div(p.k, kMostTensorTerms)) : splits);
}

// The first is the largest tile that gives the device enough blocks, parts of the sum counted. It does
// not depend on the device, so results are the same on every chip. The others follow by size.
std::vector<Tiling> tilings_of(const Product& p, bool tensor_cores, Dtype compute, std::int64_t element_bytes) {
  static const std::vector<Tiling> kFloat{{128, 128, 8, 8, 8, 1, 256}, {64, 128, 16, 8, 8, 1, 128},
                                          {128, 64, 16, 8, 8, 1, 128}, {128, 32, 16, 8, 4, 1, 128},
                                          {64, 64, 16, 8, 4, 1, 128},  {32, 32, 16, 4, 4, 1, 64}};
  static const std::vector<Tiling> kTensor{
      {128, 128, 0, 4, 4, 4, 256}, {128, 64, 0, 4, 4, 2, 256}, {64, 64, 0, 4, 4, 2, 128}, {64, 32, 0, 4, 4, 2, 128}};
  std::vector<Tiling> all;
  std::optional<std::size_t> first;
  for (Tiling t : tensor_cores ? kTensor : kFloat) {
    t.share = tensor_cores ? static_cast<int>(64 / element_bytes) : t.k;
    // A step waits for memory once: blocks that have room for it read twice as much in one.
    if (tensor_cores) t.k = t.threads == 128 && p.k > t.share ? 2 * t.share : t.share;
    if (compute == Dtype::f64 && t.thread_m * t.thread_n > 32) continue;  // doubles fill two registers
    t.tiles = p.groups * ((p.m + t.m - 1) / t.m) * ((p.n + t.n - 1) / t.n);
    t.splits = splits_of(p, t, tensor_cores);
    // A tile twice as wide as the matrix works for nothing.
    if (!first && t.tiles * most_splits(p, t) * t.threads >= kEnoughThreads / 2 && p.m * 2 > t.m && p.n * 2 > t.n)
      first = all.size();
    all.push_back(t);
  }
  const auto chosen = all.begin() + static_cast<std::ptrdiff_t>(first.value_or(all.size() - 1));
  std::rotate(all.begin(), chosen, chosen + 1);
  return all;
}

Product product_of(const Plan& plan, const Kernel& kernel) {
  check(is_product(*kernel.head), "\"", kernel.label, "\" is no product");
  const auto* conv = std::get_if<Conv>(&kernel.head->op);
  return conv ? conv_of(plan, kernel, *conv) : matmul_of(plan, kernel);
}

bool runs_on_tensor_cores(const Plan& plan, const Head& head) {
  const Dtype a = dtype_of(plan, head.operands[0]), b = dtype_of(plan, head.operands[1]);
  return a == b && (size_of(a) == 2 || (a == Dtype::f32 && multiplies_tf32(head)));
}

std::vector<Tiling> tilings_of(const Plan& plan, const Head& head, const Product& p) {
  return tilings_of(p, runs_on_tensor_cores(plan, head), compute_dtype(head.dtype),
                    size_of(dtype_of(plan, head.operands[0])));
}

}  // namespace

// Tiles have no estimates: without a measurement the first is taken.
std::vector<Algorithm> product_algorithms(const Plan& plan, const Kernel& kernel) {
  std::vector<Algorithm> algorithms;
  if (kernel.domain.size() == 0) return algorithms;
  for (const Tiling& tiling : tilings_of(plan, *kernel.head, product_of(plan, kernel)))
    algorithms.push_back({tiling.name(), 1});
  return algorithms;
}

// Fitted to an H200's times of 130 convolutions of random shapes (standard deviation of the ratio: 30 %): a block takes
// steps one after the other, and all of them share the tensor cores. Results leave at a rate that is a prediction.
double product_seconds(const Plan& plan, const Kernel& kernel, int sms) {
  const Product p = product_of(plan, kernel);
  const Tiling t = tilings_of(plan, *kernel.head, p).front();
  const bool wide = t.threads == 256, vectors = std::min(p.vector_a, p.vector_b) >= 8;
  const double steps = static_cast<double>((p.k + t.k - 1) / t.k) / t.splits,
               step = (vectors ? 1e-6 : 1.5e-6) * (t.k > t.share ? 1.3 : 1);
  const double rate = (wide ? vectors ? 100e12 : 58e12 : vectors ? 80e12 : 45e12) * sms / 132;
  const double flops = 2.0 * static_cast<double>(t.tiles * t.m * t.n) * static_cast<double>(p.k);
  const double results = static_cast<double>(p.groups * p.m) * static_cast<double>(p.n) / 6.4e11;
  return 2e-6 + std::max(1e-6 + steps * step, flops / rate) + results + (t.splits > 1 ? 4e-6 : 0);
}

// With what decides its speed.
std::string product_operation(const Plan& plan, const Kernel& kernel) {
  const Head& head = *kernel.head;
  const Product p = product_of(plan, kernel);
  const Dtype a = dtype_of(plan, head.operands[0]);
  std::string text =
      fmt::format("{}{} {} {} by {} to {}", a, runs_on_tensor_cores(plan, head) && a == Dtype::f32 ? " as tf32" : "",
                  p.words, head.operands[0].shape, head.operands[1].shape, kernel.domain);
  if (const auto* conv = std::get_if<Conv>(&head.op))
    text += fmt::format(" stride {} pad {} dilation {} groups {}", fmt::join(conv->stride, "x"),
                        fmt::join(conv->pad, "x"), fmt::join(conv->dilation, "x"), conv->groups);
  return text + fmt::format(", {} by {} at once", p.vector_a, p.vector_b);
}

KernelCode generate_product(const Plan& plan, const Kernel& kernel, const std::string& tile) {
  const Product p = product_of(plan, kernel);
  const Head& head = *kernel.head;
  BodyWriter body(plan, kernel, false, std::holds_alternative<Conv>(head.op) ? Order::nhwc : Order::matrix);
  const Dtype compute = compute_dtype(head.dtype);
  const Dtype a = dtype_of(plan, head.operands[0]);
  const bool tensor_cores = runs_on_tensor_cores(plan, head);
  const std::vector<Tiling> tilings = tilings_of(plan, head, p);
  const Tiling& t = tile_named(tilings, tile);
  const int widest = tensor_cores && size_of(a) == 2 ? 8 : 4;
  add_operands(body, plan, head);
  const int channel = body.space().kept,
            lanes = tensor_cores && p.lanes_are_columns
                        ? static_cast<int>(std::gcd<std::int64_t>(body.pieces_along(channel), p.n))
                        : 1;
  const bool rows_inside = !body.contiguous_along(channel) && body.contiguous_along(channel - 1);
  const std::string code = load_and_run(body, kernel, lanes, type_name(compute));

  KernelCode result;
  if (t.splits > 1) {
    body.pointer("u32*", "arrived", {Argument::kScratch, 0});
    const int counters = (t.splits + kSplitGroup - 1) / kSplitGroup + 1;
    result.scratch_bytes = (t.tiles * counters * 4 + 255) / 256 * 256;
    body.pointer("char*", "parts", {Argument::kScratch, result.scratch_bytes});
    result.scratch_bytes += t.tiles * t.splits * t.m * t.n * size_of(compute);
  }
  std::string& text = result.source;
  text = fmt::format("#include \"{}.cuh\"\n", tensor_cores ? "gemm_mma" : "gemm");
  text += "#include \"operands.cuh\"\n#include \"philox.cuh\"\n\nstruct Body {\n";
  text += fmt::format("  using Index = {};\n  using Accumulate = {};\n",
                      index_is_wide(body, kernel) ? "long long" : "int", type_name(compute));
  text += operand_types(plan, head) + p.constants;
  text += fmt::format("  static constexpr int kTileM = {}, kTileN = {}, kTileK = {}, kThreadM = {}, kThreadN = {};\n",
                      t.m, t.n, t.k, t.thread_m, t.thread_n);
  text += fmt::format("  static constexpr int kThreads = {}, kWarpsN = {}, kSplits = {}, kSplitGroup = {};\n",
                      t.threads, t.warps_n, t.splits, kSplitGroup);
  text += fmt::format("  static constexpr int kVectorA = {}, kVectorB = {};\n", std::min(p.vector_a, widest),
                      std::min(p.vector_b, widest));
  text += fmt::format("  static constexpr bool kAlongKA = {}, kAlongKB = {};\n", p.along_k_a, p.along_k_b);
  text += fmt::format("  static constexpr int kLanes = {};\n  static constexpr bool kRowsInside = {};\n", lanes,
                      rows_inside);
  text += body.pointers();
  if (t.splits == 1) text += "  static constexpr char* parts = nullptr;\n  static constexpr u32* arrived = nullptr;\n";
  text += code + "};\n";
  // At least 12 warps share an SM and hide each other's waits, where registers allow: not where loads are
  // many and small, nor for doubles.
  const bool lean = compute == Dtype::f32 && !tensor_cores && std::min(p.vector_a, p.vector_b) >= 4;
  const int blocks = !lean ? 1 : t.threads == 256 ? 2 : 384 / t.threads;
  text += entry_point("kernel0", fmt::format("{}, {}", t.threads, blocks),
                      fmt::format("{}({}<Body>(body))", tensor_cores ? "gemm_mma" : "gemm", p.problem));
  result.arguments = body.arguments();
  result.variant = fmt::format("{} {}", tensor_cores ? "gemm_mma" : "gemm", t.name());
  if (kernel.domain.size() > 0) result.launches.push_back({"kernel0", t.tiles * t.splits, t.threads});
  return result;
}

namespace {

// ---- Pooling, gather, scatter ----
struct Lookup {
  std::string function;  // of gather.cuh
  std::string constants;
};

Lookup pool_of(const Kernel& kernel, const Pool& pool) {
  const bool max = pool.kind == PoolKind::max, grad = pool.role == PoolRole::input_grad;
  const Operand& first = kernel.head->operands[0];
  const Shape& x = grad ? kernel.domain : first.shape;
  const Shape& y = grad ? first.shape : kernel.domain;
  const char* roles[] = {"output", "index", "input_grad", "gather"};
  return {fmt::format("{}_pool_{}", max ? "max" : "average", roles[static_cast<int>(pool.role)]),
          constant("kAxes", x.rank() - 1) + constant("kCountPad", pool.count_pad, "bool") +
              per_axis("x_size", tail(x, 1)) + per_axis("y_size", tail(y, 1)) + per_axis("window", pool.window) +
              per_axis("stride", pool.stride) + per_axis("pad", pool.pad)};
}

Lookup gather_of(const Kernel& kernel, int axis, bool transposed) {
  const Operand &data = kernel.head->operands[0], &indices = kernel.head->operands[1];
  return {transposed ? "scatter" : "gather",
          constant("kAxis", axis) + constant("kIndexAxes", indices.shape.rank()) +
              constant("kAxisSize", transposed ? kernel.domain[axis] : data.shape[axis]) +
              constant("kIndices", indices.shape.size(), "Index") + per_axis("index_size", indices.shape.sizes())};
}

Lookup lookup_of(const Kernel& kernel) {
  return std::visit(overloaded{[&](const Pool& pool) { return pool_of(kernel, pool); },
                               [&](const Gather& op) { return gather_of(kernel, op.axis, false); },
                               [&](const Scatter& op) { return gather_of(kernel, op.axis, true); },
                               [](const Matmul&) -> Lookup { fail(Fault::usage, "a product is no lookup"); },
                               [](const Conv&) -> Lookup { fail(Fault::usage, "a convolution is no lookup"); }},
                    kernel.head->op);
}

}  // namespace

bool is_product(const Head& head) {
  return std::visit(overloaded{[](const Matmul&) { return true; }, [](const Conv&) { return true; },
                               [](const Pool&) { return false; }, [](const Gather&) { return false; },
                               [](const Scatter&) { return false; }},
                    head.op);
}

HeadCode lookup_head(const Plan& plan, const Kernel& kernel, BodyWriter& body, const Frame& frame) {
  const Lookup lookup = lookup_of(kernel);
  const Head& head = *kernel.head;
  add_operands(body, plan, head);
  HeadCode code{.wide = index_is_wide(body, kernel)};
  const Dtype first = dtype_of(plan, head.operands[0].slot);
  code.members = fmt::format("  using Compute = {};\n", type_name(compute_dtype(first))) + lookup.constants;
  for (std::size_t i = 0; i < head.operands.size(); ++i)
    code.members += per_axis(fmt::format("operand{}_stride", i), head.operands[i].strides, "Index");
  std::string parameters, position, arguments;
  for (int axis = 0; axis < kernel.domain.rank(); ++axis) {
    const char* comma = axis ? ", " : "";
    parameters += fmt::format("{}Index i{}", comma, axis);
    position += fmt::format("{}i{}", comma, axis);
    arguments += comma + body.coordinate(axis, frame, "");
  }
  code.members += fmt::format(
      "  {0} head({1}) const {{\n    const Index position[] = {{{2}}};\n    return {3}<{0}>(*this, position);\n  }}\n",
      type_name(compute_dtype(head.dtype)), parameters, position, lookup.function);
  code.call = fmt::format("this->head({})", arguments);
  return code;
}

}  // namespace nixie::cuda
