// Nested braces to an array.
#include "nixie/core/graph/literal.h"

#include <cmath>

namespace nixie {

Literal::Literal(std::initializer_list<Literal> rows) : dtype_(rows.size() == 0 ? Dtype::f32 : rows.begin()->dtype_) {
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(rows.size())};
  for (const Literal& row : rows) {
    const Shape& first = rows.begin()->shape_;
    check(row.shape_ == first, "a literal has rows of the shapes ", first, " and ", row.shape_, ", expected one shape");
    values_.insert(values_.end(), row.values_.begin(), row.values_.end());
    dtype_ = promote(dtype_, row.dtype_);
  }
  if (rows.size() > 0) sizes.insert(sizes.end(), rows.begin()->shape_.begin(), rows.begin()->shape_.end());
  shape_ = Shape(std::move(sizes));
}

Array Literal::array() const {
  if (dtype_ == Dtype::i64)
    for (const double value : values_)
      check(std::abs(value) <= 0x1p53, "a literal has the integer ", value,
            ", expected at most 2^53; Array::from takes larger ones");
  return Array::from(values_, shape_).to(dtype_);
}

}  // namespace nixie
