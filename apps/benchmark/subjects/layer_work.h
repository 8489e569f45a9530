// LayerWork: one contraction by itself, on random operands of its own.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/core/state/variable.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {

/// Sampled elements of a result beside the reference.
struct LayerCheck {
  Deviation deviation = {};
  std::vector<std::int64_t> positions = {};
  std::vector<ExactSum> expected = {};
};

/// The operands and the result are Variables, as activations and weights lie in memory inside a step.
class LayerWork {
 public:
  /// `node`: a product or a convolution in any role. Throws a usage Error for operands that are read in another order
  /// than matrices transposed.
  LayerWork(Backend& backend, const Tensor& node, const PrecisionTraits& precision);

  /// Compiles it and nothing more; the operands are not made.
  void compile() { step_.plan({}); }
  /// What runs each kernel (Executable::algorithms).
  std::vector<std::string> algorithms() { return step_.algorithms({}); }
  /// Runs once and compares this many elements with the reference.
  LayerCheck compare(std::int64_t samples);
  /// Per run, of as many in a row as the clock needs.
  Timing time(int runs);
  /// As stored.
  std::vector<ContractionPeer::Operand> operands();
  /// Operands read once and the result written once.
  double bytes() const;

 private:
  struct Side {
    Shape stored;
    bool transposed;
    Variable variable;
  };
  Side side(const Tensor& x, const char* name) const;
  /// Random values, once.
  void fill();

  Backend& backend_;
  Tensor node_;
  PrecisionTraits precision_;
  Side a_, b_;
  Variable result_;
  Step step_;
  bool is_filled_ = false;
};

/// What the peer has to compute (apps/peers/torch_contractions.py).
nlohmann::json contraction_request(const Tensor& node);

}  // namespace nixie::benchmark
