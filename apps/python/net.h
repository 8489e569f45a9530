// A net of Python: a Model and the seed that its dropout draws by.
#pragma once

#include "nixie/apps/python/arguments.h"
#include "nixie/models/model.h"

namespace nixie::python {

struct Net {
  Model model;
  std::uint64_t seed;
};
template <>
inline constexpr bool is_class_of_python<Net> = true;

}  // namespace nixie::python
