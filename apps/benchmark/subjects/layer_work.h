// LayerWork: one contraction by itself, on its own random operands.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/core/state/variable.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {

/// Sampled elements of a result and of the reference.
struct LayerCheck {
  Deviation deviation = {};
  std::vector<std::int64_t> positions = {};
  std::vector<ExactSum> expected = {};
};

/// The operands and the result are Variables, with the memory layout of a step.
class LayerWork {
 public:
  /// `node`: a product or a convolution in any role. Throws a usage Error for operands that are views other than
  /// transposed matrices.
  LayerWork(Backend& backend, const Tensor& node, const PrecisionTraits& precision);

  /// Compiles it, without making the operands.
  const Plan& plan() { return step_.plan({}); }
  /// The algorithm of each kernel (Executable::algorithms).
  std::vector<std::string> algorithms() { return step_.algorithms({}); }
  /// Runs once and compares this many elements with the reference.
  LayerCheck compare(std::int64_t samples);
  /// The time per run, over as many consecutive runs as the clock's resolution needs.
  Timing time(int runs);
  /// As stored.
  std::vector<ContractionPeer::Operand> operands();
  /// Operands read once and the result written once.
  double bytes() const;

 private:
  struct Side {
    Shape shape;  ///< before it is transposed
    bool transposed;
    Variable variable;
  };
  Side side(const Tensor& x, const char* name) const;

  Backend& backend_;
  Tensor node_;
  PrecisionTraits precision_;
  Side a_, b_;
  Variable result_;
  Step step_;
};

/// `output`, `input_grad` or `filter_grad`.
const char* role_name(ConvRole role);

/// The request to the peer (apps/peers/torch_contractions.py).
nlohmann::json contraction_request(const Tensor& node);

}  // namespace nixie::benchmark
