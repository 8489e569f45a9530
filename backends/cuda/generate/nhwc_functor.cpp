// Prints the stages of a kernel for hand-written loops over pixels and channels.
#include "nixie/backends/cuda/generate/nhwc_functor.h"

#include <numeric>

#include "nixie/backends/cuda/generate/accumulators.h"

namespace nixie::cuda {

NhwcFunctor nhwc_functor(const Plan& plan, const Kernel& kernel, const std::vector<Pointer>& more, int lanes) {
  BodyWriter body(plan, kernel, false, Order::nhwc);
  for (const Pointer& pointer : more) body.pointer(pointer.type, pointer.name, pointer.argument);
  const int channel = body.space().kept, rank = body.space().rank();  // an axis of one channel is left out
  const bool reduces = !kernel.stages.back().reductions.empty();
  Frame frame{.lane_axis = channel < rank ? channel : -1,
              .lanes = lanes,
              .carried_is_local = true,
              .head = lanes > 1 ? "sum[lane]" : "sum[0]"};
  if (reduces) frame.moving = {0, channel};
  std::vector<int> all(kernel.stages.size());
  std::iota(all.begin(), all.end(), 0);
  const BodyWriter::Code code = body.stages(all, frame);
  const std::string channels = channel < rank ? fmt::format("    const Index a{} = channel;\n", channel) : "";
  const std::string positions = body.positions(frame, "pixel", 0, channel) + channels;
  NhwcFunctor result;
  std::string& text = result.text;
  text =
      fmt::format("#include \"{}.cuh\"\n#include \"philox.cuh\"\nstruct Body {{\n", reduces ? "accumulators" : "math");
  text += fmt::format("  using Index = {};\n", body.wide() ? "long long" : "int") + body.pointers();
  if (!kernel.carried.empty()) text += "  struct Carried {\n" + body.carried_members() + "  };\n";
  if (reduces) text += accumulators_struct(kernel.stages.back(), "Accumulators");
  text += "  struct Loads {\n" + code.members + "  };\n";
  text += "  void load(Index pixel, Index channel, Loads& loads) const {\n" + positions + code.load + "  }\n";
  if (reduces)
    text += "  struct Fixed {\n" + code.fixed_members + "  };\n  void load(Index channel, Fixed& fixed) const {\n" +
            channels + code.fixed_load + "  }\n";
  text +=
      fmt::format("  void run(Index pixel, Index channel, {}const Loads& loads, const float (&sum)[{}]{}) const {{\n",
                  reduces ? "const Fixed& fixed, " : "", lanes,
                  reduces ? fmt::format(", Accumulators (&accumulators)[{}], int seen", lanes) : "") +
      positions + code.run + "  }\n};\n";
  result.arguments = body.arguments();
  return result;
}

}  // namespace nixie::cuda
