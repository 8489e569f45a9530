// Geometry: orders and joins axes, chooses tiles.
#include "nixie/backends/cpu/stages/geometry.h"

#include <algorithm>
#include <cstdlib>

namespace nixie::cpu {
namespace {

// Wide enough for long runs along memory, narrow enough that a tile holds several rows to add up first.
constexpr std::int64_t kColumnLanes = 256;
constexpr std::int64_t kSquareSide = 32;

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

std::int64_t touched(const View& view, const Shape& domain) {
  std::int64_t elements = 1;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (view.strides[at(axis)] != 0) elements *= domain[axis];
  return elements;
}

// The views that matter for the order, the one with most elements first.
std::vector<const View*> by_weight(const std::vector<View>& views, const Shape& domain) {
  std::vector<const View*> result;
  for (const View& view : views)
    if (view.in_memory) result.push_back(&view);
  std::stable_sort(result.begin(), result.end(),
                   [&](const View* a, const View* b) { return touched(*a, domain) > touched(*b, domain); });
  return result;
}

// Whether axis b should be outside of axis a: the first view that moves along both decides.
bool belongs_outside(int b, int a, const std::vector<const View*>& views) {
  for (const View* view : views) {
    const std::int64_t of_a = std::abs(view->strides[at(a)]), of_b = std::abs(view->strides[at(b)]);
    if (of_a != 0 && of_b != 0 && of_a != of_b) return of_b > of_a;
  }
  return false;
}

void sort_outside_in(std::vector<int>& axes, const std::vector<const View*>& views) {
  for (std::size_t end = 1; end < axes.size(); ++end)
    for (std::size_t i = end; i > 0 && belongs_outside(axes[i], axes[i - 1], views); --i)
      std::swap(axes[i], axes[i - 1]);
}

// Whether lanes should run along kept axis k rather than reduced axis r.
bool prefers_columns(int k, int r, const std::vector<const View*>& views, const Shape& domain) {
  std::int64_t votes = 0;
  for (const View* view : views) {
    const std::int64_t of_k = std::abs(view->strides[at(k)]), of_r = std::abs(view->strides[at(r)]);
    if (of_k == 0 || of_r == 0 || of_k == of_r) continue;
    votes += of_k < of_r ? touched(*view, domain) : -touched(*view, domain);
  }
  return votes != 0 ? votes > 0 : k > r;
}

bool has_bounds(const std::vector<View>& views) {
  return std::any_of(views.begin(), views.end(), [](const View& view) { return !view.inside.empty(); });
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// An even share of `size` that fits `most`, a multiple of a block where it is longer than one.
std::int64_t even_share(std::int64_t size, std::int64_t most) {
  if (size <= most) return size;
  return std::min(most, round_up_lanes(ceil_div(size, ceil_div(size, most))));
}

}  // namespace

Geometry::Geometry(const Kernel& kernel, const std::vector<View>& views, bool keep_order, bool keep_reduced_order) {
  const Shape& domain = kernel.domain;
  std::vector<bool> is_reduced(at(domain.rank()));
  for (int axis : kernel.reduced) is_reduced[at(axis)] = true;
  Order kept, reduced;
  // An axis of size 1 matters only where an access may be outside its slot.
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (domain[axis] != 1 || has_bounds(views)) (is_reduced[at(axis)] ? reduced : kept).push_back(axis);

  const std::vector<const View*> heavy = by_weight(views, domain);
  if (!keep_order) sort_outside_in(kept, heavy);
  if (!keep_order && !keep_reduced_order) sort_outside_in(reduced, heavy);
  columns_ = !kept.empty() && !reduced.empty() && prefers_columns(kept.back(), reduced.back(), heavy, domain);

  Order order = columns_ ? reduced : kept;
  const Order& inner = columns_ ? kept : reduced;
  order.insert(order.end(), inner.begin(), inner.end());
  collapse(order, is_reduced, domain, views);
  choose_extents(views, keep_order);
}

bool Geometry::repeats(std::size_t view) const {
  for (std::size_t axis = 0; axis < sizes_.size(); ++axis)
    if (walks_[view].strides[axis] == 0 && sizes_[axis] > 1) return !walks_[view].bounded;
  return sizes_.empty();
}

void Geometry::collapse(const Order& order, const std::vector<bool>& is_reduced, const Shape& domain,
                        const std::vector<View>& views) {
  walks_.resize(views.size());
  for (std::size_t v = 0; v < views.size(); ++v) {
    walks_[v].offset = views[v].offset;
    for (int axis : order)
      if (!views[v].inside.empty() &&
          views[v].inside[at(axis)] != std::pair<std::int64_t, std::int64_t>(0, domain[axis]))
        walks_[v].bounded = true;
  }
  std::vector<int> group_of;
  for (int axis : order) {
    const bool reduced = is_reduced[at(axis)];
    const std::int64_t size = domain[axis];
    bool joins = !sizes_.empty() && group_of.back() == reduced && size > 0;
    for (std::size_t v = 0; v < views.size() && joins; ++v)
      joins = walks_[v].strides[sizes_.size() - 1] == views[v].strides[at(axis)] * size &&
              (!walks_[v].bounded || views[v].inside[at(axis)] == std::pair<std::int64_t, std::int64_t>(0, size));
    if (!joins) {
      check(sizes_.size() < kMaxAxes, "cpu: a kernel over ", domain, " has more than ", kMaxAxes, " separate axes");
      sizes_.push_back(1);
      group_of.push_back(reduced);
    }
    const std::size_t last = sizes_.size() - 1;
    sizes_[last] *= size;
    for (std::size_t v = 0; v < views.size(); ++v) {
      auto& inside = walks_[v].inside[last];
      if (!walks_[v].bounded)
        inside = {0, sizes_[last]};
      else if (joins)
        inside = {inside.first * size, inside.second * size};
      else
        inside = views[v].inside[at(axis)];
      walks_[v].strides[last] = views[v].strides[at(axis)];
    }
  }
  const int rank = static_cast<int>(sizes_.size());
  const int split = static_cast<int>(std::find(group_of.begin(), group_of.end(), !columns_) - group_of.begin());
  kept_ = columns_ ? AxisGroup{split, rank} : AxisGroup{0, split};
  reduced_ = columns_ ? AxisGroup{0, split} : AxisGroup{split, rank};
}

std::int64_t Geometry::cover(const AxisGroup& group, std::int64_t lanes, std::int64_t inner_lanes) {
  std::int64_t covered = 1;
  for (int axis = group.end - 1; axis >= group.begin; --axis) {
    const std::int64_t room = std::max<std::int64_t>(1, lanes / covered);
    std::int64_t extent = even_share(sizes_[at(axis)], room);
    if (extent < sizes_[at(axis)] && covered * inner_lanes > 1 && extent > kLaneBlock)
      extent = extent / kLaneBlock * kLaneBlock;  // then the tile has no ragged end
    extents_[at(axis)] = extent;
    covered *= extent;
    if (extent < sizes_[at(axis)]) break;
  }
  return covered;
}

// If one access runs along the innermost axis and another along a second one, a square tile reads and writes whole
// cache lines of both.
bool Geometry::cut_square_for_transposes(const std::vector<View>& views) {
  const int inner = kept_.end - 1;
  if (inner < 1 || sizes_[at(inner)] < kSquareSide) return false;
  for (std::size_t v = 0; v < views.size(); ++v) {
    if (!views[v].in_memory || std::abs(walks_[v].strides[at(inner)]) <= 1) continue;
    for (int axis = kept_.begin; axis < inner; ++axis) {
      if (std::abs(walks_[v].strides[at(axis)]) != 1 || sizes_[at(axis)] < 4) continue;
      // Second innermost, so that the access's runs are neighbours in the tile.
      std::rotate(sizes_.begin() + axis, sizes_.begin() + axis + 1, sizes_.begin() + inner);
      for (Walk& walk : walks_) {
        std::rotate(walk.strides.begin() + axis, walk.strides.begin() + axis + 1, walk.strides.begin() + inner);
        std::rotate(walk.inside.begin() + axis, walk.inside.begin() + axis + 1, walk.inside.begin() + inner);
      }
      extents_[at(inner)] = kSquareSide;
      extents_[at(inner) - 1] = std::min(sizes_[at(inner) - 1], kTileLanes / kSquareSide);
      return true;
    }
  }
  return false;
}

// In small images the planes of several channels are contiguous; those of one channel in several images are not.
bool Geometry::cover_planes(const std::vector<View>& views) {
  const std::size_t inner = at(reduced_.end - 1), kept = at(kept_.end - 1);
  if (kept_.begin == kept_.end || reduced_.end - reduced_.begin < 2) return false;
  const std::int64_t planes = std::min(kTileLanes / sizes_[inner], kept_.positions / kEnoughKeptTiles);
  if (planes < 2) return false;
  for (std::size_t v = 0; v < views.size(); ++v) {
    const auto& strides = walks_[v].strides;
    const bool is_plane = strides[inner] != 0;
    if (views[v].in_memory && is_plane && (strides[inner] != 1 || strides[kept] != sizes_[inner])) return false;
  }
  extents_[inner] = sizes_[inner];
  extents_[kept] = even_share(sizes_[kept], planes);
  return true;
}

void Geometry::choose_extents(const std::vector<View>& views, bool keep_order) {
  extents_.assign(sizes_.size(), 1);
  for (AxisGroup* group : {&kept_, &reduced_})
    for (int axis = group->begin; axis < group->end; ++axis) group->positions *= sizes_[at(axis)];
  if (kept_.positions > 0 && reduced_.positions > 0) {
    if (reduced_.begin == reduced_.end) {
      if (keep_order || !cut_square_for_transposes(views)) cover(kept_, kTileLanes, 1);
    } else if (columns_) {
      const std::int64_t lanes = std::max(kColumnLanes, kTileLanes / reduced_.positions);
      const std::int64_t across = cover(kept_, lanes, 1);
      cover(reduced_, kTileLanes / across, across);
    } else if (!cover_planes(views)) {
      const std::int64_t along = cover(reduced_, kTileLanes, 1);
      if (along == reduced_.positions) cover(kept_, kTileLanes / along, along);
    }
  }
  count_tiles(kept_);
  count_tiles(reduced_);
}

void Geometry::count_tiles(AxisGroup& group) const {
  for (int axis = group.begin; axis < group.end; ++axis)
    group.tiles *= ceil_div(sizes_[at(axis)], std::max<std::int64_t>(1, extents_[at(axis)]));
}

void Geometry::place(Box& box, const AxisGroup& group, std::int64_t tile) const {
  for (int axis = group.end - 1; axis >= group.begin; --axis) {
    const std::int64_t count = ceil_div(sizes_[at(axis)], extents_[at(axis)]);
    box.origin[at(axis)] = tile % count * extents_[at(axis)];
    box.extent[at(axis)] = std::min(extents_[at(axis)], sizes_[at(axis)] - box.origin[at(axis)]);
    tile /= count;
  }
}

Box Geometry::first_position() const {
  Box box;
  box.rank = static_cast<int>(sizes_.size());
  box.extent.fill(1);
  return box;
}

Box Geometry::tile_of(const AxisGroup& group, std::int64_t tile) const {
  Box box = first_position();
  place(box, group, tile);
  return box;
}

Box Geometry::tile_from(std::int64_t first, std::int64_t count) const {
  Box box = first_position();
  std::int64_t inner = 1;
  int axis = box.rank - 1;
  // Whole axes first, as many as start here and fit; then a part of the next.
  for (; axis > 0; --axis) {
    const std::int64_t whole = inner * sizes_[at(axis)];
    if (whole > kTileLanes || whole > count || first % whole != 0) break;
    box.extent[at(axis)] = sizes_[at(axis)];
    inner = whole;
  }
  std::int64_t rest = first / inner;
  for (int outer = axis; outer >= 0; --outer) {
    box.origin[at(outer)] = rest % sizes_[at(outer)];
    rest /= sizes_[at(outer)];
  }
  if (axis >= 0)
    box.extent[at(axis)] = std::min({sizes_[at(axis)] - box.origin[at(axis)], count / inner, kTileLanes / inner});
  return box;
}

}  // namespace nixie::cpu
