// Two operations on lanes in one pass: the value between them stays in a register.
#include <algorithm>

#include "nixie/backends/cpu/lanes/lane_loop.h"

namespace nixie::cpu {
namespace {

constexpr std::array kPaired{Primitive::add, Primitive::sub, Primitive::mul,
                             Primitive::min, Primitive::max, Primitive::less};

template <Primitive kFirst, Primitive kSecond, bool kLeft>
void pair_lanes(const void* a, const void* b, const void* c, void* out, std::int64_t n) {
  const float *x = static_cast<const float*>(a), *y = static_cast<const float*>(b), *z = static_cast<const float*>(c);
  float* result = static_cast<float*>(out);
  for (std::int64_t i = 0; i < n; i += kLanes<float>) {
    const Vector<float> between = combine<kFirst>(load(x + i), load(y + i)), other = load(z + i);
    store(result + i, kLeft ? combine<kSecond>(between, other) : combine<kSecond>(other, between));
  }
}

constexpr std::size_t kCount = kPaired.size();

template <std::size_t... i>
constexpr auto pairs(std::index_sequence<i...>) {
  return std::array<LaneFunction, sizeof...(i)>{
      &pair_lanes<kPaired[i / 2 / kCount], kPaired[i / 2 % kCount], i % 2 == 1>...};
}

}  // namespace

LaneFunction pair_function(Primitive first, Primitive second, bool left, Dtype type) {
  static constexpr auto kFunctions = pairs(std::make_index_sequence<2 * kCount * kCount>{});
  const auto place = [](Primitive primitive) {
    return static_cast<std::size_t>(std::find(kPaired.begin(), kPaired.end(), primitive) - kPaired.begin());
  };
  if (type != Dtype::f32 || place(first) == kCount || place(second) == kCount) return nullptr;
  return kFunctions[2 * (place(first) * kCount + place(second)) + (left ? 1 : 0)];
}

}  // namespace nixie::cpu
