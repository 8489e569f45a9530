// Elementwise: traces formulas, types and broadcasts calls.
#include "nixie/core/ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

thread_local Formula* tracing = nullptr;

std::vector<std::shared_ptr<const ElementwiseInfo>>& declared() {
  static std::vector<std::shared_ptr<const ElementwiseInfo>> ops;
  return ops;
}

bool is_weak(const Tensor& x) {
  const auto* constant = op_as<Constant>(x);
  return constant && constant->weak;
}

// numpy's rule for literals: they take the arrays' type; a fraction lifts integers to f32, a whole number bools to i32.
Dtype promoted(const std::vector<Tensor>& inputs, std::size_t first) {
  bool any = false, fraction = false, whole = false;  // the last two: of numbers
  Dtype dtype = Dtype::i8;
  for (std::size_t i = first; i < inputs.size(); ++i) {
    if (is_weak(inputs[i])) {
      fraction |= inputs[i].dtype() == Dtype::f32;
      whole |= inputs[i].dtype() == Dtype::i32;
    } else {
      dtype = any && dtype != inputs[i].dtype() ? promote(dtype, inputs[i].dtype()) : inputs[i].dtype();
      any = true;
    }
  }
  if (!any) return fraction ? Dtype::f32 : whole ? Dtype::i32 : Dtype::boolean;
  if (fraction && !is_floating(dtype)) return Dtype::f32;
  return whole && dtype == Dtype::boolean ? Dtype::i32 : dtype;
}

// 8-bit floats are computed as the promoted type, alone as f32; a choice among elements of one such type has that type.
void widen(const ElementwiseInfo& op, std::vector<Tensor>& inputs) {
  const ResultType result = op.traits.result;
  if (result == ResultType::cast || result == ResultType::wrapped || result == ResultType::retyped) return;
  if (result == ResultType::selected && inputs[1].dtype() == inputs[2].dtype()) return;
  const Dtype wide = gradient_dtype(promoted(inputs, result == ResultType::selected ? 1 : 0));
  for (Tensor& x : inputs)
    if (is_f8(x.dtype())) x = retype(x, wide);
}

Dtype result_dtype(const ElementwiseInfo& op, const std::vector<Tensor>& inputs, Dtype cast) {
  const Dtype dtype = promoted(inputs, op.traits.result == ResultType::selected ? 1 : 0);
  switch (op.traits.result) {
    case ResultType::floating:
      return is_floating(dtype) ? dtype : Dtype::f32;
    case ResultType::boolean:
      return Dtype::boolean;
    case ResultType::integer:
      check(!is_floating(dtype), op.name, ": input is ", dtype, ", expected an integer type");
      return dtype;
    case ResultType::wrapped:
      check(!is_floating(cast) && cast != Dtype::boolean, op.name, ": the type is ", cast,
            ", expected an integer type");
      return cast;
    case ResultType::cast:
    case ResultType::retyped:
      return cast;
    case ResultType::promoted:
    case ResultType::selected:
      break;
  }
  return dtype;
}

}  // namespace

Symbol::Symbol(const Instruction& instruction) {
  check(tracing != nullptr, "a Symbol lives only while a formula is declared");
  tracing->body.push_back(instruction);
  register_ = static_cast<int>(tracing->body.size()) - 1;
}

Symbol apply(Primitive primitive, std::initializer_list<Symbol> args) {
  Instruction instruction{.primitive = primitive};
  std::size_t i = 0;
  for (const Symbol& arg : args) instruction.args[i++] = arg.reg();
  return Symbol(instruction);
}

std::vector<std::shared_ptr<const ElementwiseInfo>> all_elementwise() { return declared(); }

Dtype map_compute_dtype(const Node& node) {
  const ElementwiseInfo& op = *std::get<Map>(node.op).op;
  const Dtype dtype = compute_dtype(promoted(node.inputs, op.traits.result == ResultType::selected ? 1 : 0));
  return op.traits.result == ResultType::floating && !is_floating(dtype) ? Dtype::f32 : dtype;
}

bool has_result(const Tensor& x, ResultType result) {
  const auto* map = op_as<Map>(x);
  return map && map->op->traits.result == result;
}

bool is_rounded(const Tensor& x) {
  if (x.dtype() != Dtype::f16 && x.dtype() != Dtype::bf16) return true;
  if (is_view(x)) return is_rounded(x.inputs()[0]);
  return is_a<Input>(x) || has_result(x, ResultType::cast);
}

Formula Elementwise::trace(int arity, const std::function<Symbol(std::span<const Symbol>)>& body) {
  Formula formula{.arity = arity};
  Formula* outer = std::exchange(tracing, &formula);
  std::vector<Symbol> in;
  for (int i = 0; i < arity; ++i) in.emplace_back(Instruction{.primitive = Primitive::parameter, .index = i});
  const Symbol result = body(in);
  tracing = outer;
  // The result is the last register by definition.
  formula.body.resize(static_cast<std::size_t>(result.reg()) + 1);
  return formula;
}

void Elementwise::declare(std::shared_ptr<ElementwiseInfo> info) {
  info_ = std::move(info);
  if (info_->traits.is_listed) declared().push_back(info_);
}

Tensor Elementwise::call(std::vector<Tensor> inputs, Dtype result) const {
  check(info_ != nullptr,
        "an op is called before main, when the library's are not declared yet: make tensors and models ",
        "in functions, not at namespace scope");
  const ElementwiseInfo& op = *info_;
  check(static_cast<int>(inputs.size()) == op.formula.arity, op.name, ": ", inputs.size(), " inputs, expected ",
        op.formula.arity);
  // In the values' type a condition of another may be 0 where it is not in its own: 0.4 beside integers.
  if (op.traits.result == ResultType::selected) inputs[0] = cast(inputs[0], Dtype::boolean);
  widen(op, inputs);
  const Dtype dtype = result_dtype(op, inputs, result);
  Shape shape;
  for (const Tensor& x : inputs) shape = broadcast(shape, x.shape());
  for (Tensor& x : inputs)
    if (!is_a<Constant>(x)) x = broadcast_to(x, shape);
  return Tensor::make(Map{info_}, std::move(inputs), std::move(shape), dtype);
}

}  // namespace nixie
