// Reorders and merges the axes of a domain.
#include "nixie/backends/cuda/generate/iteration_space.h"

#include <algorithm>
#include <cstdlib>
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

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

void append(IterationSpace& space, int axis, const Shape& domain, const std::vector<Path>& paths) {
  space.sizes.push_back(domain[axis]);
  for (std::size_t p = 0; p < paths.size(); ++p) {
    space.paths[p].strides.push_back(paths[p].strides[at(axis)]);
    space.paths[p].inside.push_back(paths[p].inside.empty() ? std::pair(std::int64_t{0}, domain[axis])
                                                            : paths[p].inside[at(axis)]);
  }
}

// Whether the last axis of the space can absorb one more inside it.
bool merges(const IterationSpace& space, int axis, const Shape& domain, const std::vector<Path>& paths) {
  for (std::size_t p = 0; p < paths.size(); ++p)
    if (space.paths[p].bounded(space.rank() - 1, space.sizes.back()) || paths[p].bounded(axis, domain[axis]) ||
        space.paths[p].strides.back() != paths[p].strides[at(axis)] * domain[axis])
      return false;
  return true;
}

IterationSpace empty_space(const std::vector<Path>& paths) {
  IterationSpace space;
  for (const Path& path : paths) space.paths.push_back({path.offset, {}, {}});
  return space;
}

}  // namespace

bool Path::bounded(int axis, std::int64_t size) const {
  return !inside.empty() && (inside[at(axis)].first > 0 || inside[at(axis)].second < size);
}

std::int64_t IterationSpace::kept_size() const { return product(sizes, 0, kept); }
std::int64_t IterationSpace::reduced_size() const { return product(sizes, kept, rank()); }

IterationSpace make_iteration_space(const Shape& domain, const Axes& reduced, const std::vector<Path>& paths,
                                    const std::vector<int>& priority) {
  IterationSpace space = empty_space(paths);
  for (const bool reduce : {false, true}) {
    std::vector<int> axes;
    for (int axis = 0; axis < domain.rank(); ++axis) {
      const bool bounded =
          std::ranges::any_of(paths, [&](const Path& path) { return path.bounded(axis, domain[axis]); });
      const bool is_reduced = std::ranges::find(reduced, axis) != reduced.end();
      if (is_reduced == reduce && (domain[axis] != 1 || bounded)) axes.push_back(axis);
    }
    const int first = space.rank();
    for (int axis : ordered(std::move(axes), paths, priority)) {
      if (space.rank() == first || !merges(space, axis, domain, paths)) {
        append(space, axis, domain, paths);
        continue;
      }
      space.sizes.back() *= domain[axis];
      for (std::size_t p = 0; p < paths.size(); ++p) {
        space.paths[p].strides.back() = paths[p].strides[at(axis)];
        space.paths[p].inside.back() = {0, space.sizes.back()};
      }
    }
    if (!reduce) space.kept = space.rank();
  }
  return space;
}

IterationSpace plain_iteration_space(const Shape& domain, const std::vector<Path>& paths) {
  IterationSpace space = empty_space(paths);
  for (int axis = 0; axis < domain.rank(); ++axis) append(space, axis, domain, paths);
  space.kept = space.rank();
  return space;
}

}  // namespace nixie::cuda
