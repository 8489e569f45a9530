// StageBuilder: writes the instructions of a kernel's stages, for kernel_builder.
#pragma once

#include "nixie/core/graph/unsigned_code.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/kernel_builder.h"

namespace nixie {

class StageBuilder {
 public:
  StageBuilder(KernelBuilder& builder, const FusedGroup& group, Kernel& kernel);
  /// Fills kernel.stages, loads and carried; `stored` units are stored.
  void run();

 private:
  bool inside(int u) const { return u >= 0 && members_.count(u) != 0; }
  bool kept(int u) const;
  bool needed_later(int u);
  int level(int u);
  void stage(int level, bool full);
  int value(const Tensor& x, Dtype type);
  int natural(const Tensor& x, Dtype wanted);
  int unit_value(int u);
  int map_value(const Tensor& x);
  int load(const Tensor& x);
  int carried(int u);
  int emit(Instruction instruction);
  int number(double value, Dtype type);
  int apply(Primitive primitive, Dtype type, int a, int b = -1, int c = -1);
  int carry(int u);
  int unit_read(const Tensor& x) const;
  Dtype type_of(int reg) const { return stage_->body[at(reg)].type; }
  int convert(int reg, Dtype type);
  int convert(int reg, Dtype from, Dtype type);
  int rounded_once(int reg, const Tensor& half);
  int odd_where_cut(int reg);
  int narrowed(int reg, Dtype dtype, bool wraps);
  int as_bool(int reg, ResultType result);

  KernelBuilder& builder_;
  const FusedGroup& group_;
  Kernel& kernel_;
  std::set<int> members_;
  std::map<int, int> levels_;
  std::map<int, int> carried_;
  Stage* stage_ = nullptr;
  UnsignedCode unsigned_{[this](const Instruction& in) { return emit(in); }};
  std::map<int, int> registers_;  // of units in the present stage
};

}  // namespace nixie
