// neon's layers as nixie's: a bias joins the layer before it, and the cost takes over the last activation.
#pragma once

#include <array>
#include <optional>

#include "nixie/configs/parse/neon/source.h"

namespace nixie {

/// Parameters of a layer that a MultiOptimizer of neon names together: by the class of neon's layer or by its name.
struct NeonParameters {
  std::vector<std::string> classes = {};  ///< of the versions of neon
  std::string name = {};
  const char* match = "weight";  ///< the pattern of nixie's names, behind the layer's
};

/// A layer of nixie.
struct ConvertedLayer {
  std::string kind = {}, name = {};
  const Tree* from = nullptr;  ///< what it was in neon's file
  Fields fields = {};
  std::vector<NeonParameters> parameters = {};
  int outputs = 0;  ///< of a linear layer; filters of a convolution

  Tree tree() const;
};

class NeonLayers {
 public:
  /// For images with so many channels.
  NeonLayers(NeonSource& source, int channels) : source_(source), channels_(channels) {}

  void add(const Tree& layer);
  /// Removes the last activation, which the cost includes; `cost` is where it stands. What it was in neon's file.
  const Tree& take_last(const char* kind, const Tree& cost);
  /// Outputs of the net: neon adds the costs of all outputs, nixie takes their mean.
  int outputs(const Tree& cost) const;
  /// Makes rows of what a net without linear layers ends with, as neon has them.
  void finish();

  const std::vector<ConvertedLayer>& layers() const { return layers_; }

 private:
  /// A weight as neon's initialisers see it: [inputs, outputs] of a convolution; [outputs, inputs] of a linear layer,
  /// whose inputs are not known here; [outputs, 1] of a bias.
  struct WeightShape {
    double rows;
    std::optional<double> columns = {};
    bool is_convolution = false;
  };
  struct AxisKeys {
    const char *key, *height, *width, *depth;
    int neutral;  // of the depth, which pictures do not have
  };
  static constexpr AxisKeys kStrides{"strides", "str_h", "str_w", "str_d", 1},
      kPadding{"padding", "pad_h", "pad_w", "pad_d", 0}, kDilation{"dilation", "dil_h", "dil_w", "dil_d", 1},
      kWindow{"fshape", "R", "S", "T", 1};

  ConvertedLayer& append(const std::string& kind, const Tree& from, Fields fields = {});
  void add_linear(const Tree& layer);
  void add_affine(const Tree& layer);
  void add_convolution(const Tree& layer);
  void add_conv(const Tree& layer);
  void add_pooling(const Tree& layer);
  void add_dropout(const Tree& layer);
  void add_lrn(const Tree& layer);
  void add_batch_norm(const Tree& layer);
  void add_bias(const Tree& layer);
  void add_activation(const Tree& layer);
  void add_rest_of_compound(const Tree& layer, const std::string& name, bool is_conv);
  void add_normalization(const Tree& layer, const std::string& name, Tree momentum, Tree eps);
  void add_bias(const Tree& layer, const Tree& init, NeonParameters parameters);
  void add_transform(const Tree& transform);
  void flatten(const Tree& layer);

  std::string name_of(const Tree& layer, const char* inner);
  void set_init(const char* field, const Tree& init, const WeightShape& weight);
  Tree init_tree(const Tree& init, const WeightShape& weight);
  std::array<int, 2> axes(const Tree& object, const AxisKeys& keys, std::array<int, 2> otherwise);
  Tree::Entry axes_field(const char* field, const Tree& object, const AxisKeys& keys, std::array<int, 2> otherwise);

  NeonSource& source_;
  int channels_;
  std::vector<ConvertedLayer> layers_;
};

}  // namespace nixie
