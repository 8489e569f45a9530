// Numbers are drawn on the host, pixels are mixed in the step's graph.
#include "nixie/apps/trainer/mixing.h"

#include <algorithm>
#include <cmath>

#include "nixie/data/draws.h"

namespace nixie {
namespace {

/// Marsaglia and Tsang 2000; below 1 by a draw for a + 1.
double gamma_from(double a, Draws& draws) {
  if (a < 1) return gamma_from(a + 1, draws) * std::pow(std::max(draws.uniform(), 1e-7f), 1 / a);
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.normals()[0], v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(std::max(draws.uniform(), 1e-7f)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double beta_from(double a, Draws& draws) {
  const double first = gamma_from(a, draws), second = gamma_from(a, draws);
  return first + second > 0 ? first / (first + second) : 0.5;
}

Tensor number(const Tensor& drawn, std::int64_t at) { return slice(drawn, {Index(at)}); }

}  // namespace

Mixing::Mixing(const MixingOptions& options, std::uint64_t seed, const World& world)
    : options_(options), stream_(random_stream(seed, "mixing")), world_(world) {}

// The last rank's samples, from the last to the first, are the partners of the first rank's.
Tensor Mixing::partner(const Tensor& x) const {
  if (world_.is_alone()) return flip(x, {0});
  const std::int64_t share = x.shape()[0], first = (world_.size() - 1 - world_.rank()) * share;
  return flip(slice(all_gather(world_, x), {Index::range(first, first + share)}), {0});
}

Array Mixing::draw(std::int64_t step, std::int64_t height, std::int64_t width) const {
  Draws draws(stream_, step);
  std::vector<float> drawn = {1, 0, 0, 0, 0, 1};
  if (draws.uniform() >= options_.probability) return Array::from(drawn, {6});
  const bool cuts = options_.cutmix > 0 && (options_.mixup == 0 || draws.below(2) == 1);
  const double share = beta_from(cuts ? options_.cutmix : options_.mixup, draws);
  if (!cuts) {
    drawn[0] = drawn[5] = static_cast<float>(share);
    return Array::from(drawn, {6});
  }
  // A box of that share of the area around any pixel, cut off at the edges; the label's share is what is left.
  const double side = std::sqrt(1 - share);
  const auto place = [&](std::int64_t size, std::size_t at) {
    const double half = side * static_cast<double>(size) / 2, middle = static_cast<double>(draws.below(size));
    const auto clipped = [&](double edge) { return std::clamp(std::floor(edge), 0.0, static_cast<double>(size)); };
    drawn[at] = static_cast<float>(clipped(middle - half));
    drawn[at + 1] = static_cast<float>(clipped(middle + half));
    return drawn[at + 1] - drawn[at];
  };
  const float pasted_height = place(height, 1), pasted_width = place(width, 3);
  drawn[5] = 1 - pasted_height * pasted_width / static_cast<float>(height * width);
  return Array::from(drawn, {6});
}

Tensor Mixing::images(const Tensor& images, const Tensor& drawn) const {
  const Shape plane = {1, 1, images.shape()[2], images.shape()[3]};
  const auto between = [&](int axis, std::int64_t low) {
    const Tensor at = cast(coordinate(plane, axis), Dtype::f32);
    return logical_and(at >= number(drawn, low), at < number(drawn, low + 1));
  };
  const Tensor own = where(logical_and(between(2, 1), between(3, 3)), 0.0, number(drawn, 0));
  return own * images + (1 - own) * partner(images);
}

Tensor Mixing::loss(const AnyLoss& loss, const Tensor& output, const Tensor& labels, const Tensor& drawn) const {
  const Tensor share = number(drawn, 5);
  return share * loss(output, labels) + (1 - share) * loss(output, partner(labels));
}

}  // namespace nixie
