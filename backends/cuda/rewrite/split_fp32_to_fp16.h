// Planes of halves that hold f32 operands of convolutions, with a scale.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The copies of one value.
struct Planes {
  Operand high = {};
  std::optional<Operand> low = {};
  int scales = 0;  ///< a slot: the scale, and one over it
};

/// Makes planes, shared by the convolutions that read the same operand until that is written again.
class Splitter {
 public:
  explicit Splitter(Grouping& grouping) : grouping_(grouping) {}
  /// The planes of operand 0 or 1 of a convolution of f32, in the form of `conv`; the kernels that fill them are added
  /// where there are none yet.
  Planes planes_of(const Kernel& kernel, int operand, const ConvProblem& conv, std::vector<Kernel>& added);
  void forget_copies_of_what_is_written(const Kernel& kernel);

 private:
  struct Copy {
    Operand from;
    int planes;
    bool by_rows;
    std::array<int, 2> stride, pad;  // that rows are packed for
    Planes made;
  };
  Grouping& grouping_;
  std::vector<Copy> copies_;
};

/// Multiplies what a kernel's head gives by one over the scales of both operands.
void unscale_head(Kernel& kernel, const Planes& first, const Planes& second);

}  // namespace nixie::cuda
