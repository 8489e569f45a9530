// Splits f32 operands of convolutions and matrix products into planes of scaled halves.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The planes of one value.
struct Planes {
  Operand high = {};
  std::optional<Operand> low = {};
  int scales = 0;  ///< the slot of the scale and its inverse
};

/// Makes planes, shared by heads that read the same operand until it is written again.
class Splitter {
 public:
  explicit Splitter(Grouping& grouping) : grouping_(grouping) {}
  /// The planes of operand 0 or 1 of an f32 convolution or matrix product, in the form of `conv`; adds the kernels that
  /// fill them if there are none yet.
  Planes planes_of(const Kernel& kernel, int operand, const ConvProblem& conv, std::vector<Kernel>& added);
  void forget_copies_of_what_is_written(const Kernel& kernel);

 private:
  struct Copy {
    Operand from = {};
    int planes = 0;
    bool by_rows = false;
    std::array<int, 2> stride = {}, pad = {};  // those for which rows are packed
    Planes made = {};
  };
  Planes planes_of_matrix(const Operand& from, int count, std::vector<Kernel>& added);
  Planes planes_of_layer(const Kernel& kernel, int operand, const ConvProblem& conv, std::vector<Kernel>& added);

  Grouping& grouping_;
  std::vector<Copy> copies_;
};

/// Multiplies the result of a kernel's head by the inverse scales of both operands.
void unscale_head(Kernel& kernel, const Planes& first, const Planes& second);

}  // namespace nixie::cuda
