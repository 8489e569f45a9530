// Finds copies of matrices, one or many, into the other order.
#include "nixie/backends/cuda/families/turn.h"

#include <numeric>

#include "nixie/backends/cuda/generate/body.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr int kThreads = 256;

// Axes of a kernel's iteration space: `from` has neighbours along the columns, `to` along the rows; others count
// matrices.
struct Turned {
  int rows = -1, columns = -1;
};

// Elements along a side of a tile.
std::int64_t side_of(Dtype dtype) { return 128 / size_of(dtype); }

Turned turned_axes(const IterationSpace& space) {
  const Path &from = space.paths[0], &to = space.paths[1];
  Turned turned;
  for (int axis = 0; axis < space.rank(); ++axis) {
    if (from.bounded(axis, space.sizes[at(axis)]) || to.bounded(axis, space.sizes[at(axis)])) return {};
    if (from.strides[at(axis)] < 0 || to.strides[at(axis)] < 0) return {};  // numbers of shared launches have no sign
    if (from.strides[at(axis)] == 1) turned.columns = axis;
    if (to.strides[at(axis)] == 1) turned.rows = axis;
  }
  return turned;
}

// The bytes of the widest access, at most 16, that lines of these strides but along `axis` begin and end with.
std::int64_t unit_of(const IterationSpace& space, const Path& path, int axis, std::int64_t bytes) {
  std::int64_t unit = std::gcd(std::int64_t{16}, std::gcd(path.offset, space.sizes[at(axis)]) * bytes);
  for (int other = 0; other < space.rank(); ++other)
    if (other != axis) unit = std::gcd(unit, path.strides[at(other)] * bytes);
  return unit;
}

class Turn final : public Family {
 public:
  std::string_view name() const override { return "turn"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    constexpr std::int64_t kLeast = 1 << 16;  // elements; fewer are in the first-level cache
    if (kernel.head || !kernel.reduced.empty() || kernel.loads.size() != 1 || kernel.stores.size() != 1 ||
        kernel.stages.size() != 1 || kernel.stages[0].body.size() != 1)
      return Refusal{"no copy"};
    const int from = kernel.loads[0].slot, to = kernel.stores[0].slot;
    const Dtype dtype = dtype_of(plan, from);
    if (size_of(dtype) > 4 || dtype_of(plan, to) != dtype || from == to) return Refusal{"elements of other types"};
    if (kernel.domain.size() < kLeast) return Refusal{"few elements"};
    const BodyWriter body(plan, kernel);
    const Turned turned = turned_axes(body.space());
    if (turned.rows < 0 || turned.columns < 0 || turned.rows == turned.columns) return Refusal{"an order that stays"};
    const std::int64_t rows = body.space().sizes[at(turned.rows)], columns = body.space().sizes[at(turned.columns)],
                       side = side_of(dtype);
    if (2 * rows * columns < round_up(rows, side) * round_up(columns, side))
      return Refusal{"tiles that are half empty"};
    return Choice{.kernel = kernel, .sizes = turned};
  }
  std::optional<OneLaunch> one_launch(const Plan& plan, const Choice& choice) const override {
    const Kernel& kernel = choice.kernel;
    const auto& turned = std::any_cast<const Turned&>(choice.sizes);
    BodyWriter body(plan, kernel);
    const IterationSpace& space = body.space();
    const Path &from = space.paths[0], &to = space.paths[1];
    const Dtype dtype = dtype_of(plan, kernel.loads[0].slot);
    const std::int64_t bytes = size_of(dtype), rows = space.sizes[at(turned.rows)],
                       columns = space.sizes[at(turned.columns)], side = side_of(dtype);
    body.pointer("const u8*", "from", {kernel.loads[0].slot, from.offset * bytes});
    body.pointer("u8*", "to", {kernel.stores[0].slot, to.offset * bytes});
    std::string matrix;
    std::int64_t matrices = 1;
    for (int axis = space.rank() - 1; axis >= 0; --axis) {
      if (axis == turned.rows || axis == turned.columns) continue;
      const std::int64_t size = space.sizes[at(axis)];
      matrix += fmt::format("    from += number % {} * {}, to += number % {} * {}, number /= {};\n", size,
                            from.strides[at(axis)], size, to.strides[at(axis)], size);
      matrices *= size;
    }
    OneLaunch launch;
    launch.includes = "#include \"turn.cuh\"\n";
    launch.body = fmt::format("struct Body {{\n  using Index = {};\n", body.wide() ? "i64" : "int") +
                  constant("kBytes", bytes) + constant("kFromUnit", unit_of(space, from, turned.columns, bytes)) +
                  constant("kToUnit", unit_of(space, to, turned.rows, bytes)) + constant("kRows", rows, "Index") +
                  constant("kColumns", columns, "Index") +
                  constant("kFromPitch", from.strides[at(turned.rows)], "Index") +
                  constant("kToPitch", to.strides[at(turned.columns)], "Index") + body.pointers() +
                  "  __device__ void matrix(Index number, Index& from, Index& to) const {\n" + matrix + "  }\n};\n";
    launch.call = "turn";
    launch.bounds = std::to_string(kThreads);
    launch.arguments = body.arguments();
    launch.blocks = matrices * ceil_div(rows, side) * ceil_div(columns, side);
    launch.threads = kThreads;
    launch.variant = "turn";
    return launch;
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    return code_of(*one_launch(plan, choice));
  }
};

}  // namespace

const Family& turn() {
  static const Turn family;
  return family;
}

}  // namespace nixie::cuda
