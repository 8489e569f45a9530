// Picks the template for a kernel; writes programs around map.cuh.
#include "nixie/backends/cuda/generate/codegen.h"

#include <algorithm>
#include <numeric>

#include "nixie/backends/cuda/families/conv_fp32.h"
#include "nixie/backends/cuda/families/first_layer.h"
#include "nixie/backends/cuda/families/max_pool.h"
#include "nixie/backends/cuda/families/outer_product.h"
#include "nixie/backends/cuda/generate/print.h"

namespace nixie::cuda {

std::string entry_point(const std::string& name, const std::string& bounds, const std::string& call) {
  return fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ Body body) {{ {}; }}\n", bounds,
      name, call);
}

namespace {

constexpr int kThreads = 256;

}  // namespace

KernelCode generate_map(const Plan& plan, const Kernel& kernel) {
  BodyWriter body(plan, kernel, kernel.head.has_value());
  const int rank = body.walk().rank();
  Frame frame{.lane_axis = rank - 1, .carried_is_local = true};
  HeadCode head;
  if (kernel.head) {
    frame.lane_axis = -1;
    head = lookup_head(plan, kernel, body, frame);
    frame.head = head.call;
  } else {
    frame.lanes = body.lanes_along(frame.lane_axis);
  }
  const std::int64_t groups = body.groups(frame, 0, rank);

  std::vector<int> all(kernel.stages.size());
  std::iota(all.begin(), all.end(), 0);
  const BodyWriter::Code code = body.stages(all, frame);
  const std::string positions = body.positions(frame, "group", 0, rank);

  KernelCode result;
  std::string& text = result.source;
  text = "#include \"map.cuh\"\n#include \"philox.cuh\"\n";
  if (kernel.head) text += "#include \"gather.cuh\"\n";
  text += "\nstruct Body {\n";
  text += fmt::format("  using Index = {};\n  static constexpr Index kGroups = {};\n",
                      body.wide() || head.wide ? "long long" : "int", groups);
  text += fmt::format("  static constexpr int kThreads = {};\n", kThreads);
  text += body.pointers() + head.members;
  if (!kernel.carried.empty()) text += "  struct Carried {\n" + body.carried_members() + "  };\n";
  text += "  struct Loads {\n" + code.members + "  };\n";
  text += "  void load(Index group, Loads& loads) const {\n" + positions + code.load + "  }\n";
  text += "  void run(Index group, const Loads& loads) const {\n" + positions + code.run + "  }\n};\n";
  text += entry_point("kernel0", std::to_string(kThreads), "map(body)");
  result.arguments = body.arguments();
  result.variant = kernel.head ? "gather" : "map";
  if (groups > 0) result.launches.push_back({"kernel0", (groups + kThreads - 1) / kThreads, kThreads});
  return result;
}

namespace {

// What stages read and write is part of what an operation costs.
std::string with_memory(std::string operation, const Plan& plan, const Kernel& kernel) {
  const auto list = [&](const char* word, const std::vector<Access>& accesses) {
    std::string types;
    for (const Access& access : accesses)
      types += fmt::format(" {}", plan.slots[static_cast<std::size_t>(access.slot)].dtype);
    if (!types.empty()) operation += word + types;
  };
  list(", reads", kernel.loads);
  list(", writes", kernel.stores);
  return operation;
}

KernelCode generate_kind(const Plan& plan, const Kernel& kernel, bool hopper, const std::string& way) {
  if (hopper) {
    if (const auto layer = as_first_layer(plan, kernel)) return generate_first_layer(plan, kernel, *layer);
    if (const auto conv = as_hopper_conv(plan, kernel)) return generate_hopper_conv(plan, kernel, *conv, way);
    if (const auto conv = as_float_conv(plan, kernel)) return generate_float_conv(plan, kernel, *conv, way);
  }
  if (const auto product = as_outer_product(plan, kernel)) return generate_outer_product(plan, kernel, *product);
  if (const auto pool = as_max_pool(plan, kernel)) return generate_max_pool(plan, kernel, *pool);
  if (!kernel.reduced.empty()) return generate_reduce(plan, kernel);
  const bool product =
      kernel.head && (std::holds_alternative<Matmul>(kernel.head->op) || std::holds_alternative<Conv>(kernel.head->op));
  return product ? generate_product(plan, kernel, way) : generate_map(plan, kernel);
}

}  // namespace

KernelCode generate(const Plan& plan, const Kernel& kernel, bool hopper, const std::string& way) {
  KernelCode code = generate_kind(plan, kernel, hopper, way);
  check(way.empty() || has_way(code, way), "there is no way ", way, " to compute \"", kernel.label, "\"");
  if (!code.operation.empty()) code.operation = with_memory(std::move(code.operation), plan, kernel);
  return code;
}

bool has_way(const KernelCode& code, const std::string& name) {
  return std::any_of(code.ways.begin(), code.ways.end(), [&](const Way& way) { return way.name == name; });
}

}  // namespace nixie::cuda
