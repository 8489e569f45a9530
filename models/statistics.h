// Statistics: magnitudes, zeros and overflows of a step's tensors, summed up on the device while the step runs.
//
//   Statistics statistics({.shadow = {"e4m3", "int8"}});
//   Step step(backend, [&](const Inputs& in) {
//     const OperandScope scope(statistics.operands());  // weights, activations and gradients of every product
//     const Tensor loss = net(in["x"], pass);
//     statistics.observe(hidden, "hidden", "activations");  // any tensor
//     optimizer.minimize(loss);
//     statistics.record(pass.step);  // last
//     return Outputs{};
//   });
//   for (const TensorStatistics& row : statistics.results()) ...
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/state/variable.h"
#include "nixie/models/format_rule.h"
#include "nixie/models/statistics_options.h"

namespace nixie {

/// What a step measures.
enum class Measured : std::uint8_t { nothing, figures, histograms };
/// What the step that follows `step` others does. Histograms come with figures.
Measured measured_after(const StatisticsOptions& options, std::int64_t step);

/// What one format would have made of a tensor; means over the times that it was measured.
struct FormatError {
  double error = 0;      ///< sum (x - rounded x)^2 / sum x^2
  double saturated = 0;  ///< share of the elements that are beyond its largest number
  double lost = 0;       ///< share of the elements other than 0 that become 0
};

/// One role of a layer, over the steps since the last `clear`.
struct TensorStatistics {
  std::string layer, role;  ///< `features.0`, `weights`
  // Counts are exact, and the same on every backend for equal values.
  std::int64_t elements = 0;  ///< of all tensors that were measured
  std::int64_t zeros = 0;
  std::int64_t saturated = 0;  ///< at the largest number of their format, or beyond it
  std::int64_t infinite = 0, nan = 0;
  double largest = 0;                     ///< of the finite magnitudes
  double mean = 0;                        ///< of the finite magnitudes; the others count as 0
  std::int64_t first_overflow = 0;        ///< the step, from 1, of the first infinity or NaN; 0: there is none
  std::vector<FormatError> formats = {};  ///< in the order of the options
  /// Counts of a sample: how many finite magnitudes are in [2^(i + kLowestExponent), 2^(i + kLowestExponent + 1)); the
  /// first and the last hold what is beyond. Empty: no step had a histogram.
  std::vector<std::int64_t> exponents = {};

  static constexpr int kLowestExponent = -44, kExponents = 64;
};

/// The first row, in the order in which a step computes, of the first step that had an infinity or NaN; null: none had.
const TensorStatistics* first_overflow(const std::vector<TensorStatistics>& rows);

class Statistics {
 public:
  static constexpr std::size_t kMostFormats = 8;
  /// The most elements of a tensor that histograms and shadow formats see (and one line along the axis of blocks).
  static constexpr std::int64_t kSampled = 32768;

  /// Values are measured as the precision stores them, saturation by the formats that the net declares, if it does
  /// (Model::formats). Throws for an unknown format, and for more than kMostFormats.
  explicit Statistics(const StatisticsOptions& options, PrecisionPolicy precision = default_precision(),
                      std::optional<OperandFormats> formats = {});

  // In a Step's body:
  /// Measures the operands of products and gives them back as they are; also begins a trace.
  OperandRule operands(Measured what = Measured::histograms);
  /// Measures any floating tensor; those of one layer and role count together.
  void observe(const Tensor& x, const std::string& layer, const std::string& role);
  /// Measures the change of a parameter since it had the value `before`: the role `updates` of its layer.
  void observe_update(const Variable& parameter, const Tensor& before);
  /// Adds up what was measured. `step` (i32 scalar): the steps before. Call it behind all other sets: a step that is
  /// rolled back is measured, too.
  void record(const Tensor& step);

  /// In the order in which a step first computed them; tensors that no step measured are left out.
  std::vector<TensorStatistics> results() const;
  void clear();
  const std::vector<Format>& formats() const { return formats_; }
  const StatisticsOptions& options() const { return options_; }

 private:
  /// A tensor that is measured: the role of a layer, and its place among all that a step measures.
  struct Key {
    std::string layer, role;
    std::size_t place = 0;
    bool operator==(const Key&) const = default;
  };
  /// What a trace measures of it. Reduced values keep all axes, so that the kernel that reduces makes them.
  struct Observation : Key {
    std::int64_t elements = 0;
    std::vector<Tensor> counts = {}, means = {};
    std::vector<Tensor> errors = {}, beyond = {}, vanished = {};  // of each format: sums of squares, and shares
    Tensor largest = {}, exponents = {};
  };
  /// Over the steps; a row for each observation.
  struct Totals {
    Variable counts, elements, largest, mean, first, exponents;
    Variable errors, beyond, lost;  // a column for each format
  };

  /// `stored`: the type of x where it is stored; `axes`: whose channels the shadow formats' scales take; `saturated`:
  /// flags, or nothing for the stored type's.
  void measure(const Tensor& x, Dtype stored, const std::string& layer, const std::string& role, OperandRole axes,
               const Tensor& saturated = {});
  void measure_formats(const Tensor& x, OperandRole axes, Observation& now) const;
  /// Whether no format can saturate but for infinities: its scale is that of the largest number.
  bool fits() const { return options_.scale == "tensor" || options_.scale == "channel"; }
  void record_formats(const std::vector<Observation>& now, const Tensor& infinite);
  void make_totals(const std::vector<Observation>& now);

  StatisticsOptions options_;
  std::vector<Format> formats_;
  FormatRule scaling_;
  Dtype stored_;  // of the operands of products
  std::optional<OperandFormats> declared_;
  Measured what_ = Measured::histograms;                         // by the present trace
  std::vector<Observation> observed_;                            // the same
  std::map<std::pair<std::string, std::string>, int> operands_;  // of each layer and role, the same
  std::vector<Key> keys_;                                        // of the totals' rows
  std::optional<Totals> totals_;                                 // none before the first trace
};

}  // namespace nixie
