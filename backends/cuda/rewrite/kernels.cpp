// Builds the kernels that rewrites add: copies, split heads, shifted accesses.
#include "nixie/backends/cuda/rewrite/kernels.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {

int add_slot(Plan& plan, const std::string& name, Dtype dtype, const Shape& shape, const Strides& strides) {
  plan.slots.push_back({.name = name, .dtype = dtype, .shape = shape, .strides = strides});
  return static_cast<int>(plan.slots.size()) - 1;
}

Access access_of(const Operand& operand) {
  return {.slot = operand.slot, .offset = operand.offset, .strides = operand.strides};
}

int find_or_add(std::vector<Access>& accesses, const Access& access) {
  const auto found = std::ranges::find(accesses, access);
  const auto index = static_cast<int>(found - accesses.begin());
  if (found == accesses.end()) accesses.push_back(access);
  return index;
}

std::pair<Kernel, Kernel> split_head(Plan& plan, const Kernel& kernel, const Strides& strides,
                                     const std::string& label) {
  const Dtype dtype = compute_dtype(kernel.head->dtype);
  const int slot = add_slot(plan, label, dtype, kernel.domain, strides);
  Kernel alone{.label = label, .domain = kernel.domain, .head = kernel.head};
  alone.stores = {{.slot = slot, .strides = strides}};
  alone.stages = {{.body = {{.primitive = Primitive::head, .type = dtype}}, .stores = {{0, 0}}}};

  Kernel rest = kernel;
  rest.head.reset();
  rest.loads.push_back(alone.stores[0]);
  for (Stage& part : rest.stages)
    for (Instruction& in : part.body)
      if (in.primitive == Primitive::head) {
        in.primitive = Primitive::load;
        in.index = static_cast<int>(rest.loads.size()) - 1;
      }
  return {std::move(alone), std::move(rest)};
}

void replace_head(Kernel& kernel, const std::function<int(InstructionBuilder&, const Instruction&)>& by) {
  for (Stage& stage : kernel.stages)
    rewrite(stage, [&](InstructionBuilder& code, const Instruction& in) {
      return in.primitive == Primitive::head ? by(code, in) : code.add(in);
    });
}

bool depends_on_position(const Kernel& kernel) {
  return std::ranges::any_of(kernel.stages, [](const Stage& stage) {
    return std::ranges::any_of(stage.body, [](const Instruction& in) {
      return in.primitive == Primitive::coordinate || in.primitive == Primitive::uniform ||
             in.primitive == Primitive::normal;
    });
  });
}

Kernel pack(Plan& plan, Operand& operand, const Strides& strides, Dtype dtype, const std::string& name) {
  const Dtype from = dtype_of(plan, operand.slot);
  const int slot = add_slot(plan, name, dtype, operand.shape, strides);
  Kernel copy{.label = "pack " + name, .domain = operand.shape, .loads = {access_of(operand)}};
  copy.stores = {{.slot = slot, .strides = strides}};
  copy.stages = {{.body = {{.primitive = Primitive::load, .type = compute_dtype(from)}}, .stores = {{0, 0}}}};
  operand = {slot, 0, operand.shape, strides};
  return copy;
}

Kernel pad_images(Plan& plan, const Operand& images, const Shape& padded, std::int64_t pad) {
  const Shape& shape = images.shape;
  Access from = access_of(images);
  from.offset -= pad * images.strides[3];
  from.inside = {{0, shape[0]}, {0, shape[1]}, {0, shape[2]}, {pad, pad + shape[3]}};
  const Strides strides = padded.channels_last();
  Kernel copy{.label = "pad images", .domain = padded, .loads = {std::move(from)}};
  copy.stores = {{.slot = add_slot(plan, "padded images", Dtype::f32, padded, strides), .strides = strides}};
  copy.stages = {{.body = {{.primitive = Primitive::load}}, .stores = {{0, 0}}}};
  return copy;
}

}  // namespace nixie::cuda
