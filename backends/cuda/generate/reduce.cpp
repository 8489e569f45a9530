// Writes programs around reduce.cuh: how threads, blocks and launches share a reduction.
#include <algorithm>
#include <set>

#include "nixie/backends/cuda/generate/accumulators.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/reduce_geometry.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// Positions a thread loads before it uses the first: about six pieces of 16 bytes in flight.
int unroll_of(int loads) { return loads <= 1 ? 4 : loads <= 3 ? 2 : 1; }

// The same where a thread keeps its lanes and two blocks on an SM do all of the work: as many as registers hold.
int unroll_beside(int loads, int fixed_words) {
  constexpr int kMostLoaded = 72, kWordsOfLoad = 4;
  int steps = 4;
  while (steps > 1 && fixed_words + steps * loads * kWordsOfLoad > kMostLoaded) steps /= 2;
  return steps;
}

// The parts of a stage that another program left.
const Parts* parts_of(const std::vector<Parts>& merges, int stage) {
  const auto found = std::ranges::find(merges, stage, &Parts::stage);
  return found == merges.end() ? nullptr : &*found;
}

// Where launches begin: before a full stage that needs what a reduction left that was shared, by this program's blocks
// or another's.
std::vector<int> launch_starts(const Kernel& kernel, const std::vector<Parts>& merges, int splits) {
  const bool shared = splits > 1 || !merges.empty();
  std::vector<int> starts{0};
  bool reduced = false;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
    if (shared && kernel.stages[s].full && reduced && !parts_of(merges, static_cast<int>(s))) {
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

// The frames that stages are written into.
struct Frames {
  Frame full, kept;
};

// How many a stage makes: at each position, and once.
struct Loads {
  int moving = 0, fixed = 0;
};

std::string finish_member(const Stage& stage, int s) {
  if (stage.reductions.empty()) return {};
  return fmt::format(
      "  void finish(Stage<{0}>, const Accumulators{0}& accumulators, Carried& carried) const {{\n{1}  }}\n", s,
      accumulator_code(stage).finish);
}

// The members of a stage that merges what another program left.
std::string merging_members(BodyWriter& body, const Stage& stage, const Parts& parts) {
  const int s = parts.stage;
  const std::string left = body.pointer("const char*", fmt::format("left{}", s), {parts.slot, 0});
  return "\n" + accumulators_struct(stage, fmt::format("Accumulators{}", s)) +
         fmt::format("  static Accumulators{0} accumulators_of(Stage<{0}>);\n", s) +
         fmt::format("  const char* left(Stage<{}>) const {{ return {}; }}\n", s, left) +
         fmt::format("  int left_parts(Stage<{}>) const {{ return {}; }}\n", s, parts.count) + finish_member(stage, s);
}

// The members of one stage, and its loads.
std::string stage_members(BodyWriter& body, const Kernel& kernel, int s, const Frames& frames, Loads& loads) {
  const Stage& stage = kernel.stages[at(s)];
  const IterationSpace& space = body.space();
  const Frame& frame = stage.full ? frames.full : frames.kept;
  const BodyWriter::Code code = body.stages({s}, frame);
  loads = {code.loads, code.fixed};
  const std::string kept = body.positions(frame, "kept", 0, space.kept);
  const std::string carried = fmt::format("Carried (&carried)[{}]", frames.kept.lanes);
  std::string text = fmt::format("\n  struct Loads{} {{\n{}  }};\n", s, code.members);
  if (!stage.full)
    return text +
           fmt::format("  void run(Stage<{}>, Index kept, {}, bool leads) const {{\n    Loads{} loads;\n{}{}{}  }}\n",
                       s, carried, s, kept, code.load, code.run);
  const std::string positions = kept + body.positions(frame, "reduced", space.kept, space.rank());
  text += fmt::format("  struct Fixed{} {{\n{}  }};\n", s, code.fixed_members);
  text += accumulators_struct(stage, fmt::format("Accumulators{}", s));
  text += fmt::format(
      "  static Loads{0} loads_of(Stage<{0}>);\n  static Fixed{0} fixed_of(Stage<{0}>);\n  static Accumulators{0} "
      "accumulators_of(Stage<{0}>);\n",
      s);
  text += fmt::format("  void load(Stage<{}>, Index kept, Index reduced, Fixed{}& fixed) const {{\n{}{}  }}\n", s, s,
                      positions, code.fixed_load);
  text += fmt::format("  void load(Stage<{}>, Index kept, Index reduced, Loads{}& loads) const {{\n{}{}  }}\n", s, s,
                      positions, code.load);
  text += fmt::format(
      "  void run(Stage<{0}>, Index kept, Index reduced, const Fixed{0}& fixed, const Loads{0}& loads,\n           "
      "{1}, Accumulators{0} (&accumulators)[{2}], int seen) const {{\n{3}{4}  }}\n",
      s, carried, frames.kept.lanes, positions, code.run);
  return text + finish_member(stage, s);
}

// Rows where memory runs along a reduced axis, columns where it runs along a kept one.
bool is_columns(const BodyWriter& body) {
  const IterationSpace& space = body.space();
  return space.kept > 0 && !(space.rank() > space.kept && body.contiguous_along(space.rank() - 1)) &&
         (space.rank() == space.kept || body.contiguous_along(space.kept - 1));
}

// Words in the registers of a thread that leave room for two blocks of 256 threads on an SM: with one, too little is on
// its way.
constexpr int kMostHeldByTwo = 128;
constexpr int kMostWords = 24;  // that the lanes of a thread accumulate in registers

Frames frames_of(const BodyWriter& body, bool columns, int words) {
  const IterationSpace& space = body.space();
  Frames frames{.full = {.lane_axis = columns ? space.kept - 1 : space.rank() - 1, .carried_per_lane = columns},
                .kept = {.kept_only = true, .leader = "leads"}};
  Frame &full = frames.full, &kept = frames.kept;
  full.moving = {space.kept, space.rank()};
  if (space.rank() == 0 || (!columns && space.rank() == space.kept)) full.lane_axis = -1;
  full.lanes = body.lanes_along(full.lane_axis);
  while (columns && full.lanes > 1 && full.lanes * words > kMostWords) full.lanes /= 2;
  if (full.lanes == 1) full.lane_axis = -1, full.carried_per_lane = false;
  if (columns && full.lanes > 1) kept.lane_axis = full.lane_axis, kept.lanes = full.lanes, kept.carried_per_lane = true;
  return frames;
}

// Whether a thread that goes along the reduced axes keeps its lanes of the last of them, so that what depends on these
// alone (numbers of a channel, where all pixels of all channels are reduced) is loaded once.
bool keeps_lanes(const IterationSpace& space, const Frame& frame, const Geometry& g, std::size_t loads) {
  constexpr std::ptrdiff_t kMostWords = 64;  // that a thread keeps
  const int last = space.rank() - 1;
  if (frame.lane_axis != last || frame.moving->first >= last ||
      g.reduced_threads % (space.sizes[at(last)] / frame.lanes) != 0)
    return false;
  const auto kept =
      std::count_if(space.paths.begin(), space.paths.begin() + std::ptrdiff_t(loads), [&](const Path& path) {
        return std::all_of(path.strides.begin(), path.strides.begin() + last, [](auto stride) { return stride == 0; });
      });
  return kept * frame.lanes <= kMostWords;
}

bool only_stores(const Stage& stage) { return stage.full && stage.reductions.empty() && stage.carries.empty(); }

// Whether the blocks that share reductions, all of which run at a time, may go on together in the same launch: the last
// stage only stores, and what is computed once from a result reads nothing that one of the blocks has stored by then.
bool may_meet(const BodyWriter& body, const Kernel& kernel, const std::vector<int>& starts) {
  if (starts.size() < 2 || at(starts.back()) + 1 != kernel.stages.size() || !only_stores(kernel.stages.back()))
    return false;
  bool reduced = false;
  for (const Stage& stage : kernel.stages) {
    for (const Instruction& in : stage.body)
      if (reduced && !stage.full && in.primitive == Primitive::load && body.written(kernel.loads[at(in.index)].slot))
        return false;
    reduced |= !stage.reductions.empty();
  }
  return true;
}

// Numbers of a channel that the last stage needs for each position: with so many of them a thread of a launch of its
// own loads more of these than of images.
constexpr int kManyNumbers = 6;

int carried_by(const Stage& stage) {
  std::set<int> carried;
  for (const Instruction& in : stage.body)
    if (in.primitive == Primitive::carried) carried.insert(in.index);
  return static_cast<int>(carried.size());
}

// Whether blocks that share kept positions may each merge all parts that other
// programs left and go on with their share: nothing else is reduced, and what is
// computed once neither reads what a block has stored by then nor is read back.
bool may_go_on(const BodyWriter& body, const Kernel& kernel, const std::vector<Parts>& merges) {
  if (merges.empty() || !only_stores(kernel.stages.back())) return false;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
    const Stage& stage = kernel.stages[s];
    const bool last = s + 1 == kernel.stages.size(), merged = parts_of(merges, static_cast<int>(s)) != nullptr;
    if (!last && stage.full && !merged) return false;
    for (const Instruction& in : stage.body)
      if (!last && !merged && in.primitive == Primitive::load && body.written(kernel.loads[at(in.index)].slot))
        return false;
    for (const Store& store : stage.stores)
      for (const Instruction& in : kernel.stages.back().body)
        if (!last && in.primitive == Primitive::load &&
            kernel.loads[at(in.index)].slot == kernel.stores[at(store.access)].slot)
          return false;
  }
  return true;
}

// The text of Body, and what launches it has.
struct Written {
  std::string body;
  std::vector<Argument> arguments;
  std::int64_t scratch_bytes = 0, tiles = 0, pieces = 0;  // no tiles: nothing to do
  int threads = 0, splits = 1;
  bool meets = false;
  std::vector<int> starts = {};  // of launches: their first stages
  std::string bounds;
};

// `chip`: where blocks may meet; without one the text depends on sizes as little as it can.
Written write(const Plan& plan, const Kernel& kernel, const std::vector<Parts>& merges, const Chip* chip) {
  const bool sizes_are_data = !chip;
  BodyWriter body(plan, kernel);
  const IterationSpace& space = body.space();
  const bool columns = is_columns(body);
  int words = 1, bytes = 0;  // each stage's accumulators meet in shared memory of their own
  bool reduces = false;      // whatever parts there are
  for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
    const AccumulatorCode accumulators = accumulator_code(kernel.stages[s]);
    if (!kernel.stages[s].reductions.empty()) bytes += accumulators.bytes;
    if (parts_of(merges, static_cast<int>(s))) continue;
    words = std::max(words, accumulators.words);
    reduces |= !kernel.stages[s].reductions.empty();
  }
  Frames frames = frames_of(body, columns, words);
  const int lanes = frames.kept.lanes;
  bytes = std::max(bytes, 4);
  const std::int64_t kept_groups = body.groups(frames.kept, 0, space.kept);
  const std::int64_t reduced_groups = body.groups(frames.full, space.kept, space.rank());
  const auto geometry_of = [&](int threads) {
    return sizes_are_data && kept_groups == 1
               ? to_one_value(reduced_groups)
               : geometry(kept_groups, reduced_groups, columns, lanes, bytes * lanes, threads);
  };
  const bool keeps =
      !columns && !sizes_are_data && keeps_lanes(space, frames.full, geometry_of(256), kernel.loads.size());
  if (keeps) --frames.full.moving->second;
  const int stages = static_cast<int>(kernel.stages.size());
  std::string members, unrolls, left;
  std::vector<int> unroll(kernel.stages.size());
  int held = 0, loaded = 0, carried = 0;  // words in the registers of a thread that reduces
  std::vector<Loads> loads(kernel.stages.size());
  for (int s = 0; s < stages; ++s) {
    const Parts* parts = parts_of(merges, s);
    const std::size_t i = at(s);
    members +=
        parts ? merging_members(body, kernel.stages[i], *parts) : stage_members(body, kernel, s, frames, loads[i]);
    if (parts) left += fmt::format(" || stage == {}", s);
    unroll[i] = keeps ? unroll_beside(loads[i].moving, loads[i].fixed * frames.full.lanes) : unroll_of(loads[i].moving);
    if (!kernel.stages[i].reductions.empty() && !parts) {
      loaded = std::max(loaded, 4 * loads[i].moving * unroll[i]);
      held = std::max(held, lanes * (words + loads[i].fixed + carried) + 4 * loads[i].moving * unroll[i]);
    }
    carried += static_cast<int>(kernel.stages[i].carries.size() + kernel.stages[i].reductions.size());
  }
  // A thousand threads on an SM hide memory's latency, where what each holds fits 64 registers.
  const int threads = columns && reduces && held <= 24 ? 512 : 256;
  const bool ahead = columns && threads == 256 && held + loaded <= 48;  // loads of the next positions, too
  Geometry g = geometry_of(threads);
  const bool goes_on = chip && !reduces && loads.back().fixed + carried_by(kernel.stages.back()) >= kManyNumbers &&
                       may_go_on(body, kernel, merges);
  if (!reduces && !goes_on) g.splits = 1;
  std::vector<int> starts = launch_starts(kernel, merges, g.splits);
  const int on_an_sm = held <= kMostHeldByTwo ? 2 : 1;
  const bool meets = chip && g.splits > 1 && merges.empty() && on_an_sm == 2 && g.tiles * g.splits <= 2 * chip->sms &&
                     may_meet(body, kernel, starts);
  const bool meets_again = meets && starts.size() > 2;
  if (meets || goes_on) starts.resize(1);
  for (int s = 0; s < stages; ++s) {
    int& steps = unroll[at(s)];
    if (!sizes_are_data && reduced_groups <= std::int64_t{steps} * g.reduced_threads * g.splits) steps = 1;
    unrolls += fmt::format("stage == {} ? {} : ", s, steps);
  }
  // Where a full stage that only stores is a launch of its own, no thread goes round twice.
  const std::int64_t piece = std::int64_t{g.reduced_threads} * unroll.back();
  Written result;
  result.pieces = sizes_are_data ? 1 : (reduced_groups + piece - 1) / piece;
  const auto scratch = [&](const std::string& type, const char* name, std::int64_t size) {
    body.pointer(type, name, {Argument::kScratch, result.scratch_bytes});
    result.scratch_bytes += (size + 255) / 256 * 256;
  };
  const bool shares = reduces && g.splits > 1;
  if (shares) scratch("u32*", "arrived", g.tiles * 4);
  if (shares || starts.size() > 1)
    scratch("u32*", "kept_values", kept_groups * lanes * 8 * static_cast<std::int64_t>(kernel.carried.size()));
  // Where blocks meet again, one that has gone on leaves its next part while others still merge those before.
  const std::int64_t part_bytes = round_up(g.tiles * g.kept_threads * g.splits * lanes * bytes, 256);
  if (shares) scratch("char*", "parts", meets_again ? 2 * part_bytes : part_bytes);

  std::string& text = result.body;
  text = "struct Body {\n";
  text += fmt::format("  using Index = {};\n", body.wide() ? "long long" : "int");
  text += fmt::format("  static constexpr Index kKept = {};\n  static constexpr Index kReduced = {};\n", kept_groups,
                      reduced_groups);
  text += fmt::format("  static constexpr int kStages = {}, kKeptLanes = {}, kSplits = {}, kPieces = {};\n", stages,
                      lanes, g.splits, result.pieces);
  text += fmt::format("  static constexpr int kKeptThreads = {}, kReducedThreads = {};\n", g.kept_threads,
                      g.reduced_threads);
  text += fmt::format("  static constexpr bool kKeptFirst = {}, kAhead = {}, kMeets = {}, kEndsBack = {};\n",
                      g.kept_first, ahead, meets, meets || goes_on);
  text += fmt::format("  static constexpr unsigned kNextParts = {};\n", meets_again ? part_bytes : 0);
  text += fmt::format("  static constexpr int unroll(int stage) {{ return {}1; }}\n", unrolls);
  text += fmt::format("  static constexpr bool merges(int stage) {{ return false{}; }}\n", left);
  text += list_of(kernel, "is_full", [](const Stage& stage) { return stage.full; });
  text += list_of(kernel, "reduces", [](const Stage& stage) { return !stage.reductions.empty(); });
  text += "  struct Carried {\n" + body.carried_members() + "  };\n" + body.pointers() + members + "};\n";

  result.arguments = body.arguments();
  result.tiles = kept_groups > 0 ? g.tiles : 0;
  result.threads = g.threads();
  result.splits = g.splits;
  result.starts = starts;
  result.meets = meets;
  result.bounds = fmt::format("{}, {}", g.threads(), on_an_sm);
  return result;
}

constexpr const char* kIncludes = "#include \"reduce.cuh\"\n#include \"philox.cuh\"\n";

}  // namespace

KernelCode generate_reduce(const Plan& plan, const Kernel& kernel, const Chip& chip, const std::vector<Parts>& merges) {
  Written written = write(plan, kernel, merges, &chip);
  KernelCode result;
  result.source = kIncludes + ("\n" + written.body);
  const int stages = static_cast<int>(kernel.stages.size());
  const std::vector<int>& starts = written.starts;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int first = starts[i], last = i + 1 < starts.size() ? starts[i + 1] : stages;
    const std::string name = fmt::format("kernel{}", i);
    const bool spreads = first > 0 && last == stages && last == first + 1 && only_stores(kernel.stages.back());
    result.source += entry_point(name, written.bounds,
                                 spreads ? fmt::format("spread<{}>(body, blockIdx.x)", first)
                                         : fmt::format("reduce<{}, {}>(body, blockIdx.x)", first, last));
    if (written.tiles > 0)
      result.launches.push_back({.entry = name,
                                 .blocks = written.tiles * (spreads ? written.pieces : written.splits),
                                 .threads = written.threads,
                                 .meets = written.meets});
  }
  result.arguments = std::move(written.arguments);
  result.scratch_bytes = written.scratch_bytes;
  result.variant = "reduce";
  return result;
}

std::optional<OneLaunch> reduce_launch(const Plan& plan, const Kernel& kernel, const std::vector<Parts>& merges) {
  Written written = write(plan, kernel, merges, nullptr);
  if (written.starts.size() > 1) return {};
  return OneLaunch{.includes = kIncludes,
                   .body = std::move(written.body),
                   .call = fmt::format("reduce<0, {}>", kernel.stages.size()),
                   .bounds = written.bounds,
                   .arguments = std::move(written.arguments),
                   .blocks = written.tiles * written.splits,
                   .threads = written.threads,
                   .scratch_bytes = written.scratch_bytes,
                   .variant = "reduce"};
}

}  // namespace nixie::cuda
