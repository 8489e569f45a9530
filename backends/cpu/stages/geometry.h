// Geometry: the tiling of a kernel's domain, and the strides of each access over the tiles.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "nixie/backends/cpu/lanes/lanes.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cpu {

/// Axes a kernel may have after neighbours that every access walks alike became one.
inline constexpr int kMaxAxes = 16;
/// Kept tiles that keep enough threads busy when several stages read the same data, better from cache than in chunks.
inline constexpr std::int64_t kEnoughKeptTiles = 16;

/// How one access moves over the ordered axes.
struct Walk {
  std::int64_t offset = 0;
  std::array<std::int64_t, kMaxAxes> strides{};
  bool bounded = false;
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxAxes> inside{};  ///< where bounded
};

/// A box of positions on the ordered axes. Its lanes are its positions in row-major order.
struct Box {
  int rank = 0;
  std::array<std::int64_t, kMaxAxes> origin{}, extent{};
  std::int64_t lanes() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= extent[static_cast<std::size_t>(axis)];
    return product;
  }
};

/// One access, as far as the geometry needs it.
struct View {
  std::int64_t offset = 0;
  Strides strides;  ///< per domain axis
  std::vector<std::pair<std::int64_t, std::int64_t>> inside{};
  bool in_memory = true;  ///< counts when the order is chosen; computed positions do not
};

/// A run of ordered axes that are all kept or all reduced.
struct AxisGroup {
  int begin = 0, end = 0;
  std::int64_t positions = 1;  ///< product of the sizes
  std::int64_t tiles = 1;
};

/// The ordered axes and their tiles. Either kept axes come first and a tile's lanes run along reduced ones (rows), or
/// the other way round (columns), whichever the memory prefers.
class Geometry {
 public:
  /// `keep_order`: positions stay in the domain's row-major order. `keep_reduced_order`: the reduced ones do.
  Geometry(const Kernel& kernel, const std::vector<View>& views, bool keep_order, bool keep_reduced_order);

  const Walk& walk(std::size_t view) const { return walks_[view]; }
  /// Whether the view stays where it is along some axis, so that a tile's lanes may serve the next tile too.
  bool repeats(std::size_t view) const;
  const AxisGroup& kept() const { return kept_; }
  const AxisGroup& reduced() const { return reduced_; }
  bool columns() const { return columns_; }

  /// The positions of a tile of kept positions at the first reduced position.
  Box kept_tile(std::int64_t kept_tile) const { return tile_of(kept_, kept_tile); }
  /// The same at a tile of reduced positions.
  void move(Box& kept, std::int64_t reduced_tile) const { place(kept, reduced_, reduced_tile); }
  /// The same with only the first kept position.
  Box reduced_tile(std::int64_t reduced_tile) const { return tile_of(reduced_, reduced_tile); }
  /// The longest tile that starts at a row-major position and takes at most `count`; for kernels that keep the order.
  Box tile_from(std::int64_t first, std::int64_t count) const;

 private:
  using Order = std::vector<int>;
  void collapse(const Order& order, const std::vector<bool>& is_reduced, const Shape& domain,
                const std::vector<View>& views);
  void choose_extents(const std::vector<View>& views, bool keep_order);
  std::int64_t cover(const AxisGroup& group, std::int64_t lanes, std::int64_t inner_lanes);
  bool cover_planes(const std::vector<View>& views);
  bool cut_square_for_transposes(const std::vector<View>& views);
  void count_tiles(AxisGroup& group) const;
  void place(Box& box, const AxisGroup& group, std::int64_t tile) const;
  Box first_position() const;
  Box tile_of(const AxisGroup& group, std::int64_t tile) const;

  std::vector<std::int64_t> sizes_, extents_;
  std::vector<Walk> walks_;
  AxisGroup kept_, reduced_;
  bool columns_ = false;
};

}  // namespace nixie::cpu
