// ArrayForm: the type and shape of an array, without its elements.
#pragma once

#include <map>
#include <string>

#include "nixie/core/base/dtype.h"
#include "nixie/core/base/shape.h"

namespace nixie {

/// The type and shape of an array.
struct ArrayForm {
  Dtype dtype = Dtype::f32;
  Shape shape = {};
  bool operator==(const ArrayForm&) const = default;
};
using ArrayForms = std::map<std::string, ArrayForm>;

}  // namespace nixie
