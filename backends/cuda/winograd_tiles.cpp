// Winograd's transforms as straight-line code (Lavin and Gray, 2015), and accesses to tiles.
#include "backends/cuda/winograd_tiles.h"

#include <algorithm>

namespace nixie::cuda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

Grid transposed(const Grid& grid) {
  Grid result(grid[0].size());
  for (const Line& line : grid)
    for (std::size_t i = 0; i < line.size(); ++i) result[i].push_back(line[i]);
  return result;
}

}  // namespace

Line images_line(StraightCode& code, const Line& d) {
  Line line{code.apply(Primitive::sub, d[0], d[2]), code.apply(Primitive::add, d[1], d[2]),
            code.apply(Primitive::sub, d[2], d[1]), code.apply(Primitive::sub, d[1], d[3])};
  if (d.size() == 6)
    line.insert(line.end(), {code.apply(Primitive::sub, d[3], d[4]), d[4], code.apply(Primitive::sub, d[4], d[5])});
  return line;
}
Line filter_line(StraightCode& code, const Line& g) {
  const int half = code.number(0.5), outer = code.apply(Primitive::add, g[0], g[2]);
  Line line{g[0], code.apply(Primitive::mul, half, code.apply(Primitive::add, outer, g[1])),
            code.apply(Primitive::mul, half, code.apply(Primitive::sub, outer, g[1])), g[2]};
  if (g.size() == 5) line.insert(line.end(), {g[3], code.apply(Primitive::add, g[3], g[4]), g[4]});
  return line;
}
Line result_line(StraightCode& code, const Line& m) {
  const int sum = code.apply(Primitive::add, m[1], m[2]), difference = code.apply(Primitive::sub, m[1], m[2]);
  const int first = code.apply(Primitive::add, m[0], sum), second = code.apply(Primitive::sub, difference, m[3]);
  if (m.size() == 4) return {first, second};
  return {code.apply(Primitive::add, first, code.apply(Primitive::add, m[4], m[5])),
          code.apply(Primitive::add, second, code.apply(Primitive::sub, m[5], m[6]))};
}
Line gradient_line_of_3(StraightCode& code, const Line& y) {
  return {y[0], code.apply(Primitive::add, y[0], y[1]), code.apply(Primitive::sub, y[0], y[1]),
          code.apply(Primitive::neg, y[1])};
}
Line gradient_line_of_5(StraightCode& code, const Line& y) {
  const Line line = gradient_line_of_3(code, y);
  return {line[0], line[1], line[2], line[3], line[0], line[1], line[3]};
}
Line filter_gradient_line(StraightCode& code, const Line& m) {
  const int half = code.number(0.5);
  const int sum = code.apply(Primitive::mul, half, code.apply(Primitive::add, m[1], m[2]));
  Line line{code.apply(Primitive::add, m[0], sum),
            code.apply(Primitive::mul, half, code.apply(Primitive::sub, m[1], m[2])),
            code.apply(Primitive::add, sum, m[3])};
  if (m.size() == 7)
    line.insert(line.end(), {code.apply(Primitive::add, m[4], m[5]), code.apply(Primitive::add, m[5], m[6])});
  return line;
}

Grid both_ways(StraightCode& code, const Grid& grid, Transform transform) {
  Grid columns = transposed(grid);
  for (Line& column : columns) column = transform(code, column);
  Grid rows = transposed(columns);
  for (Line& row : rows) row = transform(code, row);
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
  const bool by_position =
      std::any_of(kernel.stages[0].body.begin(), kernel.stages[0].body.end(), [](const Instruction& in) {
        return in.primitive == Primitive::coordinate || in.primitive == Primitive::uniform ||
               in.primitive == Primitive::normal;
      });
  const bool only_stores = kernel.loads.empty() && kernel.stores.size() == 1;
  return !by_position && (only_stores || results * static_cast<int>(kernel.loads.size() + kernel.stores.size()) <= 16);
}

void follow(Kernel& made, StraightCode code, const Kernel& kernel, const Grid& results, std::int64_t image) {
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
        const auto known = std::find(made.loads.begin(), made.loads.end(), here);
        if (known != made.loads.end()) return static_cast<int>(known - made.loads.begin());
        made.loads.push_back(here);
        return static_cast<int>(made.loads.size()) - 1;
      };
      std::vector<int> moved;  // where each register went
      for (Instruction in : kernel.stages[0].body) {
        if (in.primitive == Primitive::head) {
          moved.push_back(results[at(i)][at(j)]);
          continue;
        }
        if (in.primitive == Primitive::load) in.index = load_here(kernel.loads[at(in.index)]);
        for (int& arg : in.args)
          if (arg >= 0) arg = moved[at(arg)];
        moved.push_back(code.add(in));
      }
      for (const Store& store : kernel.stages[0].stores) {
        stage.stores.push_back({moved[at(store.value)], static_cast<int>(made.stores.size())});
        made.stores.push_back(access_here(kernel.stores[at(store.access)]));
      }
    }
  stage.body = std::move(code.body);
  made.stages = {std::move(stage)};
}

}  // namespace nixie::cuda
