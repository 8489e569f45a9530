// Orders by flipping the highest bit; halves what is divided, shifted or converted, so that its sign is clear.
#include "nixie/core/graph/unsigned_code.h"

#include <algorithm>

namespace nixie {

using enum Primitive;

double bits_of_u64(double value) { return value < 0x1p63 ? value : std::min(value - 0x1p64, -1.0); }

// Without the last bit, as a number that i64 holds.
int UnsignedCode::half(int reg) const {
  return apply(bit_and, apply(shift_right, reg, number(1)), number(0x1p63));  // which saturates to 2^63 - 1
}

// Twice the quotient of half of a is at most 1 too small. A divisor of 2^63 and more is in a once or not at all.
int UnsignedCode::quotient(int a, int b) const {
  const int twice = apply(shift_left, apply(div, half(a), b), number(1));
  const int least = apply(select, apply(less, b, number(0)), number(0), twice);
  const int rest = apply(sub, a, apply(mul, least, b));
  return apply(select, b, apply(add, least, compared(less_equal, b, rest)), number(0));
}

int UnsignedCode::step(const Instruction& in) const {
  const auto [a, b, c] = in.args;
  switch (in.primitive) {
    case constant:
      return number(bits_of_u64(in.value));
    case abs:
      return a;
    case less:
    case less_equal:
      return compared(in.primitive, a, b);
    case min:
    case max:
      return ordered(compared(in.primitive, a, b));
    case div:
      return quotient(a, b);
    case mod:
      return apply(select, b, apply(sub, a, apply(mul, quotient(a, b), b)), number(0));
    case pow: {  // the square of the power of half the exponent, once more where that is odd
      const int root = apply(pow, a, half(b)), odd = apply(bit_and, b, number(1));
      return apply(mul, apply(mul, root, root), apply(select, odd, a, number(1)));
    }
    case shift_right:
      return apply(select, b, apply(shift_right, half(a), apply(sub, b, number(1))), a);
    default:
      return emit_(in);
  }
}

int UnsignedCode::scalar(int index) const {
  const Dtype type = Dtype::f64;
  const int value = emit_({.primitive = Primitive::scalar, .type = type, .index = index});
  const int large = apply(less_equal, number(0x1p63, type), value, -1, type);
  const int wrapped = apply(min, apply(sub, value, number(0x1p64, type), -1, type), number(-1, type), -1, type);
  return cast(apply(select, large, wrapped, value, type), Dtype::i64);
}

int UnsignedCode::from(int reg, Dtype type) const {
  if (type == Dtype::i64) return apply(max, reg, number(0));
  const int large = apply(less_equal, number(0x1p63, type), reg, -1, type);  // NaN is not
  const int rest = apply(sub, reg, apply(mul, large, number(0x1p63, type), -1, type), -1, type);
  const int low = cast(apply(max, rest, number(0, type), -1, type), Dtype::i64);
  return apply(bit_or, low, apply(shift_left, cast(large, Dtype::i64), number(63)));
}

int UnsignedCode::to(int reg, Dtype type) const {
  const int large = apply(less, reg, number(0));
  if (type == Dtype::i64) return apply(select, large, number(0x1p63), reg);
  // Half of a large number, with a last bit that says whether there is more: it rounds as the number does.
  const int rounding = apply(bit_or, half(reg), apply(bit_and, reg, number(1)));
  const int number_or_half = cast(apply(select, large, rounding, reg), type);
  const int factor = cast(apply(add, large, number(1)), type);
  return apply(mul, number_or_half, factor, -1, type);
}

}  // namespace nixie
