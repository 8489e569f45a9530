// The input gradient of a strided convolution becomes convolutions of stride 1, one for each phase of the input (or one
// for all: merge_phases in unfold/unfold_convs.cpp). Which family runs them is chosen as for any convolution. It is
// left as it is where it has too few products, and depthwise layers to depthwise. Filter gradients need no such
// rewrite: their kernels read images with a stride.
//
// Along an axis, dx[i] sums dy[p] w[r] over i + pad = stride p + dilation r. Pixels whose i leaves the same remainder
// modulo the stride, a phase, use the same taps: every (stride / gcd(stride, dilation))-th one. So a phase is the
// input gradient of a stride-1 layer whose filter is a strided view of w; it reads all of dy and stores its pixels
// between those of the other phases. Pixels without taps are set to zero by kernels without a product. Nothing is
// multiplied by zero: for a 3x3 filter with stride 2 a phase has at most 4 of the 9 taps, all four phases together 9
// of 36.
#include <algorithm>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/phases.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

// An access to all pixels of a domain, as one to those of one phase along each spatial axis.
Access at_phases(Access access, const std::vector<Phase>& phases) {
  for (int axis = 2; axis < 2 + static_cast<int>(phases.size()); ++axis) {
    const Phase& phase = phases[at(axis - 2)];
    access.offset += phase.first * access.strides[at(axis)];
    access.strides[at(axis)] *= phase.step;
    if (access.inside.empty()) continue;
    auto& [low, high] = access.inside[at(axis)];
    low = std::min(count_below(low - phase.first, phase.step), phase.pixels);
    high = std::min(count_below(high - phase.first, phase.step), phase.pixels);
  }
  return access;
}

class PhaseLowering {
 public:
  PhaseLowering(Plan& plan, bool wherever_possible) : plan_(plan), wherever_possible_(wherever_possible) {}

  void operator()() {
    for (Kernel& kernel : plan_.kernels) {
      const std::vector<std::vector<Phase>> axes = axes_of(kernel);
      if (axes.empty()) {
        kernels_.push_back(std::move(kernel));
      } else if (depends_on_position(kernel)) {
        auto [alone, rest] = split_head(plan_, kernel, kernel.domain.channels_last(), kernel.label);
        add_phases(alone, axes, {});
        kernels_.push_back(std::move(rest));
      } else {
        add_phases(kernel, axes, {});
      }
    }
    plan_.kernels = std::move(kernels_);
  }

 private:
  // The phases along each spatial axis, if the kernel is a strided input gradient that gains by them.
  std::vector<std::vector<Phase>> axes_of(const Kernel& kernel) const {
    const auto* conv = kernel.head ? std::get_if<Conv>(&kernel.head->op) : nullptr;
    if (!conv || conv->role != ConvRole::input_grad || kernel.domain.size() == 0) return {};
    const Operand& w = kernel.head->operands[1];
    if (w.shape.size() == 0) return {};
    // Depthwise kernels read dy once for all phases, of up to 8 filters for a channel.
    if (!wherever_possible_ && conv->groups > 1 && w.shape[0] <= 8 * conv->groups && w.shape[1] == 1) return {};
    std::vector<std::vector<Phase>> axes;
    std::int64_t most = 1;
    for (int axis = 0; axis < kernel.domain.rank() - 2; ++axis) {
      axes.push_back(phases_of(kernel.domain[axis + 2], w.shape[axis + 2], conv->stride[at(axis)], conv->pad[at(axis)],
                               conv->dilation[at(axis)]));
      most *= std::ssize(axes.back());
    }
    return most > 1 && most <= kMostPhases && (wherever_possible_ || pay(kernel, most)) ? axes : decltype(axes){};
  }

  // A kernel takes some 2 us, in which portable ones make about 2^25 products of floats.
  static bool pay(const Kernel& kernel, std::int64_t phases) {
    const Shape& w = kernel.head->operands[1].shape;
    const std::int64_t products = kernel.domain.size() / kernel.domain[1] * (w.size() / phases);
    return products >= std::int64_t{1} << 25;
  }

  void add_phases(const Kernel& kernel, const std::vector<std::vector<Phase>>& axes, std::vector<Phase> chosen) {
    if (chosen.size() == axes.size()) return add(kernel, chosen);
    for (const Phase& phase : axes[chosen.size()]) {
      chosen.push_back(phase);
      if (phase.taps > 0) {
        add_phases(kernel, axes, chosen);
      } else {  // whatever the phases along further axes are
        std::vector<Phase> all = chosen;
        for (int axis = static_cast<int>(all.size()) + 2; axis < kernel.domain.rank(); ++axis)
          all.push_back({.pixels = kernel.domain[axis]});
        add(kernel, all);
      }
      chosen.pop_back();
    }
  }

  void add(Kernel kernel, const std::vector<Phase>& phases) {
    std::vector<std::int64_t> sizes{kernel.domain[0], kernel.domain[1]};
    for (const Phase& phase : phases) sizes.push_back(phase.pixels);
    kernel.domain = Shape(sizes);
    for (Access& load : kernel.loads) load = at_phases(load, phases);
    for (Access& store : kernel.stores) store = at_phases(store, phases);
    if (std::ranges::all_of(phases, [](const Phase& phase) { return phase.taps > 0; }))
      narrow_head(*kernel.head, phases);
    else
      drop_head(kernel);
    kernels_.push_back(std::move(kernel));
  }

  static void narrow_head(Head& head, const std::vector<Phase>& phases) {
    auto& conv = std::get<Conv>(head.op);
    Operand& w = head.operands[1];
    std::vector<std::int64_t> sizes{w.shape[0], w.shape[1]};
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const Phase& phase = phases[i];
      conv.stride[i] = 1, conv.pad[i] = phase.pad, conv.dilation[i] = phase.dilation;
      w.offset += phase.first_tap * w.strides[i + 2];
      w.strides[i + 2] *= phase.tap_step;
      sizes.push_back(phase.taps);
    }
    w.shape = Shape(sizes);
  }

  static void drop_head(Kernel& kernel) {
    kernel.head.reset();
    for (Stage& stage : kernel.stages)
      for (Instruction& in : stage.body)
        if (in.primitive == Primitive::head) in = {.primitive = Primitive::constant, .type = in.type};
    kernel.label += " without taps";
  }

  static constexpr std::int64_t kMostPhases = 64;

  Plan& plan_;
  const bool wherever_possible_;
  std::vector<Kernel> kernels_;
};

}  // namespace

void lower_strided_input_grads(Plan& plan, bool wherever_possible) { PhaseLowering{plan, wherever_possible}(); }

}  // namespace nixie::cuda
