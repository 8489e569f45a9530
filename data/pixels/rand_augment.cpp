// A table: what each change does at a share (0 to 1) of its greatest strength.
#include "nixie/data/pixels/rand_augment.h"

#include <cmath>
#include <numbers>

namespace nixie {
namespace {

struct Change {
  const char* name;
  bool is_signed;
  void (*apply)(Planes& planes, double share);  ///< `share` in [-1, 1] where it is signed, else in [0, 1]
};

// Sizes of movements are torchvision's: shears of 0.3, a 150th of 331 pixels for 150, 30 degrees.
constexpr double kShear = 0.3, kTranslate = 150.0 / 331, kDegrees = 30, kFactor = 0.9;

float factor(double share) { return static_cast<float>(1 + kFactor * share); }

const Change kChanges[] = {
    {"identity", false, [](Planes&, double) {}},
    {"shear_x", true,
     [](Planes& p, double s) {
       warp(p, {1, kShear * s, 0, 0, 1, 0});
     }},
    {"shear_y", true,
     [](Planes& p, double s) {
       warp(p, {1, 0, 0, kShear * s, 1, 0});
     }},
    {"translate_x", true,
     [](Planes& p, double s) {
       warp(p, {1, 0, std::trunc(kTranslate * s * static_cast<double>(p.width)), 0, 1, 0});
     }},
    {"translate_y", true,
     [](Planes& p, double s) {
       warp(p, {1, 0, 0, 0, 1, std::trunc(kTranslate * s * static_cast<double>(p.height))});
     }},
    {"rotate", true,
     [](Planes& p, double s) {
       const double angle = kDegrees * s * std::numbers::pi / 180;
       warp(p, {std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0});
     }},
    {"brightness", true, [](Planes& p, double s) { change_brightness(p, factor(s)); }},
    {"color", true, [](Planes& p, double s) { change_saturation(p, factor(s)); }},
    {"contrast", true, [](Planes& p, double s) { change_contrast(p, factor(s)); }},
    {"sharpness", true, [](Planes& p, double s) { change_sharpness(p, factor(s)); }},
    {"posterize", false, [](Planes& p, double s) { posterize(p, 8 - static_cast<int>(std::lround(4 * s))); }},
    {"solarize", false, [](Planes& p, double s) { solarize(p, static_cast<float>(255 * (1 - s))); }},
    {"auto_contrast", false, [](Planes& p, double) { auto_contrast(p); }},
    {"equalize", false, [](Planes& p, double) { equalize(p); }},
};
constexpr std::size_t kCount = std::size(kChanges);

}  // namespace

std::span<const char* const> rand_augment_names() {
  static const auto names = [] {
    std::array<const char*, kCount> all{};
    for (std::size_t i = 0; i < kCount; ++i) all[i] = kChanges[i].name;
    return all;
  }();
  return names;
}

void rand_augment_change(Planes& planes, std::size_t change, double strength, bool negative) {
  const double share = strength / (kRandAugmentStrengths - 1);
  kChanges[change].apply(planes, negative && kChanges[change].is_signed ? -share : share);
}

void rand_augment(Planes& planes, int count, double strength, Draws& draws) {
  for (int i = 0; i < count; ++i) {
    const auto change = static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(kCount)));
    rand_augment_change(planes, change, strength, draws.below(2) == 1);
  }
}

}  // namespace nixie
