// Draws layers until one is within the limits.
#include "nixie/apps/benchmark/subjects/sweep_layers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "nixie/core/base/random.h"

namespace nixie::benchmark {
namespace {

std::int64_t size_of_all(const SweepLayer::Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

Shape shape_of(std::int64_t first, std::int64_t second, const SweepLayer::Sizes& others) {
  std::vector<std::int64_t> sizes{first, second};
  sizes.insert(sizes.end(), others.begin(), others.end());
  return Shape(sizes);
}

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : stream_(random_stream(seed, "sweep")) {}

  double uniform() { return static_cast<double>(uniform_from(philox({next_++, 0, 0, 0}, stream_)[0])); }
  bool chance(double probability) { return uniform() < probability; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(uniform() * static_cast<double>(high - low + 1));
  }
  std::int64_t log_between(std::int64_t low, std::int64_t high) {
    const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high + 1));
    return std::min(high, static_cast<std::int64_t>(std::exp(from + uniform() * (to - from))));
  }
  std::int64_t channels() {
    const std::int64_t drawn = log_between(1, 1024);
    return drawn >= 8 && chance(0.5) ? drawn / 8 * 8 : drawn;
  }

 private:
  std::uint32_t next_ = 0;
  std::uint64_t stream_;
};

void draw_groups(Draws& draws, SweepLayer& layer) {
  const double kind = draws.uniform();
  layer.channels = draws.channels();
  layer.out = draws.channels();
  if (kind < 0.2 && layer.channels > 1) {
    layer.groups = layer.channels;
    layer.out = layer.channels * (draws.chance(0.8) ? 1 : 2);
  } else if (kind < 0.4) {
    const std::int64_t width = draws.log_between(2, 64),
                       out_width = draws.chance(0.7) ? width : draws.log_between(2, 64);
    layer.groups = std::max<std::int64_t>(2, layer.channels / width);
    layer.channels = layer.groups * width;
    layer.out = layer.groups * out_width;
  }
}

SweepLayer draw(Draws& draws) {
  SweepLayer layer{.batch = draws.log_between(1, 256)};
  for (SweepLayer::Sizes* sizes : {&layer.image, &layer.window, &layer.stride, &layer.pad, &layer.dilation})
    sizes->resize(2);
  draw_groups(draws, layer);
  layer.image[0] = draws.log_between(4, 256);
  layer.image[1] = draws.chance(0.6) ? layer.image[0] : draws.log_between(4, 256);
  layer.window[0] = draws.log_between(1, 15);
  layer.window[1] = draws.chance(0.67) ? layer.window[0] : draws.log_between(1, 15);
  layer.stride[0] = draws.chance(0.5) ? 1 : draws.between(2, 4);
  layer.stride[1] = draws.chance(0.8) ? layer.stride[0] : draws.between(1, 4);
  const std::int64_t dilation = draws.chance(0.7) ? 1 : draws.between(2, 3);
  const double padding = draws.uniform();
  for (std::size_t i = 0; i < 2; ++i) {
    layer.dilation[i] = layer.window[i] > 1 ? dilation : 1;
    const std::int64_t reach = layer.dilation[i] * (layer.window[i] - 1);
    layer.pad[i] = padding < 0.7 ? reach / 2 : padding < 0.85 ? 0 : draws.between(0, reach);
  }
  static constexpr ConvRole kRoles[] = {ConvRole::output, ConvRole::input_grad, ConvRole::filter_grad};
  layer.role = kRoles[draws.between(0, 2)];
  return layer;
}

bool is_within(const SweepLayer& layer, const SweepLimits& limits) {
  return size_of_all(layer.result()) > 0 && layer.flop() >= limits.least_flop && layer.flop() <= limits.most_flop &&
         layer.elements() <= limits.most_elements;
}

// One number where all are equal.
std::string brief(const SweepLayer::Sizes& sizes) {
  const bool equal = std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes[0]; });
  return equal ? fmt::format("{}", sizes[0]) : fmt::format("{}", fmt::join(sizes, "x"));
}

std::vector<int> ints(const SweepLayer::Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

Tensor nothing(std::int64_t first, std::int64_t second, const SweepLayer::Sizes& others) {
  return Tensor::make(Input{.name = "operand"}, {}, shape_of(first, second, others), Dtype::f32);
}

}  // namespace

SweepLayer::Sizes SweepLayer::result() const {
  Sizes sizes;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::int64_t room = image[i] + 2 * pad[i] - dilation[i] * (window[i] - 1) - 1;
    sizes.push_back(room < 0 ? 0 : room / stride[i] + 1);
  }
  return sizes;
}

double SweepLayer::flop() const {
  return 2.0 * static_cast<double>(batch * out * size_of_all(result())) *
         static_cast<double>(channels / groups * size_of_all(window));
}

double SweepLayer::elements() const {
  return static_cast<double>(batch * channels * size_of_all(image)) +
         static_cast<double>(batch * out * size_of_all(result())) +
         static_cast<double>(out * (channels / groups) * size_of_all(window));
}

std::string SweepLayer::kind() const { return groups == 1 ? "dense" : groups == channels ? "depthwise" : "grouped"; }

std::string SweepLayer::text() const {
  return fmt::format("{}x{}x{} to {}, window {}, stride {}, pad {}, dilation {}, groups {}", batch, channels,
                     fmt::join(image, "x"), out, fmt::join(window, "x"), brief(stride), brief(pad), brief(dilation),
                     groups);
}

Tensor SweepLayer::node() const {
  const Tensor x = nothing(batch, channels, image), w = nothing(out, channels / groups, window),
               y = nothing(batch, out, result());
  const Conv conv{.role = role,
                  .stride = ints(stride),
                  .pad = ints(pad),
                  .dilation = ints(dilation),
                  .groups = static_cast<int>(groups)};
  switch (role) {
    case ConvRole::output:
      return Tensor::make(conv, {x, w}, y.shape(), Dtype::f32);
    case ConvRole::input_grad:
      return Tensor::make(conv, {y, w}, x.shape(), Dtype::f32);
    case ConvRole::filter_grad:
      break;
  }
  return Tensor::make(conv, {y, x}, w.shape(), Dtype::f32);
}

std::vector<SweepLayer> draw_sweep(int count, std::uint64_t seed, const SweepLimits& limits) {
  Draws draws(seed);
  std::vector<SweepLayer> layers;
  while (static_cast<int>(layers.size()) < count) {
    const SweepLayer layer = draw(draws);
    if (is_within(layer, limits)) layers.push_back(layer);
  }
  return layers;
}

}  // namespace nixie::benchmark
