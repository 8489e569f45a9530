// Writes programs around reduce.cuh: how threads, blocks and launches share a reduction.
#include <algorithm>
#include <bit>

#include "backends/cuda/codegen.h"

namespace nixie::cuda {
namespace {

// Results must not depend on the device, so neither may the shape of the work: this many blocks fill any of them.
constexpr std::int64_t kEnoughBlocks = 512;

struct Geometry {
  int kept_threads = 1, reduced_threads = 256;
  bool kept_first = false;  // neighbouring threads take neighbouring kept positions
  std::int64_t tiles = 1;
  int splits = 1;
  int threads() const { return kept_threads * reduced_threads; }
};

int power_of_two_at_least(std::int64_t n, int most) {
  return n >= most ? most : static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

// Parts that share one kept position's work: enough to fill the device, each with several steps to do.
int splits_for(std::int64_t tiles, std::int64_t steps) {
  const std::int64_t wanted = std::min(kEnoughBlocks / std::max<std::int64_t>(tiles, 1), steps / 4);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, 256));
}

// `bytes`: what a thread accumulates; in columns all of it meets in shared memory.
Geometry geometry(std::int64_t kept, std::int64_t reduced, bool kept_first, std::int64_t bytes) {
  Geometry g;
  g.kept_first = kept_first;
  if (kept_first) {
    g.kept_threads = power_of_two_at_least(kept, 32);
    g.reduced_threads = std::min(256 / g.kept_threads, power_of_two_at_least(reduced, 256));
    while (g.reduced_threads > 1 && g.threads() * bytes > 40 * 1024) g.reduced_threads /= 2;
  } else {
    // A thread has about four steps; more threads where rows are few.
    const std::int64_t per_thread = kept >= 4096 ? 4 : 1;
    g.reduced_threads = power_of_two_at_least((reduced + per_thread - 1) / per_thread, 256);
    g.kept_threads = std::max(1, 128 / g.reduced_threads);
    g.kept_threads = std::min(g.kept_threads, power_of_two_at_least(kept, 128));
  }
  while (g.threads() < 32) g.kept_threads *= 2;
  g.tiles = (kept + g.kept_threads - 1) / g.kept_threads;
  g.splits = splits_for(g.tiles, (reduced + g.reduced_threads - 1) / g.reduced_threads);
  return g;
}

// Where launches begin: before a full stage that needs what a shared reduction left.
std::vector<int> launch_starts(const Kernel& kernel, int splits) {
  std::vector<int> starts{0};
  bool reduced = false;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
    if (splits > 1 && kernel.stages[s].full && reduced) {
      starts.push_back(static_cast<int>(s));
      reduced = false;
    }
    reduced |= !kernel.stages[s].reductions.empty();
  }
  return starts;
}

std::string list_of(const Kernel& kernel, const char* name, bool (*holds)(const Stage&)) {
  std::string text = fmt::format("  static constexpr bool {}(int stage) {{ return", name);
  std::string any;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s)
    if (holds(kernel.stages[s])) any += fmt::format("{}stage == {}", any.empty() ? " " : " || ", s);
  return text + (any.empty() ? " false" : any) + "; }\n";
}

// The members of one stage.
std::string stage_members(BodyWriter& body, const Kernel& kernel, int s, const Frame& full, const Frame& kept) {
  const Stage& stage = kernel.stages[static_cast<std::size_t>(s)];
  const Walk& walk = body.walk();
  const Frame& frame = stage.full ? full : kept;
  const BodyWriter::Code code = body.stages({s}, frame);
  std::string positions = body.positions(frame, "kept", 0, walk.kept);
  const std::string carried = fmt::format("Carried (&carried)[{}]", kept.lanes);
  std::string text = fmt::format("\n  struct Loads{} {{\n{}  }};\n", s, code.members);
  if (!stage.full)
    return text +
           fmt::format("  void run(Stage<{}>, Index kept, {}, bool leads) const {{\n    Loads{} loads;\n{}{}{}  }}\n",
                       s, carried, s, positions, code.load, code.run);
  positions += body.positions(frame, "reduced", walk.kept, walk.rank());
  const BodyWriter::Accumulators accumulators = body.accumulators(stage);
  text +=
      fmt::format("  struct Accumulators{0} {{\n{1}    void merge(const Accumulators{0}& next) {{\n{2}    }}\n  }};\n",
                  s, accumulators.members, accumulators.merge);
  text += fmt::format(
      "  static Loads{0} loads_of(Stage<{0}>);\n  static Accumulators{0} accumulators_of(Stage<{0}>);\n", s);
  text += fmt::format("  void load(Stage<{}>, Index kept, Index reduced, Loads{}& loads) const {{\n{}{}  }}\n", s, s,
                      positions, code.load);
  text += fmt::format(
      "  void run(Stage<{}>, Index kept, Index reduced, const Loads{}& loads, {},\n           Accumulators{} "
      "(&accumulators)[{}]) const {{\n{}{}  }}\n",
      s, s, carried, s, kept.lanes, positions, code.run);
  if (!stage.reductions.empty())
    text +=
        fmt::format("  void finish(Stage<{}>, const Accumulators{}& accumulators, Carried& carried) const {{\n{}  }}\n",
                    s, s, accumulators.finish);
  return text;
}

}  // namespace

KernelCode generate_reduce(const Plan& plan, const Kernel& kernel) {
  BodyWriter body(plan, kernel);
  const Walk& walk = body.walk();
  // Rows where memory runs along a reduced axis, columns where it runs along a kept one.
  const bool columns = walk.kept > 0 && !(walk.rank() > walk.kept && body.contiguous_along(walk.rank() - 1)) &&
                       (walk.rank() == walk.kept || body.contiguous_along(walk.kept - 1));
  Frame full{.lane_axis = columns ? walk.kept - 1 : walk.rank() - 1, .carried_per_lane = columns};
  if (walk.rank() == 0 || (!columns && walk.rank() == walk.kept)) full.lane_axis = -1;
  full.lanes = body.lanes_along(full.lane_axis);
  int accumulators = 1;
  for (const Stage& stage : kernel.stages) accumulators = std::max(accumulators, body.accumulators(stage).count);
  while (columns && full.lanes > 1 && full.lanes * accumulators > 12) full.lanes /= 2;  // they live in registers
  if (full.lanes == 1) full.lane_axis = -1, full.carried_per_lane = false;
  Frame kept{.kept_only = true, .leader = "leads"};
  if (columns && full.lanes > 1) kept.lane_axis = full.lane_axis, kept.lanes = full.lanes, kept.carried_per_lane = true;

  const std::int64_t kept_groups = body.groups(kept, 0, walk.kept);
  const std::int64_t reduced_groups = body.groups(full, walk.kept, walk.rank());
  const Geometry g = geometry(kept_groups, reduced_groups, columns, 24LL * accumulators * kept.lanes);

  std::string members;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s)
    members += stage_members(body, kernel, static_cast<int>(s), full, kept);

  KernelCode result;
  const auto scratch = [&](const std::string& type, const char* name, std::int64_t bytes) {
    body.pointer(type, name, {Argument::kScratch, result.scratch_bytes});
    result.scratch_bytes += (bytes + 255) / 256 * 256;
  };
  if (g.splits > 1) {  // an accumulator has at most three 8-byte fields, a carried value one
    scratch("u32*", "arrived", g.tiles * 4);
    scratch("Carried*", "kept_values", kept_groups * kept.lanes * 8 * static_cast<std::int64_t>(kernel.carried.size()));
    scratch("char*", "parts", g.tiles * g.kept_threads * g.splits * kept.lanes * 24 * accumulators);
  }

  std::string& text = result.source;
  text = "#include \"reduce.cuh\"\n#include \"philox.cuh\"\n\nstruct Body {\n";
  text += fmt::format("  using Index = {};\n", body.wide() ? "long long" : "int");
  text += fmt::format("  static constexpr Index kKept = {}, kReduced = {};\n", kept_groups, reduced_groups);
  text += fmt::format("  static constexpr int kStages = {}, kKeptLanes = {}, kUnroll = {}, kSplits = {};\n",
                      kernel.stages.size(), kept.lanes, reduced_groups > 4 * g.reduced_threads * g.splits ? 4 : 1,
                      g.splits);
  text += fmt::format("  static constexpr int kKeptThreads = {}, kReducedThreads = {};\n", g.kept_threads,
                      g.reduced_threads);
  text += fmt::format("  static constexpr bool kKeptFirst = {};\n", g.kept_first);
  text += list_of(kernel, "is_full", [](const Stage& stage) { return stage.full; });
  text += list_of(kernel, "reduces", [](const Stage& stage) { return !stage.reductions.empty(); });
  text += "  struct Carried {\n" + body.carried_members() + "  };\n" + body.pointers() + members + "};\n";

  const std::vector<int> starts = launch_starts(kernel, g.splits);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int last = i + 1 < starts.size() ? starts[i + 1] : static_cast<int>(kernel.stages.size());
    const std::string name = fmt::format("kernel{}", i);
    text += entry_point(name, fmt::format("{}, 1", g.threads()), fmt::format("reduce<{}, {}>(body)", starts[i], last));
    if (kept_groups > 0) result.launches.push_back({name, g.tiles * g.splits, g.threads()});
  }
  result.arguments = body.arguments();
  return result;
}

}  // namespace nixie::cuda
