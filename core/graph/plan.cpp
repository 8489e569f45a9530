// A plan as text.
#include "nixie/core/graph/plan.h"

#include <fmt/format.h>

#include "nixie/core/base/integer_math.h"

namespace nixie {
namespace {

// Writes a stage's registers as formulas; a register read more than once gets a line and a name of its own.
class FormulaPrinter {
 public:
  explicit FormulaPrinter(const Stage& stage) : body_(stage.body), uses_(stage.body.size()) {
    for (const Instruction& instruction : body_)
      for (int i = 0; i < arity(instruction.primitive); ++i) ++uses_[at(instruction.args[i])];
    for (const Store& store : stage.stores) ++uses_[at(store.value)];
    for (const Reduction& reduction : stage.reductions) ++uses_[at(reduction.value)];
    for (const Carry& carry : stage.carries) ++uses_[at(carry.value)];
  }

  bool is_named(int reg) const { return uses_[at(reg)] > 1 && arity(body_[at(reg)].primitive) > 0; }
  std::string use(int reg) const { return is_named(reg) ? fmt::format("r{}", reg) : formula(reg); }

  std::string formula(int reg) const {
    const Instruction& in = body_[at(reg)];
    switch (in.primitive) {
      case Primitive::constant:
        return fmt::format("{}", in.value);
      case Primitive::parameter:
      case Primitive::scalar:
      case Primitive::load:
      case Primitive::carried:
      case Primitive::coordinate:
        return fmt::format("{}{}", to_string(in.primitive), in.index);
      case Primitive::uniform:
      case Primitive::normal:
        return fmt::format("{}({:#018x}, {}{})", to_string(in.primitive), in.stream, use(in.args[0]),
                           in.value == 0 ? "" : fmt::format(", from {}", in.value));
      case Primitive::cast:
        return fmt::format("{}({})", in.type, use(in.args[0]));
      default:  // printed as a function of its registers
        break;
    }
    std::string args;
    for (int i = 0; i < arity(in.primitive); ++i) args += (i ? ", " : "") + use(in.args[at(i)]);
    return arity(in.primitive) == 0 ? std::string(to_string(in.primitive))
                                    : fmt::format("{}({})", to_string(in.primitive), args);
  }

 private:
  const std::vector<Instruction>& body_;
  std::vector<int> uses_;
};

void print(std::string& out, const Stage& stage) {
  const FormulaPrinter printer(stage);
  fmt::format_to(std::back_inserter(out), "  {}\n", stage.full ? "at each position" : "at each kept position");
  const auto line = [&](const std::string& left, const std::string& right) {
    fmt::format_to(std::back_inserter(out), "    {} = {}\n", left, right);
  };
  for (int reg = 0; reg < static_cast<int>(stage.body.size()); ++reg)
    if (printer.is_named(reg)) line(fmt::format("r{}", reg), printer.formula(reg));
  for (const Reduction& reduction : stage.reductions)
    line(fmt::format("carried{}", reduction.carried),
         fmt::format("{}({})", to_string(reduction.kind), printer.use(reduction.value)));
  for (const Carry& carry : stage.carries) line(fmt::format("carried{}", carry.carried), printer.use(carry.value));
  for (const Store& store : stage.stores) line(fmt::format("store{}", store.access), printer.use(store.value));
}

void print(std::string& out, std::string_view name, int index, const Access& access) {
  fmt::format_to(std::back_inserter(out), "  {}{} = slot {} strides [{}]", name, index, access.slot,
                 fmt::join(access.strides, ", "));
  if (access.offset) fmt::format_to(std::back_inserter(out), " offset {}", access.offset);
  for (std::size_t axis = 0; axis < access.inside.size(); ++axis)
    fmt::format_to(std::back_inserter(out), "{}{}:{}", axis ? ", " : " inside ", access.inside[axis].first,
                   access.inside[axis].second);
  if (!access.inside.empty()) fmt::format_to(std::back_inserter(out), " else {}", access.fill);
  out += '\n';
}

std::string numbers(const std::vector<int>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string describe(const Head& head) {
  return std::visit(
      overloaded{
          [](const Matmul&) -> std::string { return "matmul"; },
          [](const RoundedProduct& rounded) {
            return std::visit([](const auto& product) { return describe({.op = product}); }, rounded.product) +
                   fmt::format(" sums rounded every {}", rounded.sums.every);
          },
          [](const Conv& conv) {
            constexpr std::string_view roles[] = {"output", "input_grad", "filter_grad"};
            return fmt::format("conv {} stride {} pad {} dilation {} groups {}", roles[static_cast<int>(conv.role)],
                               numbers(conv.stride), numbers(conv.pad), numbers(conv.dilation), conv.groups);
          },
          [](const Pool& pool) {
            constexpr std::string_view kinds[] = {"max", "average"};
            constexpr std::string_view roles[] = {"output", "index", "input_grad", "gather"};
            return fmt::format("{} pool {} window {} stride {} pad {}{}{}", kinds[static_cast<int>(pool.kind)],
                               roles[static_cast<int>(pool.role)], numbers(pool.window), numbers(pool.stride),
                               numbers(pool.pad),
                               pool.dilation.empty() ? "" : fmt::format(" dilation {}", numbers(pool.dilation)),
                               pool.count_pad ? " count_pad" : "");
          },
          [](const Gather& gather) { return fmt::format("gather axis {}", gather.axis); },
          [](const Scatter& scatter) {
            return fmt::format("scatter {} axis {}", to_string(scatter.kind), scatter.axis);
          },
          [](const ArgSort& sort) {
            return fmt::format("argsort axis {}{}", sort.axis, sort.descending ? " descending" : "");
          },
          [](const Scan& scan) {
            return fmt::format("scan {} axis {}{}{}", to_string(scan.kind), scan.axis, scan.reverse ? " reverse" : "",
                               scan.exclusive ? " exclusive" : "");
          },
          [](const Collective& collective) { return std::string(to_string(collective.kind)); },
      },
      head.op);
}

void print(std::string& out, int index, const Kernel& kernel) {
  fmt::format_to(std::back_inserter(out), "kernel {} {}: domain {}", index, kernel.label, kernel.domain);
  if (!kernel.reduced.empty()) fmt::format_to(std::back_inserter(out), " reduces {}", numbers(kernel.reduced));
  out += '\n';
  if (kernel.head) {
    fmt::format_to(std::back_inserter(out), "  head = {} -> {}\n", describe(*kernel.head), kernel.head->dtype);
    for (const Operand& operand : kernel.head->operands)
      fmt::format_to(std::back_inserter(out), "    of slot {} shape {} strides [{}] offset {}\n", operand.slot,
                     operand.shape, fmt::join(operand.strides, ", "), operand.offset);
  }
  for (std::size_t i = 0; i < kernel.loads.size(); ++i) print(out, "load", static_cast<int>(i), kernel.loads[i]);
  for (std::size_t i = 0; i < kernel.stores.size(); ++i) print(out, "store", static_cast<int>(i), kernel.stores[i]);
  for (const Stage& stage : kernel.stages) print(out, stage);
}

void print(std::string& out, std::size_t index, const Group& group) {
  const bool plain = !group.implementation && group.members.size() == 1;
  if (plain && group.waits_for.empty()) return;
  fmt::format_to(std::back_inserter(out), "group {} of kernels {}", index, numbers(group.members));
  if (!group.waits_for.empty()) fmt::format_to(std::back_inserter(out), " after groups {}", numbers(group.waits_for));
  if (group.implementation) fmt::format_to(std::back_inserter(out), " by {}", group.implementation->name());
  out += '\n';
}

}  // namespace

bool multiplies_tf32(const Head& head) {
  const auto* matmul = product_in<Matmul>(head.op);
  const auto* conv = product_in<Conv>(head.op);
  return (matmul && matmul->math == Math::tf32) || (conv && conv->math == Math::tf32);
}

Shape kept_shape(const Kernel& kernel) {
  Shape shape = kernel.domain;
  for (int axis : kernel.reduced) shape = shape.with(axis, 1);
  return shape;
}

std::string to_string(const Plan& plan) {
  std::string out = fmt::format("plan: {} kernels, {} slots, arena {} bytes\n", plan.kernels.size(), plan.slots.size(),
                                plan.arena_bytes);
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    fmt::format_to(std::back_inserter(out), "slot {} {}{}{} {}", i, slot.name, slot.name.empty() ? "" : " ", slot.dtype,
                   slot.shape);
    if (slot.strides != slot.shape.row_major())
      fmt::format_to(std::back_inserter(out), " strides [{}]", fmt::join(slot.strides, ", "));
    out += slot.external ? " external\n" : fmt::format(" at {}\n", slot.offset);
  }
  if (!plan.scalars.empty()) fmt::format_to(std::back_inserter(out), "scalars [{}]\n", fmt::join(plan.scalars, ", "));
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) print(out, static_cast<int>(i), plan.kernels[i]);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) print(out, g, plan.groups[g]);
  return out;
}

}  // namespace nixie
