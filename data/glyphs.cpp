// Glyphs: the strokes of the ten digits and how they are drawn.
#include "nixie/data/glyphs.h"

#include <algorithm>
#include <cmath>

#include "nixie/data/draws.h"

namespace nixie {
namespace {

constexpr int kSide = 28;
constexpr float kMean = 0.13f, kDeviation = 0.23f;

struct Point {
  float x, y;
};
/// A stroke in the unit square, y downwards: straight lines, or a smooth curve, through its points.
struct Stroke {
  bool smooth;
  std::vector<Point> points;
};
using Glyph = std::vector<Stroke>;

/// Each digit in the ways people write it.
const std::vector<std::vector<Glyph>>& digits() {
  static const std::vector<std::vector<Glyph>> all{
      {{{true,
         {{.5f, .08f},
          {.25f, .22f},
          {.18f, .5f},
          {.25f, .8f},
          {.5f, .93f},
          {.75f, .8f},
          {.82f, .5f},
          {.75f, .22f},
          {.5f, .08f}}}}},
      {{{false, {{.5f, .07f}, {.5f, .93f}}}},
       {{false, {{.3f, .3f}, {.54f, .08f}, {.54f, .93f}}}},
       {{false, {{.3f, .3f}, {.52f, .08f}, {.52f, .92f}}}, {false, {{.28f, .92f}, {.76f, .92f}}}}},
      {{{true, {{.22f, .28f}, {.36f, .1f}, {.62f, .1f}, {.76f, .28f}, {.64f, .52f}, {.4f, .74f}, {.2f, .92f}}},
        {false, {{.2f, .92f}, {.82f, .9f}}}}},
      {{{true, {{.22f, .16f}, {.5f, .07f}, {.74f, .22f}, {.66f, .41f}, {.42f, .48f}}},
        {true, {{.42f, .48f}, {.7f, .54f}, {.78f, .74f}, {.56f, .92f}, {.2f, .84f}}}},
       {{false, {{.22f, .1f}, {.74f, .1f}, {.46f, .42f}}},
        {true, {{.46f, .42f}, {.72f, .52f}, {.76f, .74f}, {.54f, .92f}, {.2f, .84f}}}}},
      {{{false, {{.62f, .08f}, {.18f, .64f}, {.84f, .64f}}}, {false, {{.64f, .08f}, {.64f, .94f}}}},
       {{false, {{.26f, .1f}, {.22f, .54f}, {.74f, .52f}}}, {false, {{.74f, .1f}, {.72f, .94f}}}}},
      {{{false, {{.74f, .1f}, {.32f, .1f}, {.27f, .46f}}},
        {true, {{.27f, .46f}, {.56f, .4f}, {.77f, .62f}, {.66f, .86f}, {.4f, .93f}, {.2f, .84f}}}}},
      {{{true,
         {{.68f, .09f},
          {.4f, .26f},
          {.24f, .56f},
          {.28f, .82f},
          {.5f, .93f},
          {.72f, .82f},
          {.73f, .63f},
          {.52f, .51f},
          {.28f, .64f}}}}},
      {{{false, {{.2f, .1f}, {.8f, .1f}, {.42f, .93f}}}},
       {{false, {{.2f, .1f}, {.8f, .1f}, {.42f, .93f}}}, {false, {{.36f, .5f}, {.76f, .5f}}}}},
      {{{true,
         {{.5f, .48f},
          {.73f, .3f},
          {.5f, .08f},
          {.27f, .3f},
          {.5f, .48f},
          {.76f, .7f},
          {.5f, .93f},
          {.24f, .7f},
          {.5f, .48f}}}}},
      {{{true,
         {{.74f, .34f},
          {.52f, .5f},
          {.27f, .38f},
          {.3f, .16f},
          {.54f, .07f},
          {.74f, .2f},
          {.74f, .36f},
          {.7f, .66f},
          {.58f, .94f}}}},
       {{true, {{.72f, .3f}, {.5f, .5f}, {.27f, .36f}, {.32f, .14f}, {.56f, .07f}, {.73f, .2f}}},
        {false, {{.73f, .16f}, {.7f, .94f}}}}},
  };
  return all;
}

/// A point of the Catmull-Rom curve from b to c, t in [0, 1].
Point curve(Point a, Point b, Point c, Point d, float t) {
  const auto along = [t](float a, float b, float c, float d) {
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
  };
  return {along(a.x, b.x, c.x, d.x), along(a.y, b.y, c.y, d.y)};
}

/// Lays a line with round ends onto the image, keeping the darker of old and new.
void draw_line(Point from, Point to, float radius, std::span<float> image) {
  const float reach = radius + 0.5f, dx = to.x - from.x, dy = to.y - from.y;
  const float scale = 1 / std::max(dx * dx + dy * dy, 1e-6f);
  const auto bound = [](float v) { return static_cast<int>(std::clamp(v, 0.0f, kSide - 1.0f)); };
  const int right = bound(std::max(from.x, to.x) + reach), bottom = bound(std::max(from.y, to.y) + reach);
  for (int y = bound(std::min(from.y, to.y) - reach); y <= bottom; ++y)
    for (int x = bound(std::min(from.x, to.x) - reach); x <= right; ++x) {
      const float px = static_cast<float>(x) - from.x, py = static_cast<float>(y) - from.y;
      const float t = std::clamp((px * dx + py * dy) * scale, 0.0f, 1.0f), ex = px - t * dx, ey = py - t * dy;
      float& pixel = image[static_cast<std::size_t>(y) * kSide + static_cast<std::size_t>(x)];
      pixel = std::max(pixel, std::clamp(reach - std::sqrt(ex * ex + ey * ey), 0.0f, 1.0f));
    }
}

/// Where a point of the unit square lands on the image.
struct Warp {
  float xx, xy, yx, yy, x, y;
  explicit Warp(Draws& draws) {
    const float angle = draws.uniform(-0.3f, 0.3f), shear = draws.uniform(-0.35f, 0.35f);
    const float width = draws.uniform(13, 22), height = draws.uniform(16, 23);
    xx = width * std::cos(angle), xy = height * (shear - std::sin(angle));
    yx = width * std::sin(angle), yy = height * std::cos(angle);
    x = kSide / 2.0f + draws.uniform(-2, 2), y = kSide / 2.0f + draws.uniform(-2, 2);
  }
  Point operator()(Point p) const {
    const float u = p.x - 0.5f, v = p.y - 0.5f;
    return {x + xx * u + xy * v, y + yx * u + yy * v};
  }
};

void draw_glyph(const Glyph& glyph, Draws& draws, std::span<float> image) {
  const Warp warp(draws);
  const float radius = draws.uniform(0.6f, 1.6f);
  for (const Stroke& stroke : glyph) {
    std::vector<Point> points;
    for (const Point& p : stroke.points) {
      const auto [dx, dy] = draws.normals();
      points.push_back(warp({p.x + 0.03f * dx, p.y + 0.03f * dy}));
    }
    const std::size_t last = points.size() - 1;
    Point at = points[0];
    for (std::size_t i = 0; i < last; ++i) {
      const int pieces = stroke.smooth ? 5 : 1;
      for (int piece = 1; piece <= pieces; ++piece) {
        const float t = static_cast<float>(piece) / static_cast<float>(pieces);
        const Point next =
            stroke.smooth ? curve(points[i ? i - 1 : 0], points[i], points[i + 1], points[std::min(i + 2, last)], t)
                          : points[i + 1];
        draw_line(at, next, radius, image);
        at = next;
      }
    }
  }
}

class DrawnDigits : public Dataset {
 public:
  DrawnDigits(std::string_view half, std::int64_t size, bool normalize)
      : stream_(random_stream(0, half)), size_(size), normalize_(normalize) {}

  std::int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {1, kSide, kSide}; }
  const std::vector<std::string>& class_names() const override { return names_; }

  Preparation preparation() const override {
    Preparation preparation = Dataset::preparation();
    if (normalize_) preparation.mean = {kMean}, preparation.deviation = {kDeviation};
    return preparation;
  }

  std::int32_t load(std::int64_t index, const AugmentKey&, std::span<float> pixels) const override {
    Draws draws(stream_, index);
    const auto digit = static_cast<std::size_t>(index % 10);
    const auto& forms = digits()[digit];
    std::fill(pixels.begin(), pixels.end(), 0.0f);
    draw_glyph(forms[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(forms.size())))], draws, pixels);

    const float ink = draws.uniform(0.6f, 1), noise = draws.uniform(0.05f, 0.2f);
    for (std::size_t i = 0; i < pixels.size(); i += 2) {
      const auto grain = draws.normals();
      for (std::size_t k = 0; k < 2; ++k) {
        const float value = std::clamp(ink * pixels[i + k] + noise * grain[k], 0.0f, 1.0f);
        pixels[i + k] = normalize_ ? (value - kMean) / kDeviation : value;
      }
    }
    return static_cast<std::int32_t>(digit);
  }

 private:
  std::uint64_t stream_;
  std::int64_t size_;
  bool normalize_;
  std::vector<std::string> names_{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

}  // namespace

Splits Glyphs::open() const {
  return {std::make_shared<DrawnDigits>("glyphs/train", limited(train, limit), normalize),
          std::make_shared<DrawnDigits>("glyphs/test", limited(test, limit), normalize)};
}

}  // namespace nixie
