// Init: draws parameters from the counter-based streams.
#include "nixie/core/state/init.h"

#include <cmath>

#include "nixie/core/base/random.h"
#include "nixie/core/base/threads.h"

namespace nixie {
namespace {

struct Fans {
  double in, out;
};

Fans fans(const Shape& shape) {
  if (shape.rank() < 2) return {static_cast<double>(shape.size()), static_cast<double>(shape.size())};
  double window = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) window *= static_cast<double>(shape[axis]);
  return {static_cast<double>(shape[1]) * window, static_cast<double>(shape[0]) * window};
}

std::array<std::uint32_t, 4> block(std::uint64_t number, std::uint64_t stream) {
  return philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0}, stream);
}

// Calls fill(begin, end) for pieces of the indices below `size`, at once where there are many: a number depends on its
// index alone.
template <class Fill>
void in_pieces(std::size_t size, const Fill& fill) {
  constexpr std::size_t kPiece = std::size_t{1} << 16, kMany = 8;
  if (size < kMany * kPiece) return fill(0, size);
  try {
    share_out("draw", static_cast<std::int64_t>((size + kPiece - 1) / kPiece), [&](std::int64_t piece) {
      const std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
      fill(begin, std::min(begin + kPiece, size));
    });
  } catch (const NoThread&) {
    fill(0, size);
  }
}

void fill_uniform(std::span<float> values, std::uint64_t stream, float low, float high) {
  in_pieces(values.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; i += 4) {
      const auto words = block(i / 4, stream);
      for (std::size_t j = i; j < std::min(i + 4, end); ++j)
        values[j] = low + (high - low) * uniform_from(words[j % 4]);
    }
  });
}

void fill_normal(std::span<float> values, std::uint64_t stream, float mean, float deviation) {
  in_pieces(values.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; i += 4) {
      const auto words = block(i / 4, stream);
      const auto first = normals_from(words[0], words[1]), second = normals_from(words[2], words[3]);
      const float normals[4] = {first[0], first[1], second[0], second[1]};
      for (std::size_t j = i; j < std::min(i + 4, end); ++j) values[j] = mean + deviation * normals[j % 4];
    }
  });
}

// Modified Gram-Schmidt, twice, over the vectors of the shorter side (Giraud et al. 2005: twice is enough).
void orthonormalize(std::span<float> values, std::int64_t rows, std::int64_t columns, float scale) {
  const bool by_row = rows <= columns;
  const std::int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  auto at = [&](std::int64_t vector, std::int64_t i) -> float& {
    return values[static_cast<std::size_t>(by_row ? vector * columns + i : i * columns + vector)];
  };
  for (std::int64_t v = 0; v < count; ++v) {
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t u = 0; u < v; ++u) {
        double dot = 0;
        for (std::int64_t i = 0; i < length; ++i) dot += static_cast<double>(at(u, i)) * at(v, i);
        for (std::int64_t i = 0; i < length; ++i) at(v, i) -= static_cast<float>(dot) * at(u, i);
      }
    double norm = 0;
    for (std::int64_t i = 0; i < length; ++i) norm += static_cast<double>(at(v, i)) * at(v, i);
    for (std::int64_t i = 0; i < length; ++i) at(v, i) = static_cast<float>(at(v, i) / std::sqrt(norm));
  }
  for (float& value : values) value *= scale;
}

}  // namespace

Init Init::uniform(float low, float high) {
  check(low <= high, "uniform: low is ", low, " and high ", high, ", expected low below high");
  return {Kind::uniform, low, high};
}

Array Init::make(const Shape& shape, std::uint64_t stream) const {
  Array array(Dtype::f32, shape);
  const std::span<float> values = array.data<float>();
  const Fans fan = fans(shape);
  switch (kind) {
    case Kind::constant:
      std::ranges::fill(values, a);
      break;
    case Kind::uniform:
      fill_uniform(values, stream, a, b);
      break;
    case Kind::normal:
      fill_normal(values, stream, a, b);
      break;
    case Kind::glorot: {
      const float limit = a * static_cast<float>(std::sqrt(6 / (fan.in + fan.out)));
      fill_uniform(values, stream, -limit, limit);
      break;
    }
    case Kind::kaiming:
      fill_normal(values, stream, 0, a / static_cast<float>(std::sqrt(fan.in)));
      break;
    case Kind::orthonormal: {
      check(shape.rank() >= 2 && shape.size() > 0, "orthonormal: shape is ", shape, ", expected at least two axes");
      fill_normal(values, stream, 0, 1);
      orthonormalize(values, shape[0], shape.size() / shape[0], a);
      break;
    }
  }
  return array;
}

std::string field_text(const Init& init) {
  constexpr fmt::string_view kTexts[] = {"{{constant: {{value: {0}}}}}",
                                         "{{uniform: {{low: {0}, high: {1}}}}}",
                                         "{{normal: {{deviation: {1}, mean: {0}}}}}",
                                         "{{glorot: {{gain: {0}}}}}",
                                         "{{kaiming: {{gain: {0}}}}}",
                                         "{{orthonormal: {{scale: {0}}}}}"};
  return fmt::format(fmt::runtime(kTexts[static_cast<int>(init.kind)]), init.a, init.b);
}

}  // namespace nixie
