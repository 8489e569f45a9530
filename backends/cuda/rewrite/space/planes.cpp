// Convolutions of three spatial axes become ones of two over planes, which kernels for tensor cores compute.
//
// y[n, d] sums the convolutions of plane d * stride + t * dilation - pad of x by the filters of tap t. So planes of x
// are copied with those of all taps side by side as channels, and the taps of filters become channels too: a layer of
// T x R x S taps over C channels is one of R x S taps over T * C channels. An input gradient of stride 1 along the
// depth does the same with planes d + pad - t * dilation of dy; after a filter gradient, a kernel moves the taps back
// to their places. Where no copy is needed, as for windows of one plane, planes are read in place.
#include <algorithm>

#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/space/space.h"
#include "nixie/backends/cuda/rewrite/unfold/axes.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr int kDepth = 2;
constexpr std::int64_t kMostTaps = 16;

// Which planes of images a result's plane takes: first(tap) + step * plane.
struct Depth {
  std::int64_t taps = 1, first = 0, between = 0, step = 1, planes = 0;  ///< planes of results
  std::int64_t first_of(std::int64_t tap) const { return first + tap * between; }
  /// Each plane its own.
  bool is_plain(std::int64_t images) const { return taps == 1 && first == 0 && step == 1 && planes == images; }
};

class PlaneLowering {
 public:
  PlaneLowering(Plan& plan, const Chip& chip, bool wherever_possible, std::int64_t most_bytes)
      : plan_(plan), chip_(chip), wherever_possible_(wherever_possible), most_bytes_(most_bytes) {}

  void operator()() {
    std::set<int> slots;  // that kernels which change read or write
    for (Kernel& kernel : plan_.kernels) {
      const bool wants = wants_planes(kernel), pools = kernel.head && has_planes(kernel);
      if (wants || pools) add_slots(slots, kernel);
      if (wants)
        lower(kernel);
      else
        kernels_.push_back(std::move(kernel));
    }
    plan_.kernels = std::move(kernels_);
    const auto can = [](const Kernel& kernel) { return has_planes(kernel); };
    change_at(plan_, slots, can, [](Kernel kernel) { return over_planes(std::move(kernel)); });
  }

 private:
  bool wants_planes(const Kernel& kernel) const {
    const auto* conv = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
    if (!conv || conv->stride.size() != 3 || kernel.domain.size() == 0) return false;
    for (const Operand& operand : kernel.head->operands)
      if (operand.shape.size() == 0) return false;
    if (conv->role == ConvRole::input_grad && conv->stride[0] != 1) return false;
    const Depth depth = depth_of(kernel);
    const std::int64_t copied = size_of_copy(kernel, depth);
    const bool in_turns = conv->role == ConvRole::filter_grad || can_cut(kernel, 0);
    if (depth.taps > kMostTaps || (copied > most_bytes_ && !in_turns)) return false;
    if (wherever_possible_) return true;
    if (copied > 0 && has_pixels(kernel)) return false;  // which needs no copy
    const Dtype dtype = dtype_of(plan_, kernel.head->operands[0]);
    const bool halves = dtype == Dtype::f16 || dtype == Dtype::bf16;
    if (!halves && dtype != Dtype::f32) return false;
    return seconds(kernel, depth, copied) < 0.85 * product_estimate(plan_, kernel, chip_).seconds;
  }

  static const Operand& images_of(const Kernel& kernel) {
    const bool gradient = std::get<Conv>(kernel.head->op).role == ConvRole::filter_grad;
    return kernel.head->operands[gradient ? 1 : 0];
  }

  static Depth depth_of(const Kernel& kernel) {
    const auto& conv = std::get<Conv>(kernel.head->op);
    const Shape &a = kernel.head->operands[0].shape, &b = kernel.head->operands[1].shape;
    switch (conv.role) {
      case ConvRole::output:
        return {b[kDepth], -conv.pad[0], conv.dilation[0], conv.stride[0], kernel.domain[kDepth]};
      case ConvRole::input_grad:
        return {b[kDepth], conv.pad[0], -conv.dilation[0], 1, kernel.domain[kDepth]};
      case ConvRole::filter_grad:
        break;
    }
    return {kernel.domain[kDepth], -conv.pad[0], conv.dilation[0], conv.stride[0], a[kDepth]};
  }

  // Bytes of copied planes.
  std::int64_t size_of_copy(const Kernel& kernel, const Depth& depth) const {
    const Operand& images = images_of(kernel);
    if (depth.is_plain(images.shape[kDepth]) && has_planes(images)) return 0;
    return images.shape.size() / images.shape[kDepth] * depth.planes * depth.taps * size_of(dtype_of(plan_, images));
  }

  // The seconds that copies and products of planes should take.
  double seconds(const Kernel& kernel, const Depth& depth, std::int64_t copied) const {
    constexpr double kShare = 2 / 3.0;  // of the rate of tensor cores
    const Shape &a = kernel.head->operands[0].shape, &b = kernel.head->operands[1].shape;
    const auto results = static_cast<double>(kernel.domain.size());
    const auto& conv = std::get<Conv>(kernel.head->op);
    const bool gradient = conv.role == ConvRole::filter_grad;
    const double terms = conv.role == ConvRole::output       ? static_cast<double>(b.size() / b[0])
                         : conv.role == ConvRole::input_grad ? static_cast<double>(b.size() / b[1]) / conv.groups
                                                             : static_cast<double>(a.size() / a[1]);
    const std::int64_t channels = depth.taps * images_of(kernel).shape[1];
    const bool fills = conv.groups == 1 && padded(channels) != channels;
    // Filters are copied, or gradients put in their places.
    const double copies = 1 + (copied > 0) + (fills ? 1 + !gradient : 0);
    const double once = copied > 0 ? static_cast<double>(copied / depth.taps) : 0;
    const Work copying{.bytes = once + 2 * static_cast<double>(copied), .launches = copies},
        products{.mma = 2 * results * terms / kShare, .launches = gradient ? 2.4 : 1.2};
    return chip_.seconds(copying) + chip_.seconds(products);
  }

  // Images [first, first + count).
  struct Share {
    std::int64_t first = 0, count = 0;
    Operand of(Operand operand) const {
      operand.offset += first * operand.strides[0];
      operand.shape = operand.shape.with(0, count);
      return operand;
    }
  };

  // As few as most_bytes_ allow.
  std::vector<Share> shares_of(const Kernel& kernel, const Depth& depth) const {
    const std::int64_t images = images_of(kernel).shape[0],
                       turns = std::clamp<std::int64_t>(ceil_div(size_of_copy(kernel, depth), most_bytes_), 1, images),
                       count = ceil_div(images, turns);
    std::vector<Share> shares;
    for (std::int64_t first = 0; first < images; first += count)
      shares.push_back({first, std::min(count, images - first)});
    return shares;
  }

  void lower(const Kernel& kernel) {
    const Depth depth = depth_of(kernel);
    const std::vector<Share> shares = shares_of(kernel, depth);
    if (std::get<Conv>(kernel.head->op).role == ConvRole::filter_grad) return lower_gradient(kernel, depth, shares);
    if (shares.size() == 1) return lower_images(kernel, depth);
    for (const Share& share : shares) {
      Kernel part = part_of(kernel, 0, share.first, share.count);
      part.head->operands[0] = share.of(part.head->operands[0]);
      lower_images(std::move(part), depth);
    }
  }

  void lower_images(Kernel kernel, const Depth& depth) {
    std::optional<Kernel> rest;
    Kernel bare = kernel;
    bare.head.reset();
    if (!has_planes(bare)) {
      auto [alone, after] = split_head(plan_, kernel, kernel.domain.channels_last(), kernel.label);
      kernel = std::move(alone), rest = std::move(after);
    }
    std::optional<Head> head;
    head.swap(kernel.head);
    auto& op = std::get<Conv>(head->op);
    kernel = over_planes(std::move(kernel));
    const bool forward = op.role == ConvRole::output;
    const Operand images = planes_of(head->operands[0], depth, op.groups);
    head->operands = {images, filters_of(head->operands[1], op, forward ? images.shape[1] / op.groups : 0)};
    drop_depth(op);
    kernel.head.swap(head);
    kernels_.push_back(std::move(kernel));
    if (rest) kernels_.push_back(*std::move(rest));
  }

  // The gradients of shares are added where they are used.
  void lower_gradient(const Kernel& kernel, const Depth& depth, const std::vector<Share>& shares) {
    const Operand &dy = kernel.head->operands[0], &x = kernel.head->operands[1];
    const Depth own{.planes = dy.shape[kDepth]};
    const Dtype dtype = compute_dtype(kernel.head->dtype);
    Kernel rest = kernel;
    const auto first = static_cast<int>(rest.loads.size());
    for (const Share& share : shares) {
      Kernel alone{.label = kernel.label, .head = kernel.head};
      auto& op = std::get<Conv>(alone.head->op);
      const Operand images = planes_of(share.of(x), depth, op.groups);
      alone.head->operands = {planes_of(share.of(dy), own, 1), images};
      alone.domain = {kernel.domain[0], images.shape[1] / op.groups, kernel.domain[3], kernel.domain[4]};
      drop_depth(op);
      const Strides strides = alone.domain.channels_last();
      alone.stores = {{.slot = add_slot(plan_, kernel.label, dtype, alone.domain, strides), .strides = strides}};
      alone.stages = {{.body = {{.primitive = Primitive::head, .type = dtype}}, .stores = {{0, 0}}}};
      rest.loads.push_back({.slot = alone.stores[0].slot, .strides = tap_strides(strides, kernel.domain[1])});
      kernels_.push_back(std::move(alone));
    }
    rest.head.reset();
    replace_head(rest, [&](InstructionBuilder& code, const Instruction& in) {
      const auto load = [&](int index) {
        return code.add({.primitive = Primitive::load, .type = in.type, .index = index});
      };
      int sum = load(first);
      for (int i = first + 1; i < static_cast<int>(rest.loads.size()); ++i) {
        const int next = load(i);
        sum = code.add({.primitive = Primitive::add, .type = in.type, .args = {sum, next, -1}});
      }
      return sum;
    });
    kernels_.push_back(std::move(rest));
  }

  static void drop_depth(Conv& conv) {
    for (std::vector<int>* sizes : {&conv.stride, &conv.pad, &conv.dilation}) sizes->erase(sizes->begin());
  }

  // Strides over [K, C, T, R, S] of filters [K, T * C, R, S].
  static Strides tap_strides(const Strides& planar, std::int64_t channels) {
    return {planar[0], planar[1], channels * planar[1], planar[2], planar[3]};
  }

  // So many channels that pieces of 16 bytes can be copied.
  static std::int64_t padded(std::int64_t channels) { return channels % 8 == 0 ? channels : round_up(channels, 16); }

  Instruction load_of(int slot, int index) const {
    return {.primitive = Primitive::load, .type = compute_dtype(dtype_of(plan_, slot)), .index = index};
  }

  // Images [N, C, D, H, W] as [N * planes, groups * taps * C / groups, H, W].
  Operand planes_of(const Operand& images, const Depth& depth, int groups) {
    if (depth.is_plain(images.shape[kDepth]) && has_planes(images)) return over_planes(images);
    const Shape& from = images.shape;
    const std::int64_t own = from[1] / groups, of_group = depth.taps * own,
                       channels = groups == 1 ? padded(of_group) : groups * of_group;
    const Shape shape{from[0] * depth.planes, channels, from[3], from[4]};
    const Strides strides = shape.channels_last();
    const int slot = add_slot(plan_, "planes", dtype_of(plan_, images), shape, strides);
    Kernel copy{.label = "planes", .domain = from.with(kDepth, depth.planes)};
    Stage stage;
    for (std::int64_t tap = 0; tap < depth.taps; ++tap) {
      const std::int64_t first = depth.first_of(tap);
      Access load{.slot = images.slot, .offset = images.offset + first * images.strides[kDepth]};
      load.strides = images.strides, load.strides[kDepth] *= depth.step;
      load.inside = {{0, from[0]},
                     {0, from[1]},
                     positions_inside(from[kDepth], first, depth.step, depth.planes),
                     {0, from[3]},
                     {0, from[4]}};
      if (load.inside[kDepth] == std::pair(std::int64_t{0}, depth.planes)) load.inside.clear();
      copy.loads.push_back(load);
      copy.stores.push_back({.slot = slot,
                             .offset = tap * own,
                             .strides = {depth.planes * strides[0], 1, strides[0], strides[2], strides[3]}});
      stage.body.push_back(load_of(images.slot, static_cast<int>(tap)));
      stage.stores.push_back({static_cast<int>(tap), static_cast<int>(tap)});
    }
    copy.stages = {std::move(stage)};
    if (groups > 1) {
      copy = with_split_axis(std::move(copy), 1, {groups, own});
      for (Access& store : copy.stores) store.strides[1] = of_group;
    }
    kernels_.push_back(std::move(copy));
    fill(slot, shape, of_group * groups);
    return {slot, 0, shape, strides};
  }

  // Zeros in channels from `first` on.
  void fill(int slot, const Shape& shape, std::int64_t first) {
    if (first == shape[1]) return;
    const Shape rest = shape.with(1, shape[1] - first);
    Kernel zeros{.label = "fill", .domain = rest};
    zeros.stores = {{.slot = slot, .offset = first, .strides = shape.channels_last()}};
    const Dtype type = compute_dtype(dtype_of(plan_, slot));
    zeros.stages = {{.body = {{.primitive = Primitive::constant, .type = type}}, .stores = {{0, 0}}}};
    kernels_.push_back(std::move(zeros));
  }

  // Filters [K, C, T, R, S] as [K, channels, R, S], or of input gradients, group by group, as [T * K, C, R, S].
  Operand filters_of(const Operand& w, const Conv& conv, std::int64_t channels) {
    const bool forward = conv.role == ConvRole::output;
    const std::int64_t taps = w.shape[kDepth], own = w.shape[0] / conv.groups;
    const Shape shape{forward ? w.shape[0] : taps * w.shape[0], forward ? channels : w.shape[1], w.shape[3],
                      w.shape[4]};
    const Strides strides = shape.channels_last();
    const int slot = add_slot(plan_, "filters of planes", dtype_of(plan_, w), shape, strides);
    Kernel copy{.label = "filters of planes", .domain = w.shape};
    copy.loads = {{.slot = w.slot, .offset = w.offset, .strides = w.strides}};
    copy.stores = {{.slot = slot, .strides = tap_strides(strides, w.shape[1])}};
    if (!forward) copy.stores[0].strides[kDepth] = own * strides[0];
    copy.stages = {{.body = {load_of(w.slot, 0)}, .stores = {{0, 0}}}};
    if (!forward && conv.groups > 1) {
      copy = with_split_axis(std::move(copy), 0, {conv.groups, own});
      copy.stores[0].strides[0] = taps * own * strides[0];
    }
    kernels_.push_back(std::move(copy));
    if (forward) fill(slot, shape, taps * w.shape[1]);
    return {slot, 0, shape, strides};
  }

  Plan& plan_;
  const Chip& chip_;
  const bool wherever_possible_;
  const std::int64_t most_bytes_;
  std::vector<Kernel> kernels_;
};

}  // namespace

void lower_to_planes(Plan& plan, const Chip& chip, bool wherever_possible, std::int64_t most_bytes) {
  PlaneLowering{plan, chip, wherever_possible, most_bytes}();
}

}  // namespace nixie::cuda
