// Rounding: how far from its value in double a sum of products may be, from the number and the size of its terms.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace nixie::benchmark {

/// A sum in double, with what its rounding errors grow with.
struct ExactSum {
  double value = 0, squares = 0;  ///< of the terms, and of their squares
  std::int64_t terms = 0;
  void add(double term) {
    value += term;
    squares += term * term;
    ++terms;
  }
};

/// Unit roundoffs (2^-p for p bits) of where a precision rounds. Rounding errors are as good as independent, so n of
/// them add up like a random walk, to sqrt(n) times one (Higham and Mary 2019):
///   result       |value|                            the result is stored
///   operand      |value| + 4 norm                   each operand may be rounded once more: Winograd's transforms, tf32
///   accumulator  4 sqrt(n) (|value| + norm)         n partial sums, which grow to |value| or wander about by norm
/// where norm is the Euclidean norm of the terms and 4 leaves a chance of 1e-9 where errors are uniform. A kernel adds
/// longer sums in parts, so that n is at most 65,536.
struct Rounding {
  double operand, accumulator, result;
  double smallest = 0;  ///< half the distance of subnormal results

  double allowed(const ExactSum& sum) const {
    constexpr double kDeviations = 4, kLongest = 65536;
    const double size = std::abs(sum.value), norm = std::sqrt(sum.squares),
                 steps = std::sqrt(std::min(static_cast<double>(sum.terms), kLongest));
    return result * size + operand * (size + kDeviations * norm) + accumulator * kDeviations * steps * (size + norm) +
           smallest;
  }
};

}  // namespace nixie::benchmark
