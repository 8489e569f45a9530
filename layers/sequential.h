// Containers: lists of layers that read each other by name, and branches side by side that are joined.
#pragma once

#include <optional>
#include <vector>

#include "nixie/layers/layer.h"

namespace nixie {

/// A layer, its name inside its container and what it reads. `weight` of "conv1" becomes `conv1.weight`. Without a
/// name it has its index (`0.weight`); "" adds no prefix. Names must stay stable: checkpoints find parameters by
/// them. In a list a layer reads the one before it or, with `input`, earlier layers of the list by name; "input" is
/// what the list reads.
struct NamedLayer {
  NamedLayer() = default;
  NamedLayer(AnyLayer layer) : layer(std::move(layer)) {}
  template <Layer T>
  NamedLayer(const T& layer) : layer(layer) {}
  NamedLayer(std::string name, AnyLayer layer, std::vector<std::string> input = {})
      : name(std::move(name)), layer(std::move(layer)), input(std::move(input)) {}

  std::optional<std::string> name;
  AnyLayer layer;
  std::vector<std::string> input;
};

/// `{conv2d: {..}}` or `{conv2d: {..}, name: "conv1", input: ["stem"]}`
std::string field_text(const NamedLayer& layer);

/// The name of layer `index` in its list: its own, or its index.
std::string name_in_list(const NamedLayer& layer, std::size_t index);
/// The inputs of each layer of a list: indices of earlier layers, -1 for the list's input. Throws, naming the layer,
/// for a name that no layer before it has or several have, and for a layer that nothing reads.
std::vector<std::vector<int>> layer_inputs(const std::vector<NamedLayer>& layers);
/// The layer that the `shared` layer `index` applies again, itself no shared one.
std::size_t shared_layer(const std::vector<NamedLayer>& layers, std::size_t index);

/// Layers one after the other, or a graph of layers that read each other by name; the result is that of the last one.
/// No layers at all are the identity.
///   Sequential{{"features", Sequential{Conv2d{.out = 64, .kernel = 3}, Relu{}}}, Flatten{}, {"fc", Linear{.out = 10}}}
///   Sequential{{"a", Chunk{.part = 0}}, {"b", Chunk{.part = 1}, {"input"}}, {"c", Sigmoid{}},
///              {"", ProductBranches{}, {"a", "c"}}}
struct Sequential {
  Sequential() = default;
  Sequential(std::initializer_list<NamedLayer> layers) : layers(layers) {}
  Sequential& add(NamedLayer layer);

  std::vector<NamedLayer> layers;

  static constexpr const char* name = "sequential";
  /// `[{conv2d: {..}}, {relu: {..}}]`
  std::string text() const { return field_text(layers); }
  Forward build(const Shape& in, Parameters& parameters) const;
  bool adds_loss() const;
};

/// Branches that read the same input, or several inputs, concatenated along an axis. (core's op has the name Concat.)
struct ConcatBranches {
  std::vector<NamedLayer> branches;
  int axis = 1;

  static constexpr const char* name = "concat";
  static constexpr auto fields() {
    return field_list(
        field("branches", &ConcatBranches::branches, "layers that read the same input; none with several inputs"),
        field("axis", &ConcatBranches::axis, "axis along which the results are joined"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
  Tensor join(const std::vector<Tensor>& parts) const;
};

/// The sum of branches with the same input, or of several inputs, of one shape: residual blocks have an
/// Identity as a shortcut.
struct SumBranches {
  std::vector<NamedLayer> branches;

  static constexpr const char* name = "sum";
  static constexpr auto fields() {
    return field_list(
        field("branches", &SumBranches::branches, "layers that read the same input; none with several inputs"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
  Tensor join(const std::vector<Tensor>& parts) const;
};

/// The product of branches with the same input, or of several inputs; sizes of 1 are repeated: gates.
struct ProductBranches {
  std::vector<NamedLayer> branches;

  static constexpr const char* name = "product";
  static constexpr auto fields() {
    return field_list(
        field("branches", &ProductBranches::branches, "layers that read the same input; none with several inputs"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
  Tensor join(const std::vector<Tensor>& parts) const;
};

/// An earlier layer of the same list again, with the same parameters, on another input. Random draws (dropout) are the
/// same, and batch norm's running statistics follow both inputs in turn.
struct Shared {
  std::string layer = {};

  static constexpr const char* name = "shared";
  static constexpr auto fields() {
    return field_list(field("layer", &Shared::layer, "name of an earlier layer of the list"));
  }
  /// Throws: only a list of layers knows the other layer.
  Forward build(const Shape& in, Parameters& parameters) const;
  const std::string& shared_layer() const { return layer; }
};

}  // namespace nixie
