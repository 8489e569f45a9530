// A net of Python: a Model and the seed that its dropout draws by.
#pragma once

#include "nixie/models/model.h"

namespace nixie::python {

struct Net {
  Model model;
  std::uint64_t seed;
};

}  // namespace nixie::python
