// Splits f32 operands of convolutions and matrix products into planes of scaled halves.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The planes of one value.
struct Planes {
  Operand high = {};
  std::optional<Operand> low = {};
  int scales = 0;          ///< the slot [2, channels] of the scales and their inverses
  std::int64_t count = 0;  ///< of scales
};

/// Both operands of a head as planes, and the inverse scales by which the head's result is multiplied.
struct SplitOperands {
  std::array<Planes, 2> planes = {};
  std::vector<Access> inverses = {};  ///< over the kernel's domain
};

/// Makes planes, shared by heads that read the same operand until it is written again.
class Splitter {
 public:
  explicit Splitter(Grouping& grouping) : grouping_(grouping) {}
  /// The planes of the operands of an f32 convolution or matrix product, in the form of `conv`; adds the kernels that
  /// fill them if there are none yet.
  SplitOperands split(const Kernel& kernel, const ConvProblem& conv, std::vector<Kernel>& added);
  void forget_copies_of_what_is_written(const Kernel& kernel);

 private:
  // The source of planes, and how they are made.
  struct Source {
    Operand from = {};
    int planes = 0;
    bool by_rows = false;
    std::array<int, 2> stride = {}, pad = {};  // those for which rows are packed
    int taken_up = -1;                         // filters: the slot of the images' scales
    ConvRole role = ConvRole::output;          // filters: of the product
    bool operator==(const Source&) const = default;
  };
  struct Copy {
    Source source = {};
    Planes made = {};
  };
  Planes images(const Source& source, const ConvProblem& layer, std::vector<Kernel>& added);
  Planes filters(const Source& source, const ConvProblem& layer, const Planes& images, std::vector<Kernel>& added);
  const Planes* made(const Source& source) const;

  Grouping& grouping_;
  std::vector<Copy> copies_;
};

/// Multiplies the result of a kernel's head by what these accesses load.
void scale_head(Kernel& kernel, const std::vector<Access>& factors);

}  // namespace nixie::cuda
