// Straight-line code of f32 for kernels that lowering writes.
#pragma once

#include <vector>

#include "nixie/core/graph/instruction.h"

namespace nixie::cuda {

/// Instructions as they are added; each member gives back the register it made.
struct InstructionBuilder {
  std::vector<Instruction> body = {};
  int add(Instruction in) {
    body.push_back(in);
    return static_cast<int>(body.size()) - 1;
  }
  int load(int index) { return add({.primitive = Primitive::load, .index = index}); }
  int number(double value) { return add({.primitive = Primitive::constant, .value = value}); }
  int apply(Primitive primitive, int a, int b = -1, int c = -1) {
    return add({.primitive = primitive, .args = {a, b, c}});
  }
};

}  // namespace nixie::cuda
