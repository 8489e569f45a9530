// Literal: an array written as nested braces of C++ numbers, {{1, 2}, {3, 4}}.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <vector>

#include "nixie/core/base/array.h"

namespace nixie {

/// A number, or a list of Literals of one shape. Fractions are f32, integers i32 (of 64 bits i64), bools bool; of
/// several types the array has the one that arithmetic on them gives.
class Literal {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number> Literal(Number value)
      : values_{static_cast<double>(value)},
        dtype_(std::is_floating_point_v<Number>                    ? Dtype::f32
               : std::is_same_v<Number, bool>                      ? Dtype::boolean
               : sizeof(Number) < 4 || std::is_same_v<Number, int> ? Dtype::i32
                                                                   : Dtype::i64) {}
  /// Throws if the shapes differ.
  Literal(std::initializer_list<Literal> rows);
  Array array() const;

 private:
  std::vector<double> values_;  // row-major
  Shape shape_;
  Dtype dtype_;
};

}  // namespace nixie
