// FormatStudy: what other number formats would have made of the operands of a run's products, without storing them.
//
//   FormatStudy study({format_named("e4m3"), format_named("e5m2")}, {.scale = "tensor"});
//   {
//     const OperandScope scope(study.rule());
//     trainer.train();       // as it would train without: operands stay as they are
//   }
//   for (const OperandErrors& row : study.results()) ...
#pragma once

#include <string>
#include <vector>

#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/state/variable.h"
#include "nixie/models/format_rule.h"

namespace nixie {

/// What one format would have done to one operand; means over the steps.
struct FormatError {
  double error = 0;      ///< sum (x - rounded x)^2 / sum x^2
  double saturated = 0;  ///< share of the elements that are beyond its largest number
  double lost = 0;       ///< share of the elements other than 0 that become 0
};

/// One operand of a layer's products.
struct OperandErrors {
  std::string layer;
  OperandRole role = OperandRole::weights;
  double largest = 0;                     ///< of all steps' magnitudes
  double magnitude = 0, zeros = 0;        ///< the mean magnitude and the share of zeros; means over the steps
  double not_finite = 0;                  ///< the share of infinities and NaN
  std::vector<FormatError> formats = {};  ///< in the study's order
};

class FormatStudy {
 public:
  /// Formats with a scale for each group (core/ops/formats.h); channels and blocks are along the axes that FormatRule
  /// says. A layer's several products count together.
  FormatStudy(std::vector<Format> formats, FormatRule scaling);

  /// Gives every operand back as it is. Keep the study until the Steps that were traced with it have run.
  OperandRule rule();
  const std::vector<Format>& formats() const { return formats_; }
  /// In the order in which the operands were first met; layers that no step has run are left out.
  std::vector<OperandErrors> results() const;

 private:
  struct Entry {
    std::string layer;
    OperandRole role;
    Variable sums, largest;
  };
  Tensor measure(const Tensor& x, OperandRole role, const std::string& layer);
  Entry& entry(OperandRole role, const std::string& layer);

  std::vector<Format> formats_;
  FormatRule scaling_;
  std::vector<Entry> entries_;
};

/// For each layer the narrowest formats (fewest bits; of equally wide ones the smaller error) whose errors are at most
/// `threshold`; "" where none is. Layers that agree with most are one rule, `*`, at the end.
std::vector<FormatRule> narrowest_formats(const FormatStudy& study, const std::vector<OperandErrors>& results,
                                          double threshold);

}  // namespace nixie
