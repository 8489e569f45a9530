// Instruction: the closed instruction set of scalar code, implemented by every backend.
//
// A formula written with Symbols becomes a list of Instructions. The CPU runs each over a tile of lanes, CUDA prints
// each as one line of a kernel. A register is the position of the instruction that wrote it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

#include "nixie/core/base/dtype.h"

namespace nixie {

/// The operation of an instruction on registers a, b, c (`args`). `T` is the instruction's type: f32,
/// f64, i64 or i32; u64 is the same bits in i64 (core/graph/unsigned_code.h).
enum class Primitive : std::uint8_t {
  // Sources of values
  parameter,   ///< input `index` of a formula; replaced by a register before a backend sees it
  constant,    ///< `value`
  scalar,      ///< number `index` of the plan's scalars
  load,        ///< the kernel's load `index`; T is the compute type of its slot
  carried,     ///< the kernel's carried value `index`, of an earlier stage
  head,        ///< the value the kernel's head computed
  coordinate,  ///< position along domain axis `index`, T = i32
  uniform,     ///< in [0, 1): 24 bits of Philox stream `stream`; register a is the i32 step, see random.h
  normal,      ///< standard normal from the same stream
  cast,        ///< a, of another type, converted to T; to integers truncates toward zero and saturates, NaN gives 0
  // Arithmetic on T
  neg,
  abs,
  add,
  sub,
  mul,
  div,
  mod,
  pow,
  min,
  max,  ///< min and max propagate NaN and take 0 for larger than -0; integer div truncates, by zero gives 0
  // Comparisons give 1 or 0 as T; logic treats non-zero as true
  equal,
  not_equal,
  less,
  less_equal,
  logical_and,
  logical_or,
  logical_not,
  select,  ///< select: a ? b : c
  is_finite,
  is_nan,
  // Functions, T floating
  sqrt,
  rsqrt,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  atan2,
  sinh,
  cosh,
  tanh,
  erf,
  erfc,
  floor,
  ceil,
  round,
  trunc,       ///< round: to nearest, ties to even
  round_f16,   ///< the nearest f16
  round_bf16,  ///< the nearest bf16
  round_f8e4m3,
  round_f8e5m2,  ///< the number that an 8-bit float holds: the nearest, saturating
  binade,        ///< the largest power of two that is not above |a|; 0 below the normal numbers, infinity for NaN
  copysign,      ///< |a| with the sign of b, of zeros and NaN, too
  // Bits, T = i32 or i64
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  shift_left,
  shift_right,
};

/// One step of scalar code. Unused fields keep their defaults, so instructions compare as values.
struct Instruction {
  Primitive primitive = Primitive::constant;
  Dtype type = Dtype::f32;              ///< f32, f64, i64 or i32: the type of the result
  std::array<int, 3> args{-1, -1, -1};  ///< registers
  int index = 0;
  double value = 0;          ///< of uniform and normal: the position in the stream of the domain's first element
  std::uint64_t stream = 0;  ///< of uniform and normal
  /// Values by their bits: 0 and -0 differ, NaN equals itself.
  bool operator==(const Instruction& other) const {
    const auto key = [](const Instruction& x) {
      return std::tuple(x.primitive, x.type, x.args, x.index, std::bit_cast<std::uint64_t>(x.value), x.stream);
    };
    return key(*this) == key(other);
  }
};

/// The number of registers that a primitive reads: 0 to 3.
int arity(Primitive primitive);
/// Its name in the enum.
std::string_view to_string(Primitive primitive);
/// Whether its result is 1 or 0.
bool is_boolean(Primitive primitive);
/// Whether it takes no longer than writing and reading memory does: arithmetic, that of a logistic function included.
bool is_cheap(Primitive primitive);

/// A traced scalar function of `arity` parameters; its result is the last register.
struct Formula {
  int arity = 0;
  std::vector<Instruction> body = {};
};

}  // namespace nixie
