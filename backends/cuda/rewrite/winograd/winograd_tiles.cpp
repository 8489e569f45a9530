// Winograd's transforms as straight-line code (Lavin and Gray, 2015), and accesses to tiles.
#include "nixie/backends/cuda/rewrite/winograd/winograd_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

template <class T>
std::vector<std::vector<T>> turned_over(const std::vector<std::vector<T>>& rows) {
  std::vector<std::vector<T>> result(rows[0].size());
  for (const std::vector<T>& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) result[i].push_back(row[i]);
  return result;
}

Line times(InstructionBuilder& code, const Matrix& matrix, const Line& line) {
  Line result;
  for (const std::vector<double>& row : matrix) {
    int sum = -1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] == 0) continue;
      const bool plain = std::abs(row[i]) == 1;
      const int term = plain ? line[i] : code.apply(Primitive::mul, code.number(std::abs(row[i])), line[i]);
      if (sum < 0)
        sum = row[i] < 0 ? code.apply(Primitive::neg, term) : term;
      else
        sum = code.apply(row[i] < 0 ? Primitive::sub : Primitive::add, sum, term);
    }
    result.push_back(sum);
  }
  return result;
}

}  // namespace

Matrix transposed(const Matrix& matrix) { return turned_over(matrix); }

const LineMatrices& line_matrices() {
  static const LineMatrices line{.images = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}},
                                 .filter = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                                 .result = {{1, 1, 1, 0}, {0, 1, -1, 1}}};
  return line;
}

Grid both_ways(InstructionBuilder& code, const Grid& grid, const Matrix& matrix) {
  Grid columns = turned_over(grid);
  for (Line& column : columns) column = times(code, matrix, column);
  Grid rows = turned_over(columns);
  for (Line& row : rows) row = times(code, matrix, row);
  return rows;
}

Access in_tiles(const Access& whole, const Shape& shape, std::array<std::int64_t, 2> first, std::int64_t step,
                const Shape& domain) {
  Access access = whole;
  access.inside.clear();
  bool all = true;
  for (int axis = 0; axis < 4; ++axis) {
    std::int64_t low = 0, high = shape[axis];
    if (!whole.inside.empty()) {
      low = std::max(low, whole.inside[at(axis)].first);
      high = std::min(high, whole.inside[at(axis)].second);
    }
    if (axis >= 2) {
      const std::int64_t start = first[at(axis - 2)], stride = whole.strides[at(axis)];
      access.offset += start * stride;
      access.strides[at(axis)] = stride * step;
      low = ceil_div(low - start, step), high = ceil_div(high - start, step);
    }
    low = std::clamp<std::int64_t>(low, 0, domain[axis]);
    high = std::clamp<std::int64_t>(high, low, domain[axis]);
    all &= low == 0 && high == domain[axis];
    access.inside.emplace_back(low, high);
  }
  if (all) access.inside.clear();
  return access;
}

Access from_image(Access access, std::int64_t image) {
  access.offset += image * access.strides[0];
  if (!access.inside.empty()) access.inside[0].first -= image, access.inside[0].second -= image;
  return access;
}

bool may_follow(const Kernel& kernel, int results) {
  if (kernel.stages.size() != 1 || !kernel.stages[0].full || !kernel.stages[0].carries.empty()) return false;
  int moving = 0;  // accesses that every result has of its own
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses) moving += access.strides[2] != 0 || access.strides[3] != 0;
  return !depends_on_position(kernel) && results * moving <= 64;
}

void follow(Kernel& made, InstructionBuilder code, const Kernel& kernel, const Grid& results, std::int64_t image) {
  const auto step = static_cast<std::int64_t>(results.size());
  Stage stage;
  for (std::int64_t i = 0; i < step; ++i)
    for (std::int64_t j = 0; j < step; ++j) {
      const auto access_here = [&](const Access& whole) {
        return in_tiles(from_image(whole, image), kernel.domain, {i, j}, step, made.domain);
      };
      const auto load_here = [&](const Access& whole) {
        const bool repeats = whole.inside.empty() && whole.strides[2] == 0 && whole.strides[3] == 0;
        const Access here = repeats ? from_image(whole, image) : access_here(whole);
        return find_or_add(made.loads, here);
      };
      const std::vector<int> moved = code.append(kernel.stages[0].body, [&](Instruction in) {
        if (in.primitive == Primitive::head) return results[at(i)][at(j)];
        if (in.primitive == Primitive::load) in.index = load_here(kernel.loads[at(in.index)]);
        return code.add(in);
      });
      for (const Store& store : kernel.stages[0].stores) {
        stage.stores.push_back({moved[at(store.value)], static_cast<int>(made.stores.size())});
        made.stores.push_back(access_here(kernel.stores[at(store.access)]));
      }
    }
  stage.body = std::move(code.body);
  made.stages = {std::move(stage)};
}

}  // namespace nixie::cuda
