// Runs a program's stages over its tiles. How the work is cut depends on the kernel alone, never on the threads.
#include <algorithm>

#include "nixie/backends/cpu/lanes/vector.h"
#include "nixie/backends/cpu/stages/executor.h"

namespace nixie::cpu {
namespace {

// Lanes that are worth handing to another thread.
constexpr std::int64_t kPartLanes = 32 * 1024;
// Parts of one kept tile: bounds what has to be joined.
constexpr std::int64_t kMostChunks = 128;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Part `part` of `parts` of a range, in whole steps.
std::int64_t share(std::int64_t part, std::int64_t parts, std::int64_t total) {
  return static_cast<std::int64_t>(static_cast<__int128>(total) * part / parts);
}

std::int64_t lanes_along(const Box& box, const AxisGroup& group) {
  std::int64_t lanes = 1;
  for (int axis = group.begin; axis < group.end; ++axis) lanes *= box.extent[at(axis)];
  return lanes;
}

// Memory for the partial results of a stage on one kept tile.
class FoldMemory {
 public:
  explicit FoldMemory(int cells) : stride_(kTileLanes), data_(at(cells * kTileLanes)) {}
  Cells cells(const FoldStep& step) { return {data_.data() + step.cell * stride_, stride_}; }

 private:
  std::int64_t stride_;
  std::vector<double> data_;
};

// A range of reduced tiles folded into one set of cells.
class Folder {
 public:
  Folder(const Bound& bound, const StageProgram& stage, FoldMemory& memory, FoldMemory& scratch, std::int64_t kept)
      : bound_(bound), stage_(stage), memory_(memory), scratch_(scratch), kept_(kept) {
    for (const FoldStep& step : stage.folds) start_fold(step.fold, type_of(step), kept, memory.cells(step));
  }

  void add(TileMachine& machine, const TileShape& shape, std::int64_t reduced_tile) {
    for (const FoldStep& step : stage_.folds) {
      const bool finds = step.fold == Fold::argmax || step.fold == Fold::argmin;
      const Program& program = bound_.program;
      const std::int32_t* positions =
          finds ? machine.positions(program.reduced_position_view(), program.geometry().reduced_tile(reduced_tile))
                : nullptr;
      fold_tile(step.fold, type_of(step), machine.lanes(step.value), shape, positions, scratch_.cells(step));
      join_folds(step.fold, type_of(step), kept_, memory_.cells(step), count_, scratch_.cells(step), shape.reduced);
    }
    count_ += shape.reduced;
  }

  void join(FoldMemory& other, std::int64_t other_count) {
    for (const FoldStep& step : stage_.folds)
      join_folds(step.fold, type_of(step), kept_, memory_.cells(step), count_, other.cells(step), other_count);
    count_ += other_count;
  }

  void finish(Carried carried) const {
    for (const FoldStep& step : stage_.folds)
      for (const Reduction& result : step.results)
        finish_fold(step.fold, result.kind, memory_.cells(step), count_, kept_, carried[result.carried],
                    bound_.program.kernel().carried[at(result.carried)]);
  }

  std::int64_t count() const { return count_; }

 private:
  Dtype type_of(const FoldStep& step) const { return stage_.steps[at(step.value)].code.type; }

  const Bound& bound_;
  const StageProgram& stage_;
  FoldMemory &memory_, &scratch_;
  std::int64_t kept_, count_ = 0;
};

// Runs a full stage on reduced tiles [first, last) of a kept tile. `ahead(tile)` names what comes later than the next.
template <class Ahead>
void run_full(const Bound& bound, TileMachine& machine, const StageProgram& stage, std::int64_t kept_tile,
              std::int64_t first, std::int64_t last, Folder& folder, const Ahead& ahead) {
  const Geometry& geometry = bound.program.geometry();
  Box box = geometry.kept_tile(kept_tile), next = box;
  for (std::int64_t tile = first; tile < last; ++tile) {
    geometry.move(box, tile);
    if (tile + 1 < last) {
      geometry.move(next, tile + 1);
      machine.expect(stage, next);
    }
    ahead(tile);
    const TileShape shape{lanes_along(box, geometry.kept()), lanes_along(box, geometry.reduced()), geometry.columns()};
    machine.run(box, shape);
    folder.add(machine, shape, tile);
  }
}

void run_kept(const Bound& bound, TileMachine& machine, std::int64_t kept_tile) {
  const Box box = bound.program.geometry().kept_tile(kept_tile);
  machine.run(box, {lanes_along(box, bound.program.geometry().kept()), 1, false});
}

std::int64_t kept_lanes(const Geometry& geometry, std::int64_t kept_tile) {
  return lanes_along(geometry.kept_tile(kept_tile), geometry.kept());
}

// While the last stage runs on what is in cache, memory is free for the first stage's reads of the next kept tile: for
// all of them where the caches hold two kept tiles, else for the first.
class NextKeptTile {
 public:
  NextKeptTile(const Bound& bound, TileMachine& machine) : geometry_(bound.program.geometry()), machine_(machine) {
    for (const StageProgram& stage : bound.program.stages()) {
      if (!stage.full) continue;
      if (!first_) first_ = &stage;
      last_ = &stage;
    }
    const std::int64_t each = static_cast<std::int64_t>(bound.program.kernel().loads.size() * sizeof(float));
    const std::int64_t lanes = geometry_.kept().positions * geometry_.reduced().positions;
    all_ = first_ != last_ && lanes * each <= kCached * geometry_.kept().tiles;
  }
  void expect(const StageProgram& stage, std::int64_t kept_tile, std::int64_t tile) const {
    if (&stage != last_ || kept_tile + 1 == geometry_.kept().tiles) return;
    const bool is_last = tile + 1 == geometry_.reduced().tiles;
    if (!all_ && !is_last) return;
    Box box = geometry_.kept_tile(kept_tile + 1);
    geometry_.move(box, all_ ? tile : 0);
    machine_.expect(*first_, box);
  }

 private:
  static constexpr std::int64_t kCached = 1 << 18;  // bytes
  const Geometry& geometry_;
  TileMachine& machine_;
  const StageProgram *first_ = nullptr, *last_ = nullptr;
  bool all_;
};

// All stages on one kept tile after another, its data still in cache from stage to stage.
void run_by_kept_tiles(const Bound& bound, std::int64_t first, std::int64_t last) {
  const Program& program = bound.program;
  const Geometry& geometry = program.geometry();
  TileMachine& machine = TileMachine::of_this_thread(bound);
  FoldMemory memory(program.cells()), scratch(program.cells());
  const NextKeptTile next(bound, machine);
  for (std::int64_t kept_tile = first; kept_tile < last; ++kept_tile)
    for (const StageProgram& stage : program.stages()) {
      machine.start(stage, machine.own_carried());
      if (!stage.full) {
        run_kept(bound, machine, kept_tile);
        continue;
      }
      Folder folder(bound, stage, memory, scratch, kept_lanes(geometry, kept_tile));
      run_full(bound, machine, stage, kept_tile, 0, geometry.reduced().tiles, folder,
               [&](std::int64_t tile) { next.expect(stage, kept_tile, tile); });
      folder.finish(machine.own_carried());
    }
  end_streams();
}

// Few kept tiles and much to reduce: each stage cuts the reduced tiles into chunks and joins what they give in order.
void run_by_chunks(const Bound& bound, ThreadPool& pool, std::int64_t chunks) {
  const Program& program = bound.program;
  const Geometry& geometry = program.geometry();
  const std::int64_t kept_tiles = geometry.kept().tiles, reduced_tiles = geometry.reduced().tiles;
  const std::int64_t carried_bytes = static_cast<std::int64_t>(program.kernel().carried.size()) * kTileLanes * 8;
  std::vector<std::byte> carried_memory(at(kept_tiles * carried_bytes));
  const auto carried = [&](std::int64_t kept_tile) -> Carried {
    return {carried_memory.data() + kept_tile * carried_bytes};
  };
  for (const StageProgram& stage : program.stages()) {
    if (!stage.full) {
      pool.parallel_for(kept_tiles, [&](std::int64_t kept_tile) {
        TileMachine& machine = TileMachine::of_this_thread(bound);
        machine.start(stage, carried(kept_tile));
        run_kept(bound, machine, kept_tile);
        end_streams();
      });
      continue;
    }
    std::vector<FoldMemory> memory(at(kept_tiles * chunks), FoldMemory(program.cells()));
    std::vector<std::int64_t> counts(memory.size());
    pool.parallel_for(kept_tiles * chunks, [&](std::int64_t part) {
      const std::int64_t kept_tile = part / chunks, chunk = part % chunks;
      TileMachine& machine = TileMachine::of_this_thread(bound);
      machine.start(stage, carried(kept_tile));
      FoldMemory scratch(program.cells());
      Folder folder(bound, stage, memory[at(part)], scratch, kept_lanes(geometry, kept_tile));
      run_full(bound, machine, stage, kept_tile, share(chunk, chunks, reduced_tiles),
               share(chunk + 1, chunks, reduced_tiles), folder, [](std::int64_t) {});
      counts[at(part)] = folder.count();
      end_streams();
    });
    for (std::int64_t kept_tile = 0; kept_tile < kept_tiles; ++kept_tile) {
      FoldMemory total(program.cells()), unused(0);
      Folder folder(bound, stage, total, unused, kept_lanes(geometry, kept_tile));
      for (std::int64_t part = kept_tile * chunks; part < (kept_tile + 1) * chunks; ++part)
        folder.join(memory[at(part)], counts[at(part)]);
      folder.finish(carried(kept_tile));
    }
  }
}

}  // namespace

void run_stages(const Bound& bound, ThreadPool& pool) {
  const Geometry& geometry = bound.program.geometry();
  const std::int64_t kept_tiles = geometry.kept().tiles, reduced_tiles = geometry.reduced().tiles;
  const std::int64_t lanes = geometry.kept().positions * std::max<std::int64_t>(1, geometry.reduced().positions);
  if (lanes == 0) return;
  const std::int64_t parts = std::max<std::int64_t>(1, lanes / kPartLanes);
  const auto full_stages = std::count_if(bound.program.stages().begin(), bound.program.stages().end(),
                                         [](const StageProgram& stage) { return stage.full; });
  if (kept_tiles >= std::min(parts, full_stages > 1 ? kEnoughKeptTiles : kMostChunks)) {
    const std::int64_t some = std::min(parts, kept_tiles);
    pool.parallel_for(some, [&](std::int64_t part) {
      run_by_kept_tiles(bound, share(part, some, kept_tiles), share(part + 1, some, kept_tiles));
    });
  } else {
    const std::int64_t chunks = std::min(parts, kMostChunks) / kept_tiles;
    run_by_chunks(bound, pool, std::clamp<std::int64_t>(chunks, 1, std::max<std::int64_t>(1, reduced_tiles)));
  }
}

void run_stages_on(const Bound& bound, std::int64_t first, std::int64_t count) {
  TileMachine& machine = TileMachine::of_this_thread(bound);
  const auto& stages = bound.program.stages();
  while (count > 0) {
    const Box box = bound.program.geometry().tile_from(first, count);
    const std::int64_t lanes = box.lanes(),
                       after = std::min(lanes, bound.program.geometry().kept().positions - first - lanes);
    for (const StageProgram& stage : stages) {
      machine.start(stage, machine.own_carried());
      if (after > 0) machine.expect(stage, bound.program.geometry().tile_from(first + lanes, after));
      machine.run(box, {lanes, 1, false});
    }
    first += lanes;
    count -= lanes;
  }
}

}  // namespace nixie::cpu
