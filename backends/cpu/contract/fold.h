// Folds: the reductions of scatters and scans, value by value, in the values' order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "nixie/core/graph/op.h"

namespace nixie::cpu {

/// Bits as the numbers that they are; other types as they are.
template <class T>
auto number_of(T value) {
  if constexpr (std::is_unsigned_v<T>)
    return static_cast<std::make_signed_t<T>>(value);
  else
    return value;
}

/// The least (greatest) number, which nothing is below (above).
template <class T>
T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return static_cast<T>(std::numeric_limits<std::make_signed_t<T>>::min());
}
template <class T>
T highest() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::infinity();
  else
    return static_cast<T>(std::numeric_limits<std::make_signed_t<T>>::max());
}

template <class T>
struct SumFold {
  T value{};
  void add(T x) { value += x; }
};
template <class T>
struct ProdFold {
  T value{1};
  void add(T x) { value *= x; }
};
/// The largest or smallest value; NaN wins.
template <class T, bool largest>
struct ExtremeFold {
  T value = largest ? lowest<T>() : highest<T>();
  void add(T x) {
    const auto a = number_of(x), b = number_of(value);
    if (b == b && (a != a || (largest ? a > b : a < b))) value = x;
  }
};
/// Its position. Ties go to the smallest position.
template <class T, bool largest>
struct BestFold {
  T best{};
  std::int64_t value = -1;
  void add(T x, std::int64_t position) {
    const auto a = number_of(x), b = number_of(best);
    const bool same = a == b || (a != a && b != b), better = b == b && (a != a || (largest ? a > b : a < b));
    if (value < 0 || better || (same && position < value)) best = x, value = position;
  }
};

/// Calls `function` with a new fold of a kind that folds values.
template <class T, class Function>
void visit_fold(ReduceKind kind, Function&& function) {
  switch (kind) {
    case ReduceKind::sum:
      return function(SumFold<T>{});
    case ReduceKind::prod:
      return function(ProdFold<T>{});
    case ReduceKind::max:
      return function(ExtremeFold<T, true>{});
    case ReduceKind::min:
      return function(ExtremeFold<T, false>{});
    case ReduceKind::argmax:
    case ReduceKind::argmin:
    case ReduceKind::mean:
    case ReduceKind::m2:
      break;
  }
  fail(Fault::usage, "cpu: ", to_string(kind), " folds no values; this is a bug in nixie");
}

}  // namespace nixie::cpu
