// NonFinite: where a computation first makes a value that is not finite, and what to do about it.
#pragma once

#include <functional>
#include <string>

#include "nixie/core/step.h"
#include "nixie/data/loader.h"

namespace nixie {

struct NonFinite {
  static constexpr const char* kLoss = "the loss";

  /// `the output of 1 (embedding) for sample 11 of the test half`; "" where it is not known.
  std::string where = {};
  /// The advice where samples are the cause; "" where they are not known to be.
  std::string remedy = {};

  /// Why it is not known, where the search itself failed; else "".
  std::string failure = {};

  /// `; the first to be so is WHERE` where that says more than that the loss is so, or why it is not known; else "".
  std::string text() const {
    if (!failure.empty()) return "; where that began was not found: " + failure;
    return where.empty() || where == kLoss ? "" : "; the first to be so is " + where;
  }
};

/// u8 [N]: whether the values of each sample are all finite.
Tensor finite_samples(const Tensor& values);

/// The forward pass of a batch: hands each layer's result on (Pass::observe), and returns the loss.
using WatchedForward = std::function<Tensor(const Inputs& in, const std::function<void(const Tensor&)>& observe)>;

/// Looks into the forward pass of a batch, by running it on its inputs: at the images, the layers' outputs and the
/// loss. Names the sample where it is the cause or others are finite; `part` says what of the data the batch is from,
/// and is "" for a sample whose name the message has already. Finds nothing where all is finite.
NonFinite first_non_finite(Backend& backend, PrecisionPolicy precision, const Batch& batch, const std::string& part,
                           const std::map<std::string, Tensor>& inputs, const WatchedForward& forward);

}  // namespace nixie
