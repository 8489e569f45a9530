// Prints the code that computes elements of images.
#include "nixie/backends/cuda/families/conv/image_code.h"

#include "nixie/backends/cuda/families/conv/image_map.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

Pointer read_pointer(const Plan& plan, const std::string& name, int slot, std::int64_t offset) {
  const std::string type = type_name(dtype_of(plan, slot));
  return {"const " + type + "*", name, {slot, offset * element_bytes(plan, slot)}};
}

}  // namespace

const Operand& stored_images(const Choice& choice) {
  return choice.images ? choice.images->view
                       : choice.kernel.head->operands[at(images_operand(problem_of(choice).role))];
}

std::int64_t element_bytes(const Plan& plan, int slot) { return size_of(dtype_of(plan, slot)); }

ImageCode image_code(const Plan& plan, const Choice& choice) {
  const Operand& x = stored_images(choice);
  const MappedOperand map = choice.images.value_or(MappedOperand{});
  ImageCode images{.pointers = {read_pointer(plan, "x", x.slot, x.offset)}};
  std::string text, result = "stored";
  bool scalars = false;
  for (const Instruction& in : map.body) {
    const std::string type = type_name(in.type);
    std::string value;
    if (in.primitive == Primitive::scalar) {
      value = fmt::format("convert<{}>(body.scalars[{}])", type, in.index);
      scalars = true;
    } else if (in.primitive != Primitive::load) {
      value = expression(in);
    } else if (in.index == 0) {
      value = fmt::format("convert<{}>(stored)", type);
    } else {
      const Access& from = map.more[at(in.index - 1)];
      const Pointer pointer = read_pointer(plan, fmt::format("image{}", in.index), from.slot, from.offset);
      images.pointers.push_back(pointer);
      value = fmt::format("convert<{}>(read<1>(body.{} + (n * ({}) + c * ({}) + h * ({}) + w * ({}))).lane[0])", type,
                          pointer.name, from.strides[0], from.strides[1], from.strides[2], from.strides[3]);
    }
    result = fmt::format("r{}", &in - map.body.data());
    text += fmt::format("  const {} {} = {};\n", type, result, value);
  }
  if (scalars) images.pointers.push_back({"const f64*", "scalars", {Argument::kScalars, 0}});
  images.code = fmt::format(
      "#include \"math.cuh\"\nusing Stored = {};\n"
      "__device__ inline auto element(const Body& body, Stored stored, int n, int c, int h, int w) {{\n{}  return "
      "{};\n}}\n",
      type_name(dtype_of(plan, x.slot)), text, result);
  return images;
}

std::string stride_defines(const Choice& choice) {
  const Strides& x = stored_images(choice).strides;
  return defines({{"CONV_X_N", x[0]}, {"CONV_X_C", x[1]}, {"CONV_X_H", x[2]}, {"CONV_X_W", x[3]}});
}

std::string body_of(const std::vector<Pointer>& pointers, KernelCode& code) {
  std::string members;
  for (const Pointer& pointer : pointers) {
    members += fmt::format("  {} {};\n", pointer.type, pointer.name);
    code.arguments.push_back(pointer.argument);
  }
  return "#include \"types.cuh\"\nstruct Body {\n" + members + "};\n";
}

bool reads_images(const Plan& plan, const Operand& images, Dtype dtype, bool any_type) {
  const Dtype stored = dtype_of(plan, images);
  return any_type || stored == dtype || size_of(stored) == 1;
}

std::optional<Absorption> with_image_map(const Grouping& grouping, const Choice& choice, std::size_t other,
                                         bool any_type) {
  const ConvProblem& conv = problem_of(choice);
  const Operand& images = choice.kernel.head->operands[at(images_operand(conv.role))];
  if (choice.images || !grouping.writes(other, images.slot) || dtype_of(grouping.plan, images) != conv.dtype) return {};
  std::optional<MappedOperand> made = before_map(grouping.plan.kernels, images);
  if (!made || !reads_images(grouping.plan, made->view, conv.dtype, any_type)) return {};
  Absorption with{.choice = choice, .other = Absorption::Other::is_cloned};
  with.choice.images = std::move(made);
  return with;
}

}  // namespace nixie::cuda
