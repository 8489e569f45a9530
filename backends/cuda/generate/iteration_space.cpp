// Reorders and merges the axes of a domain.
#include "nixie/backends/cuda/generate/iteration_space.h"

#include <algorithm>
#include <cstdlib>

namespace nixie::cuda {
namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

// Whether axis a belongs outside axis b: the first path that moves along both differently decides.
bool outside(int a, int b, const std::vector<Path>& paths, const std::vector<int>& priority) {
  for (int p : priority) {
    const std::int64_t x = std::abs(paths[at(p)].strides[at(a)]), y = std::abs(paths[at(p)].strides[at(b)]);
    if (x != 0 && y != 0 && x != y) return x > y;
  }
  return a < b;
}

// Insertion sort: `outside` is not transitive, and no harm is done by any order.
std::vector<int> ordered(std::vector<int> axes, const std::vector<Path>& paths, const std::vector<int>& priority) {
  for (std::size_t i = 1; i < axes.size(); ++i)
    for (std::size_t j = i; j > 0 && outside(axes[j], axes[j - 1], paths, priority); --j)
      std::swap(axes[j], axes[j - 1]);
  return axes;
}

std::int64_t product(const std::vector<std::int64_t>& sizes, int from, int to) {
  std::int64_t total = 1;
  for (int i = from; i < to; ++i) total *= sizes[at(i)];
  return total;
}

void append(Walk& walk, int axis, const Shape& domain, const std::vector<Path>& paths) {
  walk.sizes.push_back(domain[axis]);
  for (std::size_t p = 0; p < paths.size(); ++p) {
    walk.paths[p].strides.push_back(paths[p].strides[at(axis)]);
    walk.paths[p].inside.push_back(paths[p].inside.empty() ? std::pair(std::int64_t{0}, domain[axis])
                                                           : paths[p].inside[at(axis)]);
  }
}

// Whether the last axis of the walk can absorb one more inside it.
bool merges(const Walk& walk, int axis, const Shape& domain, const std::vector<Path>& paths) {
  for (std::size_t p = 0; p < paths.size(); ++p)
    if (walk.paths[p].bounded(walk.rank() - 1, walk.sizes.back()) || paths[p].bounded(axis, domain[axis]) ||
        walk.paths[p].strides.back() != paths[p].strides[at(axis)] * domain[axis])
      return false;
  return true;
}

Walk empty_walk(const std::vector<Path>& paths) {
  Walk walk;
  for (const Path& path : paths) walk.paths.push_back({path.offset, {}, {}});
  return walk;
}

}  // namespace

bool Path::bounded(int axis, std::int64_t size) const {
  return !inside.empty() && (inside[at(axis)].first > 0 || inside[at(axis)].second < size);
}

std::int64_t Walk::kept_size() const { return product(sizes, 0, kept); }
std::int64_t Walk::reduced_size() const { return product(sizes, kept, rank()); }

Walk make_walk(const Shape& domain, const Axes& reduced, const std::vector<Path>& paths,
               const std::vector<int>& priority) {
  Walk walk = empty_walk(paths);
  for (const bool reduce : {false, true}) {
    std::vector<int> axes;
    for (int axis = 0; axis < domain.rank(); ++axis) {
      const bool bounded =
          std::any_of(paths.begin(), paths.end(), [&](const Path& path) { return path.bounded(axis, domain[axis]); });
      const bool is_reduced = std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
      if (is_reduced == reduce && (domain[axis] != 1 || bounded)) axes.push_back(axis);
    }
    const int first = walk.rank();
    for (int axis : ordered(std::move(axes), paths, priority)) {
      if (walk.rank() == first || !merges(walk, axis, domain, paths)) {
        append(walk, axis, domain, paths);
        continue;
      }
      walk.sizes.back() *= domain[axis];
      for (std::size_t p = 0; p < paths.size(); ++p) {
        walk.paths[p].strides.back() = paths[p].strides[at(axis)];
        walk.paths[p].inside.back() = {0, walk.sizes.back()};
      }
    }
    if (!reduce) walk.kept = walk.rank();
  }
  return walk;
}

Walk plain_walk(const Shape& domain, const std::vector<Path>& paths) {
  Walk walk = empty_walk(paths);
  for (int axis = 0; axis < domain.rank(); ++axis) append(walk, axis, domain, paths);
  walk.kept = walk.rank();
  return walk;
}

}  // namespace nixie::cuda
