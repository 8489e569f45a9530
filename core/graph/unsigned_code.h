// UnsignedCode: u64 by instructions of i64, in whose registers its bits are.
#pragma once

#include <functional>

#include "nixie/core/graph/instruction.h"

namespace nixie {

/// The code of what differs between the two; sums, products, bits and equality are the same. Each member returns a
/// register.
class UnsignedCode {
 public:
  /// `emit` adds an instruction and returns its register.
  explicit UnsignedCode(std::function<int(Instruction)> emit) : emit_(std::move(emit)) {}
  /// The result of a step of a formula of u64.
  int step(const Instruction& in) const;
  /// A number of a plan; those below 0 wrap around.
  int scalar(int index) const;
  /// A number of i64, f32 or f64, saturating.
  int from(int reg, Dtype type) const;
  /// The number in i64, saturating, f32 or f64.
  int to(int reg, Dtype type) const;

 private:
  int number(double value, Dtype type = Dtype::i64) const {
    return emit_({.primitive = Primitive::constant, .type = type, .value = value});
  }
  int apply(Primitive primitive, int a, int b = -1, int c = -1, Dtype type = Dtype::i64) const {
    return emit_({.primitive = primitive, .type = type, .args = {a, b, c}});
  }
  int cast(int reg, Dtype type) const { return apply(Primitive::cast, reg, -1, -1, type); }
  int ordered(int reg) const { return apply(Primitive::bit_xor, reg, number(-0x1p63)); }
  int half(int reg) const;
  int compared(Primitive primitive, int a, int b) const { return apply(primitive, ordered(a), ordered(b)); }
  int quotient(int a, int b) const;

  std::function<int(Instruction)> emit_;
};

/// The number of i64 with the bits of a number of u64; those below 0 wrap around, those beyond saturate.
double bits_of_u64(double value);

}  // namespace nixie
