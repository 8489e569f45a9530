// Init: how a parameter's initial values are drawn; the same numbers on every backend. A layer's default is its field
// `init` (layers/*.h); the random stream depends on the parameter's name (core/state/variable.cpp).
#pragma once

#include <cstdint>

#include "nixie/core/base/array.h"

namespace nixie {

/// An initialiser. Shapes are [out, in, window...]: fan_in = in * window, fan_out = out * window; for a vector both are
/// its size.
struct Init {
  enum class Kind : std::uint8_t { constant, uniform, normal, glorot, kaiming, orthonormal };
  Kind kind = Kind::constant;
  float a = 0;  ///< constant: the value; uniform: low; normal: mean; orthonormal: scale; kaiming, glorot: gain
  float b = 0;  ///< uniform: high; normal: standard deviation

  static Init zeros() { return {}; }
  static Init constant(float value) { return {Kind::constant, value, 0}; }
  static Init uniform(float low, float high);
  static Init normal(float deviation, float mean = 0) { return {Kind::normal, mean, deviation}; }
  /// Uniform in +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
  static Init glorot(float gain = 1) { return {Kind::glorot, gain, 0}; }
  /// Normal with deviation gain / sqrt(fan_in); the default gain suits ReLU (He et al. 2015).
  static Init kaiming(float gain = 1.41421356f) { return {Kind::kaiming, gain, 0}; }
  /// Rows (or columns, the shorter side) orthonormal, times scale (Saxe et al. 2014).
  static Init orthonormal(float scale = 1) { return {Kind::orthonormal, scale, 0}; }

  /// The values, f32, drawn from a random stream (core/base/random.h).
  Array make(const Shape& shape, std::uint64_t stream) const;
  bool operator==(const Init&) const = default;
};

/// `{normal: {deviation: 0.01, mean: 0}}`
std::string field_text(const Init& init);

}  // namespace nixie
