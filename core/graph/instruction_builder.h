// InstructionBuilder: straight-line code that is being written, new or from other code.
#pragma once

#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie {

/// Instructions in order; each member but append adds one and returns its register.
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
  /// Calls `by` for each instruction of other code, its arguments renumbered; it adds what there is to add and returns
  /// the register of the result. Returns these registers.
  template <class By>
  std::vector<int> append(const std::vector<Instruction>& code, const By& by) {
    std::vector<int> moved;
    for (Instruction in : code) {
      for (int& arg : in.args)
        if (arg >= 0) arg = moved[static_cast<std::size_t>(arg)];
      moved.push_back(by(in));
    }
    return moved;
  }
};

/// Writes a stage's code anew: `by(code, instruction)` is called as by InstructionBuilder::append.
template <class By>
void rewrite(Stage& stage, const By& by) {
  InstructionBuilder code;
  const std::vector<int> moved = code.append(stage.body, [&](const Instruction& in) { return by(code, in); });
  const auto follow = [&](auto& users) {
    for (auto& user : users) user.value = moved[static_cast<std::size_t>(user.value)];
  };
  stage.body = std::move(code.body);
  follow(stage.stores), follow(stage.reductions), follow(stage.carries);
}

}  // namespace nixie
