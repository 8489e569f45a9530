// The contractions of a graph: every product and convolution
// with its layer, its role and its floating point operations.
#pragma once

#include <string>
#include <vector>

#include "nixie/apps/trainer/profile/work_of.h"
#include "nixie/core/state/autograd.h"

namespace nixie::benchmark {

/// The role of a contraction in its layer.
enum class Role : std::uint8_t { fprop, input_grad, filter_grad };
std::string_view to_string(Role role);

struct Contraction {
  Tensor node;
  std::string layer = {};  ///< the name of its weight without `.weight`; empty if it has none
  Role role = Role::fprop;
  /// The operand of a filter gradient that is the gradient of the layer's output. In a transposed convolution it is
  /// the second, as its filter gradient is that of the convolution the other way.
  int output_grad = 0;
};

/// The contractions of a net's output and gradients, in order of computation.
std::vector<Contraction> contractions_of(const Tensor& output, const std::vector<Gradient>& gradients);

/// The FLOP of a net: of fprop, and of its whole graph.
struct FlopCount {
  double fprop = 0, executed = 0;
  /// nervanagpu's and convnet-benchmarks' convention: bprop is twice fprop, including the first layer's input gradient,
  /// although it is not computed.
  double counted() const { return 3 * fprop; }
};
FlopCount count_flop(const std::vector<Contraction>& contractions);

}  // namespace nixie::benchmark
