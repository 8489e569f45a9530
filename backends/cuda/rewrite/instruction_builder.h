// InstructionBuilder: builds straight-line f32 code for kernels that lowering adds.
#pragma once

#include <vector>

#include "nixie/core/graph/instruction.h"

namespace nixie::cuda {

/// Instructions in order; each member appends one and returns its register.
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
