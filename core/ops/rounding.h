// The formulas that round a number to a format.
#pragma once

#include <string>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/formats.h"

namespace nixie {

/// x rounded by arithmetic of `precision` bits (24: f32, 53: f64), exact in it; `random` as quantized has it, else
/// null.
Symbol rounded(Symbol x, const Format& format, Rounding rounding, int precision, const Symbol* random);
/// The same to nearest in f32, in few instructions, but for the sign of 0.
Symbol nearest_f32(Symbol x, const Format& format);
/// A text that tells formats apart.
std::string format_key(const Format& format);

}  // namespace nixie
