#include "nixie/models/io/array_values.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace nixie {

bool is_finite(const Array& array) {
  return visit_dtype(array.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) return true;
    using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const std::span<const T> values = array.data<T>();
    return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(static_cast<Real>(value)); });
  });
}

std::string range_fault(const Variable& variable, const Array& array) {
  if (!variable.range()) return {};
  const auto [least, most, counts_steps] = *variable.range();
  return visit_dtype(array.dtype(), [&](auto type) -> std::string {
    for (const auto value : array.data<decltype(type)>())
      if (const auto number = convert<double>(value); !(number >= least && number <= most))
        return fmt::format("holds {}, expected {} to {}", number, least, most);
    return {};
  });
}

}  // namespace nixie
