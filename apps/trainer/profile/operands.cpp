// Values that repeat are converted once and copied.
#include "nixie/apps/trainer/profile/operands.h"

#include <algorithm>
#include <cstring>

#include "nixie/core/base/random.h"

namespace nixie {
namespace {

constexpr std::int64_t kDrawn = 4099;  // a prime, so that no row of a matrix equals another

Array repeated(const Array& few, const Shape& shape) {
  Array values(few.dtype(), shape);
  const std::int64_t bytes = values.size_bytes();
  for (std::int64_t done = 0; done < bytes; done += few.size_bytes())
    std::memcpy(values.bytes() + done, few.bytes(), static_cast<std::size_t>(std::min(few.size_bytes(), bytes - done)));
  return values;
}

}  // namespace

Variable operand(const std::string& name, Dtype dtype, const Shape& shape, std::function<Array()> values) {
  return Variable(std::make_shared<VariableState>(
      VariableState{.name = name, .shape = shape, .dtype = dtype, .trainable = false, .init = std::move(values)}));
}

Variable noise_operand(const std::string& name, Dtype dtype, const Shape& shape) {
  return operand(name, dtype, shape, [=] {
    return repeated(Init::uniform(-1, 1).make({kDrawn}, random_stream(1, name)).to(dtype), shape);
  });
}

Variable result_operand(const std::string& name, Dtype dtype, const Shape& shape) {
  return operand(name, dtype, shape, [=] { return Array(dtype, shape); });
}

}  // namespace nixie
