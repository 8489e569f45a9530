// Containers: layers one after the other, and branches side by side that are concatenated or added.
#pragma once

#include <optional>
#include <vector>

#include "nixie/layers/layer.h"

namespace nixie {

/// A layer and its name inside its container: `weight` of "conv1" becomes `conv1.weight`. Without a
/// name it has its index (`0.weight`); "" adds no prefix. Names must stay stable: checkpoints find parameters by
/// them.
struct NamedLayer {
  NamedLayer() = default;
  NamedLayer(AnyLayer layer) : layer(std::move(layer)) {}
  template <Layer T>
  NamedLayer(const T& layer) : layer(layer) {}
  NamedLayer(std::string name, AnyLayer layer) : name(std::move(name)), layer(std::move(layer)) {}

  std::optional<std::string> name;
  AnyLayer layer;
};

/// `{conv2d: {..}}` or `{conv2d: {..}, name: "conv1"}`
std::string field_text(const NamedLayer& layer);

/// Layers one after the other; none at all is the identity.
///   Sequential{{"features", Sequential{Conv2d{.out = 64, .kernel = 3}, Relu{}}}, Flatten{}, {"fc", Linear{.out = 10}}}
struct Sequential {
  Sequential() = default;
  Sequential(std::initializer_list<NamedLayer> layers) : layers(layers) {}
  Sequential& add(NamedLayer layer);

  std::vector<NamedLayer> layers;

  static constexpr const char* name = "sequential";
  /// `[{conv2d: {..}}, {relu: {..}}]`
  std::string text() const { return field_text(layers); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// Branches that read the same input, concatenated along an axis. (core's op has the name Concat.)
struct ConcatBranches {
  std::vector<NamedLayer> branches;
  int axis = 1;

  static constexpr const char* name = "concat";
  static constexpr auto fields() {
    return field_list(field("branches", &ConcatBranches::branches, "layers that read the same input"),
                      field("axis", &ConcatBranches::axis, "axis along which the results are joined"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// The sum of branches with the same input and output shape: residual blocks, with Identity as a shortcut.
struct SumBranches {
  std::vector<NamedLayer> branches;

  static constexpr const char* name = "sum";
  static constexpr auto fields() {
    return field_list(field("branches", &SumBranches::branches, "layers that read the same input"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
