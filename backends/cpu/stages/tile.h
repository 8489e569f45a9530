// TileMachine: runs a program's stages on one tile after another; one per thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nixie/backends/cpu/stages/access.h"
#include "nixie/backends/cpu/stages/program.h"

namespace nixie::cpu {

/// A program on memory: one run of a kernel.
struct Bound {
  const Program& program;
  std::vector<std::byte*> memory{};  ///< per view that is in memory: loads, stores
  std::vector<Dtype> types{};        ///< of their slots
  /// Per load: how many elements of its slot stay as they are during the run (all or none), so that a tile's last block
  /// may be read in place although it goes on past the tile's end.
  std::vector<std::int64_t> readable{};
  std::vector<bool> direct{};    ///< per store: its slot overlaps nothing this kernel reads
  std::vector<bool> streamed{};  ///< per store: the slot is so large that its lanes are written past the caches
  std::byte* head = nullptr;     ///< the head's values, dense row-major over the domain
  int skipped_store = -1;        ///< the head left its values there already
  std::span<const double> scalars;
  std::uint64_t run = 0;  ///< differs from every other run of this process
};

/// The carried values of one kept tile: kTileLanes cells of 8 bytes for each value.
struct Carried {
  std::byte* data = nullptr;
  std::byte* operator[](int index) const { return data + index * kTileLanes * 8; }
};

class TileMachine {
 public:
  /// The machine of this thread, made ready for a run.
  static TileMachine& of_this_thread(const Bound& bound);

  /// Carried values that belong to this machine, for programs that run all stages on a kept tile.
  Carried own_carried() const { return {carried_.get()}; }
  /// Names the stage and the carried values it reads and writes; to be called for each kept tile anew.
  void start(const StageProgram& stage, Carried carried);
  /// Names a box that the stage, or a later one, runs on soon: what it reads and writes is asked for little by little
  /// during the next `run`.
  void expect(const StageProgram& stage, const Box& box);
  /// Runs the stage's instructions, stores and carries on a box.
  void run(const Box& box, const TileShape& shape);
  /// The lanes of a register after `run`.
  const void* lanes(int reg) const { return registers_[static_cast<std::size_t>(reg)]; }
  /// Positions of a box along the domain, as a view counts them.
  const std::int32_t* positions(int view, const Box& box);

 private:
  // The content of a pinned buffer.
  struct Content {
    std::uint64_t start_id = 0;  ///< of carried values; 0: nothing yet
    std::int64_t element = 0, lanes = 0;
    bool uniform = false;  ///< all lanes are equal
    std::array<std::int64_t, kMaxAxes> extent{};
  };
  // Bytes to be asked for.
  struct Wanted {
    const std::byte *begin, *end;
    bool writes;
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  static Memory make_memory(std::int64_t bytes);

  void prepare(const Bound& bound);
  std::byte* buffer(const Step& step) const;
  /// `uniform`: all lanes are equal, so that those of a longer tile serve a shorter one.
  bool holds(const Step& step, std::size_t number, std::uint64_t start_id, std::int64_t element, bool uniform,
             const Box& box);
  const void* value(const Step& step, std::size_t number, const Box& box, const TileShape& shape);
  const void* load(const Step& step, std::size_t number, const Box& box);
  const void* carried(const Step& step, std::size_t number, const Box& box, const TileShape& shape);
  const void* coordinates(const Step& step, const Box& box) const;
  const void* random(const Step& step, const Box& box) const;
  void* result(const Step& step, const Box& box);
  void want(const Walk& walk, const Box& box, const std::byte* memory, Dtype type, bool writes);
  void ask(std::int64_t lines);
  bool stream_lanes(const Store& store, std::size_t view, const Box& box) const;

  const Bound* bound_ = nullptr;
  const StageProgram* stage_ = nullptr;
  Carried carries_;
  std::uint64_t run_ = 0, start_id_ = 0;
  std::int64_t lanes_ = 0;   ///< of the current box
  std::int64_t padded_ = 0;  ///< the same up to whole blocks
  std::vector<const void*> registers_;
  std::vector<Content> contents_;  ///< per step of all stages
  std::vector<Wanted> wanted_;     ///< the last is asked for first
  std::int64_t wanted_lines_ = 0;
  std::vector<bool> stored_;  ///< per store: written where it was computed
  Memory buffers_, carried_, positions_;
  std::int64_t buffers_bytes_ = 0, carried_bytes_ = 0;
};

}  // namespace nixie::cpu
