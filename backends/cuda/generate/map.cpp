// Writes programs around map.cuh.

#include <algorithm>
#include <numeric>

#include "nixie/backends/cuda/generate/portable.h"

namespace nixie::cuda {

namespace {

constexpr int kThreads = 256;

}  // namespace

OneLaunch map_launch(const Plan& plan, const Kernel& kernel) {
  BodyWriter body(plan, kernel, kernel.head.has_value());
  const int rank = body.space().rank();
  Frame frame{.lane_axis = rank - 1, .carried_is_local = true};
  HeadCode head;
  if (kernel.head) {
    frame.lane_axis = -1;
    head = lookup_head(plan, kernel, body, frame);
    frame.head = head.call;
  } else {
    frame.lanes = body.map_lanes_along(frame.lane_axis);
  }
  const std::int64_t groups = body.groups(frame, 0, rank);

  std::vector<int> all(kernel.stages.size());
  std::iota(all.begin(), all.end(), 0);
  const BodyWriter::Code code = body.stages(all, frame);
  const std::string positions = body.positions(frame, "group", 0, rank);

  OneLaunch result;
  result.includes = "#include \"map.cuh\"\n#include \"philox.cuh\"\n";
  if (kernel.head) result.includes += "#include \"gather.cuh\"\n";
  std::string& text = result.body;
  text = "struct Body {\n";
  text += fmt::format("  using Index = {};\n  static constexpr Index kGroups = {};\n",
                      body.wide() || head.wide ? "long long" : "int", groups);
  text += fmt::format("  static constexpr int kThreads = {};\n", kThreads);
  text += body.pointers() + head.members;
  if (!kernel.carried.empty()) text += "  struct Carried {\n" + body.carried_members() + "  };\n";
  text += "  struct Loads {\n" + code.members + "  };\n";
  text += "  void load(Index group, Loads& loads) const {\n" + positions + code.load + "  }\n";
  text += "  void run(Index group, const Loads& loads) const {\n" + positions + code.run + "  }\n};\n";
  result.call = "map";
  result.bounds = std::to_string(kThreads);
  result.arguments = body.arguments();
  result.variant = kernel.head ? "gather" : "map";
  result.blocks = (groups + kThreads - 1) / kThreads;
  result.threads = kThreads;
  return result;
}

KernelCode generate_map(const Plan& plan, const Kernel& kernel) { return code_of(map_launch(plan, kernel)); }

}  // namespace nixie::cuda
