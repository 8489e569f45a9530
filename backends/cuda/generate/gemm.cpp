// Writes the programs of kernels with a head and picks their tiles: gemm.cuh for products and convolutions, gather.cuh
// inside map.cuh for pooling, gather and scatter.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/backends/cuda/generate/product.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

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
struct Tiling {
  int m = 0, n = 0, k = 0, thread_m = 0, thread_n = 0, warps_n = 1, threads = 0, splits = 1;
  // f32 convolutions: time over the estimate, of 355 layers on an H200, so that the tile of least time is taken.
  double measured = 1;
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

struct TileWork {
  Work work = {};
  double share = 0;  // of a chip that it fills
};

// Fitted to an H200's times of 86 layers of random shapes (standard deviation of the ratio: 25 %). A thread's pieces of
// operands are what steps wait for, the more of them the fewer warps fit an SM: narrow ones cost less than wide ones,
// but not in proportion; with a window, each has a position to find. A ragged one counts as two, which is a prediction.
TileWork work_of(const Product& p, const Tiling& t, int sms) {
  constexpr double kLatency = 910, kFlops = 443;  // in clocks, and per clock of a warp
  constexpr double kResults = 6.5;                // that an SM stores per clock
  const double depth = static_cast<double>(std::min<std::int64_t>(t.k, p.k)), warps = t.threads / 32.0;
  const auto pieces = [&](int lines, int width, bool ragged) {
    return lines * depth / t.threads / std::pow(std::min(width, 8), 0.73) * (ragged ? 2 : 1);
  };
  const double of_thread = pieces(t.m, p.vector_a, p.ragged_a) + pieces(t.n, p.vector_b, p.ragged_b);
  const double most = std::max(1.0, (of_thread <= 12   ? 16
                                     : of_thread <= 24 ? 12
                                                       : 8) /
                                        warps),
               blocks = static_cast<double>(t.tiles * t.splits) / sms;  // of an SM
  const double waves = blocks < 3 * most ? std::ceil(blocks / most) : blocks / most,
               together = std::clamp(blocks / waves, 1.0, most);
  const double piece = (p.one_tap ? 3.36 : 7.14) * (p.along_k_a || p.along_k_b ? 1 : 1.32),
               products = 2.0 * t.m * t.n * depth * together / kFlops / 32,
               step = kLatency + of_thread * piece * (2 + warps * together) + products;
  const double steps = std::ceil(static_cast<double>(ceil_div(p.k, t.k)) / t.splits),
               results = static_cast<double>(p.groups * p.m) * static_cast<double>(p.n) / (kResults * sms);
  return {{.clocks = t.measured * (waves * (steps * step + kLatency / 2) + results),
           .launches = t.measured * (t.splits > 1 ? 3 : 1.2)},
          std::min(1.0, blocks / most)};
}

// The first is taken: of f32 convolutions the one that an H200 should compute in the least time, of others the largest
// that gives a device enough blocks, parts of the sum counted. Neither depends on the device, so results are the same
// on every chip. The others follow by size.
std::vector<Tiling> tilings_of(const Product& p, bool tensor_cores, Dtype compute, std::int64_t element_bytes) {
  static const Chip judge = chip_named("H200");
  static const std::vector<Tiling> kFloat{
      {.m = 128, .n = 128, .k = 8, .thread_m = 8, .thread_n = 8, .threads = 256, .measured = 1.9},
      {.m = 64, .n = 128, .k = 16, .thread_m = 8, .thread_n = 8, .threads = 128, .measured = 1.6},
      {.m = 128, .n = 64, .k = 16, .thread_m = 8, .thread_n = 8, .threads = 128, .measured = 1.7},
      {.m = 128, .n = 32, .k = 16, .thread_m = 8, .thread_n = 4, .threads = 128, .measured = 1.25},
      {.m = 64, .n = 64, .k = 16, .thread_m = 8, .thread_n = 4, .threads = 128, .measured = 1.35},
      {.m = 32, .n = 128, .k = 16, .thread_m = 4, .thread_n = 8, .threads = 128, .measured = 1.2},
      {.m = 32, .n = 32, .k = 16, .thread_m = 4, .thread_n = 4, .threads = 64, .measured = 0.95}};
  static const std::vector<Tiling> kTensor{
      {.m = 128, .n = 128, .thread_m = 4, .thread_n = 4, .warps_n = 4, .threads = 256},
      {.m = 128, .n = 64, .thread_m = 4, .thread_n = 4, .warps_n = 2, .threads = 256},
      {.m = 64, .n = 64, .thread_m = 4, .thread_n = 4, .warps_n = 2, .threads = 128},
      {.m = 64, .n = 32, .thread_m = 4, .thread_n = 4, .warps_n = 2, .threads = 128}};
  const bool by_time = p.is_conv && !tensor_cores && compute == Dtype::f32;
  std::vector<Tiling> all;
  std::optional<std::size_t> first;
  double least = 0;
  for (Tiling t : tensor_cores ? kTensor : kFloat) {
    t.share = tensor_cores ? static_cast<int>(64 / element_bytes) : t.k;
    // A step waits for memory once: blocks that have room for it read twice as much in one.
    if (tensor_cores) t.k = t.threads == 128 && p.k > t.share ? 2 * t.share : t.share;
    if (compute == Dtype::f64 && t.thread_m * t.thread_n > 32) continue;  // doubles fill two registers
    t.tiles = p.groups * ((p.m + t.m - 1) / t.m) * ((p.n + t.n - 1) / t.n);
    t.splits = splits_of(p, t, tensor_cores);
    if (by_time) {
      const double seconds = judge.seconds(work_of(p, t, judge.sms).work);
      if (!first || seconds < least) first = all.size(), least = seconds;
    } else if (!first && t.tiles * most_splits(p, t) * t.threads >= kEnoughThreads / 2 && p.m * 2 > t.m &&
               p.n * 2 > t.n) {  // a tile twice as wide as the matrix works for nothing
      first = all.size();
    }
    all.push_back(t);
  }
  const auto chosen = all.begin() + static_cast<std::ptrdiff_t>(first.value_or(all.size() - 1));
  std::rotate(all.begin(), chosen, chosen + 1);
  return all;
}

std::vector<Tiling> tilings_of(const Plan& plan, const Head& head, const Product& p) {
  return tilings_of(p, runs_on_tensor_cores(plan, head), compute_dtype(head.dtype),
                    multiplies_f8(plan, head) ? size_of(Dtype::f16) : size_of(dtype_of(plan, head.operands[0])));
}

}  // namespace

// Tiles have no estimates: without a measurement the first is taken.
std::vector<Algorithm> product_algorithms(const Plan& plan, const Kernel& kernel) {
  std::vector<Algorithm> algorithms;
  if (kernel.domain.size() == 0) return algorithms;
  for (const Tiling& tiling : tilings_of(plan, *kernel.head, product_of(plan, kernel)))
    algorithms.push_back({tiling.name()});
  return algorithms;
}

Estimate product_estimate(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  const Product p = product_of(plan, kernel);
  const Tiling t = tilings_of(plan, *kernel.head, p).front();
  const auto [work, share] = work_of(p, t, chip.sms);
  const double seconds = chip.seconds(work);
  if (runs_on_tensor_cores(plan, *kernel.head)) return {.seconds = seconds, .share = kMeanShare};
  // Of 31 strided input gradients of f32, tiles of 128 rows took 1.1 to 2.6 of what a mean of all layers would.
  const auto* conv = std::get_if<Conv>(&kernel.head->op);
  const bool is_strided = conv && conv->role == ConvRole::input_grad &&
                          std::ranges::any_of(conv->stride, [](int stride) { return stride > 1; });
  return {.seconds = is_strided && t.m >= 128 ? 1.3 * seconds : seconds, .share = share};
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
  const int widest = tensor_cores && size_of(a) <= 2 ? 8 : 4;
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
  text += fmt::format("  static constexpr bool kRaggedA = {}, kRaggedB = {};\n", p.ragged_a, p.ragged_b);
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
              per_axis("stride", pool.stride) + per_axis("pad", pool.pad) +
              per_axis("dilation", pool.dilation.empty() ? std::vector<int>(pool.window.size(), 1) : pool.dilation)};
}

// `size`: of the axis that indices are positions of.
Lookup indexed(const std::string& function, const Kernel& kernel, int axis, std::int64_t size) {
  const Shape& indices = kernel.head->operands[1].shape;
  return {function, constant("kAxis", axis) + constant("kIndexAxes", indices.rank()) + constant("kAxisSize", size) +
                        constant("kIndices", indices.size(), "Index") + per_axis("index_size", indices.sizes())};
}

Lookup scatter_of(const Kernel& kernel, const Scatter& op) {
  Lookup lookup = indexed("scatter", kernel, op.axis, kernel.domain[op.axis]);
  lookup.constants += fmt::format("  using Fold = {};\n", fold_name(op.kind, compute_dtype(kernel.head->dtype)));
  return lookup;
}

Lookup lookup_of(const Kernel& kernel) {
  return std::visit(overloaded{[&](const Pool& pool) { return pool_of(kernel, pool); },
                               [&](const Gather& op) {
                                 return indexed("gather", kernel, op.axis, kernel.head->operands[0].shape[op.axis]);
                               },
                               [&](const Scatter& op) { return scatter_of(kernel, op); },
                               [](const ArgSort&) -> Lookup { fail(Fault::usage, "a sorting is no lookup"); },
                               [](const Scan&) -> Lookup { fail(Fault::usage, "a scan is no lookup"); },
                               [](const Collective&) -> Lookup { fail(Fault::usage, "a collective is no lookup"); },
                               [](const Matmul&) -> Lookup { fail(Fault::usage, "a product is no lookup"); },
                               [](const Conv&) -> Lookup { fail(Fault::usage, "a convolution is no lookup"); }},
                    kernel.head->op);
}

}  // namespace

bool is_product(const Head& head) {
  return std::visit(overloaded{[](const Matmul&) { return true; }, [](const Conv&) { return true; },
                               [](const Pool&) { return false; }, [](const Gather&) { return false; },
                               [](const Scatter&) { return false; }, [](const ArgSort&) { return false; },
                               [](const Scan&) { return false; }, [](const Collective&) { return false; }},
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
