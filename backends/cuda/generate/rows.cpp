// Writes the programs of heads that compute whole rows: scan.cuh and argsort.cuh.
#include <algorithm>
#include <bit>
#include <cctype>

#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

std::int64_t power_of_two(std::int64_t least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
}

// The members of Body that rows.cuh reads.
std::string row_members(const Plan& plan, const Kernel& kernel, int axis, BodyWriter& body) {
  const Operand& x = kernel.head->operands[0];
  const Access& y = kernel.stores[0];
  const Dtype to = dtype_of(plan, y.slot);
  add_operands(body, plan, *kernel.head);
  body.pointer(fmt::format("{}*", type_name(to)), "result", {y.slot, y.offset * size_of(to)});
  return fmt::format("  using Result = {};\n", type_name(to)) + constant("kRank", x.shape.rank()) +
         constant("kAxis", axis) + constant("kLength", x.shape[axis], "i64") +
         constant("kRows", x.shape.with(axis, 1).size(), "i64") + per_axis("size", x.shape.sizes(), "i64") +
         per_axis("operand0_stride", x.strides, "i64") + per_axis("result_stride", y.strides, "i64");
}

}  // namespace

std::string fold_name(ReduceKind kind, Dtype type) {
  std::string name(to_string(kind));
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return fmt::format("{}<{}>", name, type_name(type));
}

bool computes_rows(const Head& head) {
  return std::holds_alternative<Scan>(head.op) || std::holds_alternative<ArgSort>(head.op);
}

bool only_stores_head(const Kernel& kernel) {
  return kernel.head && kernel.stages.size() == 1 && kernel.stages[0].body.size() == 1 && kernel.stores.size() == 1 &&
         kernel.stores[0].inside.empty();
}

KernelCode generate_scan(const Plan& plan, const Kernel& kernel) {
  constexpr int kItems = 4;
  const auto& scan = std::get<Scan>(kernel.head->op);
  const std::int64_t length = kernel.domain[scan.axis];
  const std::int64_t threads = std::clamp<std::int64_t>(power_of_two(ceil_div(length, kItems)), 32, 256);
  const bool positions = gives_position(scan.kind);
  const Dtype value = compute_dtype(positions ? dtype_of(plan, kernel.head->operands[0]) : kernel.head->dtype);
  BodyWriter body(plan, kernel, true);
  const std::string members = row_members(plan, kernel, scan.axis, body);
  KernelCode code;
  code.source = "#include \"scan.cuh\"\n\nstruct Body {\n" + members;
  code.source +=
      fmt::format("  using Value = {};\n  using Fold = {};\n", type_name(value), fold_name(scan.kind, value));
  code.source += constant("kReverse", scan.reverse, "bool") + constant("kExclusive", scan.exclusive, "bool") +
                 constant("kPositions", positions, "bool") + constant("kThreads", threads) + constant("kItems", kItems);
  code.source += body.pointers() + "};\n" + entry_point("kernel0", std::to_string(threads), "scan(body)");
  code.arguments = body.arguments();
  code.variant = "scan";
  if (kernel.domain.size() > 0)
    code.launches.push_back({"kernel0", kernel.domain.size() / length, static_cast<int>(threads)});
  return code;
}

KernelCode generate_argsort(const Plan& plan, const Kernel& kernel) {
  constexpr std::int64_t kMostInTile = 2048;  // 24 KB of shared memory with keys of 64 bits
  const auto& sort = std::get<ArgSort>(kernel.head->op);
  const Shape& shape = kernel.head->operands[0].shape;
  const std::int64_t length = shape[sort.axis], rows = shape.with(sort.axis, 1).size();
  const std::int64_t tile = std::clamp<std::int64_t>(power_of_two(length), 2, kMostInTile);
  const std::int64_t tiles = std::max<std::int64_t>(ceil_div(length, tile), 1);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(tile / 2, 32, 512));
  const Dtype value = compute_dtype(dtype_of(plan, kernel.head->operands[0]));
  const char* key = size_of(value) == 8 ? "u64" : "u32";
  BodyWriter body(plan, kernel, true);
  const std::string members = row_members(plan, kernel, sort.axis, body);
  KernelCode code;
  if (tiles > 1) {
    const auto buffer = [&](const std::string& type, const std::string& name, std::int64_t bytes) {
      body.pointer(type + "*", name, {Argument::kScratch, code.scratch_bytes});
      code.scratch_bytes += round_up(rows * length * bytes, 256);
    };
    for (const char* number : {"0", "1"}) {
      buffer(key, std::string("keys") + number, size_of(value));
      buffer("u32", std::string("positions") + number, 4);
    }
  }
  code.source = "#include \"argsort.cuh\"\n\nstruct Body {\n" + members;
  code.source += fmt::format("  using Value = {};\n  using Key = {};\n", type_name(value), key);
  code.source += constant("kDescending", sort.descending, "bool") +
                 constant("kWanted", kernel.domain[sort.axis], "i64") + constant("kTile", tile) +
                 constant("kTiles", tiles) + constant("kThreads", threads);
  code.source += body.pointers() + "};\n" + entry_point("kernel0", std::to_string(threads), "sort_tiles(body)");
  code.arguments = body.arguments();
  code.variant = "argsort";
  if (kernel.domain.size() == 0) return code;
  code.launches.push_back({"kernel0", rows * tiles, threads});
  for (int pass = 0; tile << pass < length; ++pass) {
    const std::string entry = fmt::format("merge{}", pass);
    code.source += entry_point(entry, std::to_string(threads),
                               fmt::format("merge_runs<Body, {}, {}>(body)", pass, tile << (pass + 1) >= length));
    code.launches.push_back({entry, ceil_div(rows * length, threads), threads});
  }
  return code;
}

}  // namespace nixie::cuda
