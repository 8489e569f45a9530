// Prints the stages of a kernel for hand-written loops over pixels and channels.
#include "nixie/backends/cuda/generate/nhwc_functor.h"

#include <numeric>

#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr int kMostFixed = 48;  // words that a thread keeps beside its sums

}  // namespace

std::string load_and_run(BodyWriter& body, const Kernel& kernel, int lanes, const std::string& sums,
                         const FunctorMembers& members) {
  const int channel = body.space().kept, rank = body.space().rank();  // an axis of one channel is left out
  const bool reduces = members.leaves.has_value(), by_channel = reduces && members.leaves->of_channels;
  Frame frame{.lane_axis = channel < rank ? channel : -1,
              .lanes = lanes,
              .carried_is_local = true,
              .one_accumulator = !by_channel,
              .head = lanes > 1 ? "sum[lane]" : "sum[0]"};
  std::vector<int> all(kernel.stages.size());
  std::iota(all.begin(), all.end(), 0);
  if (by_channel || members.fixed) frame.moving = {0, channel};
  BodyWriter::Code code = body.stages(all, frame);
  if (!by_channel && code.fixed * lanes > kMostFixed) {
    frame.moving = {};
    code = body.stages(all, frame);
  }
  const std::string channels = channel < rank ? fmt::format("    const Index a{} = channel;\n", channel) : "";
  const std::string positions = body.positions(frame, "position", 0, channel) + channels;
  std::string text;
  if (!kernel.carried.empty()) text += "  struct Carried {\n" + body.carried_members() + "  };\n";
  if (reduces) text += accumulators_struct(kernel.stages.back(), "Accumulators");
  text += "  struct Loads {\n" + code.members + "  };\n";
  text += "  void load(Index position, Index channel, Loads& loads) const {\n" + positions + code.load + "  }\n";
  if (members.prefetch)
    text +=
        "  void prefetch(Index position, Index channel, Index count) const {\n" + positions + code.prefetch + "  }\n";
  const bool has_fixed = by_channel || members.fixed;
  if (has_fixed)
    text += "  struct Fixed {\n" + code.fixed_members + "  };\n  void load(Index channel, Fixed& fixed) const {\n" +
            channels + code.fixed_load + "  }\n";
  text +=
      fmt::format("  void run(Index position, Index channel, {}const Loads& loads, const {} (&sum)[{}]{}) const {{\n",
                  has_fixed ? "const Fixed& fixed, " : "", sums, lanes,
                  by_channel ? fmt::format(", Accumulators (&accumulators)[{}], int seen", lanes)
                  : reduces  ? ", Accumulators (&accumulators)[1]"
                             : "") +
      positions + code.run + "  }\n";
  return text;
}

NhwcFunctor nhwc_functor(const Plan& plan, const Kernel& kernel, const std::vector<Pointer>& more, int lanes,
                         const FunctorMembers& members) {
  BodyWriter body(plan, kernel, false, Order::nhwc);
  if (members.leaves) body.pointer("char*", "left", {members.leaves->slot, 0});
  for (const Pointer& pointer : more) body.pointer(pointer.type, pointer.name, pointer.argument);
  const bool of_integers = kernel.head && kernel.head->dtype == Dtype::i32;
  const std::string code = load_and_run(body, kernel, lanes, of_integers ? "int" : "float", members);
  NhwcFunctor result;
  if (members.leaves)
    result.text = defines({{"PARTS", members.leaves->count},
                           {"PARTS_COLUMNS", members.leaves->of_channels ? kernel.domain[1] : 1},
                           {"PARTS_OF_CHANNELS", members.leaves->of_channels}});
  result.text +=
      fmt::format("#include \"{}.cuh\"\n#include \"philox.cuh\"\n{}struct Body {{\n",
                  members.leaves ? "accumulators" : "math", members.prefetch ? "#include \"ptx.cuh\"\n" : "");
  result.text +=
      fmt::format("  using Index = {};\n", body.wide() ? "long long" : "int") + body.pointers() + code + "};\n";
  result.arguments = body.arguments();
  return result;
}

}  // namespace nixie::cuda
