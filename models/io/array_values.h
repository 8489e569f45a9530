// Checks the elements of an array from a file, or for one.
#pragma once

#include <string>

#include "nixie/core/state/variable.h"

namespace nixie {

/// Whether no element is infinite or NaN.
bool is_finite(const Array& array);

/// `holds -1, expected 0 to inf` for the first element outside the range that the Variable's owner states; "" if there
/// is none.
std::string range_fault(const Variable& variable, const Array& array);

}  // namespace nixie
