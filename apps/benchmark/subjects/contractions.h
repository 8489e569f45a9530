// The contractions of a graph: every product and convolution with its layer, its role and its floating point
// operations.
#pragma once

#include <string>
#include <vector>

#include "nixie/apps/trainer/profile/work_of.h"
#include "nixie/core/state/autograd.h"

namespace nixie::benchmark {

/// What a contraction computes for its layer.
enum class Role : std::uint8_t { fprop, input_grad, filter_grad };
std::string_view to_string(Role role);

struct Contraction {
  Tensor node;
  std::string layer = {};  ///< the name of its weight without `.weight`; empty where it has none
  Role role = Role::fprop;
};

/// The contractions that a net's output and its gradients consist of, in the order they are computed.
std::vector<Contraction> contractions_of(const Tensor& output, const std::vector<Gradient>& gradients);

/// Of a net: fprop, and all that its graph holds.
struct FlopCount {
  double fprop = 0, executed = 0;
  /// nervanagpu's and convnet-benchmarks' convention: bprop is twice fprop, the first layer's input gradient included
  /// although nobody computes it.
  double counted() const { return 3 * fprop; }
};
FlopCount count_flop(const std::vector<Contraction>& contractions);

}  // namespace nixie::benchmark
