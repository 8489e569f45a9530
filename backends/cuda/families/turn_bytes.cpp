// Finds copies of a matrix of 8-bit elements into the other order.
#include "nixie/backends/cuda/families/turn_bytes.h"

#include "nixie/backends/cuda/generate/body.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// `from` has rows along axis `rows`, `to` along the other.
struct Turned {
  int rows = 0;
  std::int64_t from_pitch = 0, to_pitch = 0;
};

class TurnBytes final : public Family {
 public:
  std::string_view name() const override { return "turn_bytes"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    constexpr std::int64_t kLeast = 1 << 16;  // elements; fewer are in the first-level cache
    if (kernel.head || !kernel.reduced.empty() || kernel.domain.rank() != 2 || kernel.loads.size() != 1 ||
        kernel.stores.size() != 1 || kernel.stages.size() != 1 || kernel.stages[0].body.size() != 1)
      return Refusal{"no copy of a matrix"};
    const Access &from = kernel.loads[0], &to = kernel.stores[0];
    const Dtype dtype = dtype_of(plan, from.slot);
    if (size_of(dtype) != 1 || dtype_of(plan, to.slot) != dtype || !from.inside.empty() || !to.inside.empty())
      return Refusal{"elements of other types"};
    const int rows = from.strides[1] == 1 ? 0 : 1, columns = 1 - rows;
    const Turned turned{rows, from.strides[at(rows)], to.strides[at(columns)]};
    if (from.strides[at(columns)] != 1 || to.strides[at(rows)] != 1) return Refusal{"an order that stays"};
    for (const std::int64_t number :
         {kernel.domain[0], kernel.domain[1], turned.from_pitch, turned.to_pitch, from.offset, to.offset})
      if (number % 16 != 0 || number < 0) return Refusal{"rows that are not read in pieces of 16 bytes"};
    if (turned.from_pitch < kernel.domain[columns] || turned.to_pitch < kernel.domain[rows])
      return Refusal{"rows that overlap"};
    if (kernel.domain.size() < kLeast) return Refusal{"few elements"};
    return Choice{.kernel = kernel, .sizes = turned};
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    const Kernel& kernel = choice.kernel;
    const auto& turned = std::any_cast<const Turned&>(choice.sizes);
    const std::int64_t rows = kernel.domain[turned.rows], columns = kernel.domain[1 - turned.rows];
    BodyWriter body(plan, kernel, false);
    body.pointer("const u8*", "from", {kernel.loads[0].slot, kernel.loads[0].offset});
    body.pointer("u8*", "to", {kernel.stores[0].slot, kernel.stores[0].offset});
    KernelCode code;
    code.source = "#include \"turn_bytes.cuh\"\n\nstruct Body {\n" + constant("kRows", rows) +
                  constant("kColumns", columns) + constant("kFromPitch", turned.from_pitch, "i64") +
                  constant("kToPitch", turned.to_pitch, "i64") + body.pointers() + "};\n" +
                  entry_point("kernel0", "256", "turn_bytes(body)");
    code.arguments = body.arguments();
    code.variant = "turn_bytes";
    code.launches.push_back({"kernel0", ceil_div(rows, 128) * ceil_div(columns, 128), 256});
    return code;
  }
};

}  // namespace

const Family& turn_bytes() {
  static const TurnBytes family;
  return family;
}

}  // namespace nixie::cuda
