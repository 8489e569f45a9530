// Fuses elementwise preprocessing into the kernels that read images of bytes, which saves writing and reading an f32
// copy of four times the bytes. 16-bit first layers absorb it themselves (families/conv/image_code.h). The formula is
// data/normalization.h's, applied by Batch::pixels; all cases: docs/cuda.md, byte images.
#include <algorithm>
#include <optional>

#include "nixie/backends/cuda/families/conv/image_map.h"
#include "nixie/backends/cuda/rewrite/absorb.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// The access of a map to a channel or an image (`from`), where its result, row-major images, is read through `read`;
// none where the reader goes on from channel to channel, or from image to image, along an axis of pixels.
std::optional<Access> seen_through(const Access& from, const Access& read, const Shape& domain, const Shape& images) {
  const std::int64_t image = images.row_major()[0], plane = images.row_major()[1];
  Access seen{.slot = from.slot, .offset = from.offset};
  std::int64_t first_pixel = read.offset, last_pixel = read.offset, last_channel = 0;  // of an image, of a plane
  bool bounded = false;
  for (int axis = 0; axis < domain.rank(); ++axis) {
    const std::int64_t stride = read.strides[at(axis)];
    auto inside = read.inside.empty() ? std::pair(std::int64_t{0}, domain[axis]) : read.inside[at(axis)];
    const std::int64_t first = stride * inside.first, last = stride * (inside.second - 1);
    if (stride < 0) return {};
    if (stride % image == 0) {
      seen.strides.push_back(stride / image * from.strides[0]);
    } else if (stride % plane == 0) {
      seen.strides.push_back(stride / plane * from.strides[1]);
      last_channel += last;
    } else {
      seen.strides.push_back(0);
      first_pixel += first, last_pixel += last;
      inside = {0, domain[axis]};
    }
    seen.inside.push_back(inside);
    bounded |= inside.first > 0 || inside.second < domain[axis];
  }
  if (first_pixel < 0 || last_pixel >= plane || last_channel >= image) return {};
  if (!bounded) seen.inside.clear();
  return seen;
}

// Whether a position is inside the bounds of a load, as f32; -1 where all are.
int is_inside(InstructionBuilder& code, const Access& read, const Shape& domain) {
  int result = -1;
  const auto add = [&](int axis, Primitive comparison, std::int64_t bound, bool bound_first) {
    const int position = code.add({.primitive = Primitive::coordinate, .type = Dtype::i32, .index = axis});
    const int limit =
        code.add({.primitive = Primitive::constant, .type = Dtype::i32, .value = static_cast<double>(bound)});
    const int holds = code.add({.primitive = comparison,
                                .type = Dtype::i32,
                                .args = {bound_first ? limit : position, bound_first ? position : limit, -1}});
    result = result < 0
                 ? holds
                 : code.add({.primitive = Primitive::logical_and, .type = Dtype::i32, .args = {result, holds, -1}});
  };
  for (int axis = 0; axis < static_cast<int>(read.inside.size()); ++axis) {
    const auto [low, high] = read.inside[at(axis)];
    if (low > 0) add(axis, Primitive::less_equal, low, true);
    if (high < domain[axis]) add(axis, Primitive::less, high, false);
  }
  return result < 0 ? -1 : code.apply(Primitive::cast, result);
}

// A reader of a map's result that computes the map itself; none where it cannot.
std::optional<Kernel> computing(const Kernel& reader, const Kernel& map, const ImageMap& what) {
  const Access &made = map.stores[0], &images = map.loads[at(what.images)];
  if (reader.head) return {};
  Kernel kernel = reader;
  std::vector<std::vector<int>> load_of(reader.loads.size());  // for each load of the result, the map's loads
  for (std::size_t i = 0; i < reader.loads.size(); ++i) {
    const Access& read = reader.loads[i];
    if (read.slot != made.slot) continue;
    if (read.fill != 0) return {};
    for (const Access& from : map.loads) {
      std::optional<Access> seen = &from == &images ? read : seen_through(from, read, reader.domain, map.domain);
      if (!seen) return {};
      if (&from == &images) seen->slot = images.slot, seen->offset += images.offset, kernel.loads[i] = *seen;
      load_of[i].push_back(&from == &images ? static_cast<int>(i) : find_or_add(kernel.loads, *seen));
    }
  }
  const auto is_made = [&](const Instruction& in) {
    return in.primitive == Primitive::load && !load_of[at(in.index)].empty();
  };
  for (Stage& stage : kernel.stages) {
    if (std::ranges::any_of(stage.body, [&](const auto& in) { return is_made(in) && in.type != Dtype::f32; }))
      return {};
    rewrite(stage, [&](InstructionBuilder& code, const Instruction& in) {
      if (!is_made(in)) return code.add(in);
      const int made = code.append(what.body,
                                   [&](Instruction step) {
                                     if (step.primitive == Primitive::load)
                                       step.index = load_of[at(in.index)][at(step.index)];
                                     return code.add(step);
                                   })
                           .back();
      const int inside = is_inside(code, reader.loads[at(in.index)], reader.domain);
      return inside < 0 ? made : code.apply(Primitive::select, inside, made, code.number(0));
    });
  }
  return kernel;
}

// Whether a kernel stores what it reads, in values of `dtype`, and zeros: the formula is rounded there as it would be
// where its results are stored.
bool only_copies(const Plan& plan, const Kernel& kernel, Dtype dtype) {
  return std::ranges::all_of(kernel.stores, [&](const Access& store) { return dtype_of(plan, store.slot) == dtype; }) &&
         std::ranges::all_of(kernel.stages, [](const Stage& stage) {
           return stage.reductions.empty() && stage.carries.empty() &&
                  std::ranges::all_of(stage.body, [](const Instruction& in) {
                    return in.primitive == Primitive::load || in.primitive == Primitive::constant;
                  });
         });
}

}  // namespace

void fold_byte_images(Grouping& grouping) {
  const Plan& plan = grouping.plan;
  // Images come from outside; masks of gates, which are bytes as well, do not.
  const auto is_byte = [&](const Access& load) {
    return plan.slots[at(load.slot)].external && size_of(dtype_of(plan, load.slot)) == 1;
  };
  const auto may_make_images = [&](const Grouping::Group& group) {
    const Kernel& kernel = group.members.front();
    return !group.by && !kernel.head && kernel.stores.size() == 1 && std::ranges::any_of(kernel.loads, is_byte);
  };
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    if (!may_make_images(grouping.groups[g])) continue;
    const Kernel made = grouping.groups[g].members.front();
    std::vector<Kernel> kernels;  // all of them
    for (const Grouping::Group& other : grouping.groups)
      kernels.insert(kernels.end(), other.members.begin(), other.members.end());
    const int slot = made.stores[0].slot;
    const std::optional<ImageMap> map = plan.slots[at(slot)].external ? std::nullopt : map_to(kernels, slot);
    if (!map || map->body.back().type != Dtype::f32) continue;
    const Dtype dtype = dtype_of(plan, slot);
    const Access& images = made.loads[at(map->images)];
    if (!is_byte(images) || !same_strides(made.domain, images.strides, made.domain.row_major()) ||
        !same_strides(made.domain, made.stores[0].strides, made.domain.row_major()))
      continue;
    std::vector<std::pair<std::size_t, Kernel>> computed;
    std::vector<std::size_t> replayed;  // whose members alone read the images
    bool all = true;
    for (std::size_t other = 0; other < grouping.groups.size() && all; ++other) {
      const Grouping::Group& reader = grouping.groups[other];
      const bool in_members = !readers_of(reader.members, slot).empty();
      if (!in_members || (reader.by && !grouping.reads(other, slot))) {
        if (in_members) replayed.push_back(other);
        continue;
      }
      const bool follows = !reader.by && (dtype == Dtype::f32 || only_copies(plan, reader.members.front(), dtype));
      auto kernel = follows ? computing(reader.members.front(), made, *map) : std::nullopt;
      all = kernel.has_value();
      if (all) computed.emplace_back(other, *std::move(kernel));
    }
    if (!all || computed.empty()) continue;
    for (auto& [reader, kernel] : computed) grouping.groups[reader].members.front() = std::move(kernel);
    for (std::size_t reader : replayed) clone_into(grouping, reader, made);
    grouping.groups.erase(grouping.groups.begin() + static_cast<std::ptrdiff_t>(g));
    --g;
  }
}

}  // namespace nixie::cuda
