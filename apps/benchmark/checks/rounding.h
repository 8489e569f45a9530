// Rounding: how far from its value in double a sum of products may be, from the number and the size of its terms.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace nixie::benchmark {

/// A sum in double, with what its rounding errors grow with.
struct ExactSum {
  double value = 0, squares = 0;  ///< of the terms, and of their squares
  double low = 0, high = 0;       ///< of the partial sums; the terms come in the order in which they lie in memory
  std::int64_t terms = 0;
  void add(double term) {
    value += term;
    squares += term * term;
    low = std::min(low, value);
    high = std::max(high, value);
    ++terms;
    part_.add(term);
    if (part_.terms == kPart) cut_of_parts_ += part_.cut(), part_ = {};
  }

  /// How much tensor cores may cut off, in units of the last place of 1. Each step aligns 16 products and the sum so
  /// far and cuts every one of them off at the last place of the largest, towards zero: products lose their sign times
  /// half a unit on average. So what is lost is of the difference of positive and negative terms, however they add up,
  /// times the size of the sum so far; of this sums start anew after as many terms as a kernel adds in one accumulator.
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

/// Unit roundoffs (2^-p for p bits) of where a precision rounds, and what they may do to a sum. Errors of rounding to
/// nearest are as good as independent, so n of them add up like a random walk, to sqrt(n) times one (Higham and Mary
/// 2019); 4 of its deviations leave a chance of 1e-9. Tensor cores add 16 products at a time and cut off, so that their
/// errors have one sign and add up.
///   result       |value|                       the result is stored
///   operand      |value| + 4 norm              each operand may be rounded once more: Winograd's transforms, tf32
///   accumulator  max(4 sqrt(n), n / 16) range  the sum of any part of the terms is within the range of partial sums
///   product      ExactSum::cut                 tensor cores cut products off
/// where norm is the Euclidean norm of the terms. A kernel adds longer sums in parts, so that n is at most 65,536.
struct Rounding {
  double operand, accumulator, result;
  double smallest = 0;  ///< half the distance of subnormal results
  double product = 0;

  double allowed(const ExactSum& sum) const {
    constexpr double kDeviations = 4, kAtATime = 16, kLongest = 65536;
    const double size = std::abs(sum.value), norm = std::sqrt(sum.squares), range = sum.high - sum.low,
                 n = std::min(static_cast<double>(sum.terms), kLongest);
    return result * size + operand * (size + kDeviations * norm) +
           accumulator * std::max(kDeviations * std::sqrt(n), n / kAtATime) * range + product * sum.cut() + smallest;
  }
};

}  // namespace nixie::benchmark
