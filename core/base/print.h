// Prints arrays as numpy does.
#pragma once

#include <iosfwd>
#include <string>

#include "nixie/core/base/array.h"

namespace nixie {

/// As numpy prints it, `[1.5 2.5]`: eight digits, lines of 75 characters; arrays of more than 1000 elements show the
/// first and last three along each axis.
std::string to_string(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);

}  // namespace nixie
