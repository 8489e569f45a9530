// The properties of a precision: the types of data and operands, and the error bounds of sums of products, from the
// number and the size of their terms.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "nixie/core/step.h"

namespace nixie::benchmark {

/// A sum in double, with the quantities that determine its rounding errors.
struct ExactSum {
  double value = 0, squares = 0;  ///< of the terms, and of their squares
  double low = 0, high = 0;       ///< of the partial sums, with the terms in memory order
  std::int64_t terms = 0;
  double moved = 0;  ///< how far rounding may have moved the terms themselves, all to one side
  void add(double term) {
    value += term;
    squares += term * term;
    low = std::min(low, value);
    high = std::max(high, value);
    ++terms;
    part_.add(term);
    if (part_.terms == kPart) cut_of_parts_ += part_.cut(), part_ = {};
  }

  /// The truncation error of tensor cores, in units of the last place of 1. Each step aligns 16 products and the sum so
  /// far and truncates each of them at the last place of the largest, towards zero: a product loses half a unit on
  /// average. So the error is proportional to the difference of the numbers of positive and negative terms, times the
  /// size of the sum so far. Sums restart after as many terms as a kernel adds in one accumulator.
  double cut() const { return cut_of_parts_ + part_.cut(); }

 private:
  static constexpr std::int64_t kPart = 32768;
  struct Part {
    double value = 0, low = 0, high = 0;
    std::int64_t terms = 0, signs = 0;
    void add(double term) {
      value += term;
      low = std::min(low, value);
      high = std::max(high, value);
      ++terms;
      signs += (term > 0) - (term < 0);
    }
    double cut() const {
      constexpr double kAtATime = 16;
      return (static_cast<double>(std::abs(signs)) + static_cast<double>(terms) / kAtATime) * (high - low);
    }
  };
  Part part_;
  double cut_of_parts_ = 0;
};

/// The unit roundoffs (2^-p for p bits) of a precision, and their effect on a sum. Errors of rounding to
/// nearest are nearly independent, so n of them add up like a random walk, to sqrt(n) times one (Higham and Mary
/// 2019); 4 standard deviations leave a chance of 1e-9. Tensor cores add 16 products at a time and truncate, so that
/// their errors have one sign and accumulate.
///   result       |value|                       the result is stored
///   operand      |value| + 4 norm              each operand may be rounded once more: Winograd's transforms, tf32
///   accumulator  max(4 sqrt(n), n / 16) range  the sum of any part of the terms is within the range of partial sums
///   product      ExactSum::cut                 tensor cores cut products off
/// where norm is the Euclidean norm of the terms. A kernel adds longer sums in parts, so that n is at most 65,536.
struct Rounding {
  double operand, accumulator, result;
  double smallest = 0;  ///< half the spacing of subnormal results
  double product = 0;

  double allowed(const ExactSum& sum) const {
    constexpr double kDeviations = 4, kAtATime = 16, kLongest = 65536;
    const double size = std::abs(sum.value), norm = std::sqrt(sum.squares), range = sum.high - sum.low,
                 n = std::min(static_cast<double>(sum.terms), kLongest);
    return result * size + operand * (size + kDeviations * norm) +
           accumulator * std::max(kDeviations * std::sqrt(n), n / kAtATime) * range + product * sum.cut() + smallest +
           sum.moved;
  }
};

struct PrecisionTraits {
  std::string name;  ///< `fp16`
  PrecisionPolicy policy;
  std::string nervana_dtype;  ///< `float16`
  Dtype data;                 ///< storage type of random data, output gradients and gradients
  Dtype operands;             ///< type of the operands of products
  double element_bound;       ///< largest max|diff| / mean|ref| of single elements: nervanagpu's, if it has one
  Rounding rounding;          ///< of sums of products
};

/// Throws a usage Error for an unknown name (core/passes/precision.h).
PrecisionTraits precision_named(const std::string& name);

}  // namespace nixie::benchmark
