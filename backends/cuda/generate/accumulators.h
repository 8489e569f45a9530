// Prints the accumulators of a stage's reductions, for reduce.cuh.
#pragma once

#include <string>
#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// The accumulator of one reduction. Mean and m2 of one register share one.
struct Accumulator {
  std::string type;          ///< "Sum<f32>"; empty: an earlier reduction has declared it
  std::string result;        ///< the member that is the result
  int member = 0;            ///< its number
  int bytes = 0, words = 0;  ///< bytes in memory; registers while values are added
  bool doubles = false;      ///< moments of doubles, which are aligned to 8 bytes
};
/// The accumulators of a stage, one for each reduction.
std::vector<Accumulator> accumulators_of(const Stage& stage);

struct AccumulatorCode {
  std::string members;  ///< of a stage's struct Accumulators
  std::string merge;    ///< body of its merge(next)
  std::string saw;      ///< body of its saw(seen), which sets the count of accumulators that do not count by themselves
  std::string finish;   ///< sets `carried` from `accumulators`
  int bytes = 0;        ///< the most bytes in memory
  int words = 0;        ///< registers while values are added
};
AccumulatorCode accumulator_code(const Stage& stage);
/// The source of a struct of this name that holds a stage's accumulators.
std::string accumulators_struct(const Stage& stage, const std::string& name);

}  // namespace nixie::cuda
