// Model: a net built for an input shape, with its parameters; and AnyModel, a configuration's net.
#pragma once

#include <optional>

#include "nixie/core/graph/precision_policy.h"
#include "nixie/layers/sequential.h"
#include "nixie/models/format_rule.h"

namespace nixie {

/// Options of a net; `layers` is its definition.
template <class T>
concept Net = Options<T> && requires(const T& net) {
  { net.layers() } -> std::convertible_to<Sequential>;
};

/// A net by name and options, or a list of layers, as a value.
class AnyModel {
 public:
  /// No layers at all.
  AnyModel();
  AnyModel(const AnyModel&) = default;  // no move, so that an AnyModel always has its layers
  AnyModel& operator=(const AnyModel&) = default;
  AnyModel(const Sequential& layers);
  template <Net T>
  AnyModel(const T& net)
      : kind_(T::name), text_("{" + kind_ + ": " + fields_text(net) + "}"), layers_([net] {
          check_fields(net);
          return net.layers();
        }) {}

  /// `alexnet`, or `sequential` for a list
  const std::string& kind() const { return kind_; }
  /// `{alexnet: {classes: 1000, ...}}`, or `[{conv2d: {..}}, {relu: {..}}]` for a list
  const std::string& text() const { return text_; }
  Sequential layers() const { return layers_(); }

 private:
  std::string kind_, text_;
  std::function<Sequential()> layers_;
};
std::string field_text(const AnyModel& model);

/// Copies share the parameters.
class Model {
 public:
  /// Makes the parameters for inputs [N, ...]; the batch size of a call may differ from N. Initial values are drawn
  /// from the seed when they are first needed and stored as `floating`. An error about a shape names the layer.
  Model(const AnyModel& net, const Shape& input, std::uint64_t seed = 0,
        Dtype floating = parameter_dtype(default_precision()));
  Model(const Model&) = default;  // no move, so that a Model always has its net
  Model& operator=(const Model&) = default;

  /// The same net and parameters; in evaluation its output is the mean over a sample and its mirror image, whose output
  /// is mirrored back if it has a width. Throws where samples have no width.
  Model with_mirror_average() const;

  /// The same net and parameters, whose products take their operands in these formats, in training and evaluation.
  /// Throws for an unknown format and for a rule that no layer with a product follows.
  Model with_formats(const std::vector<FormatRule>& rules) const;
  /// Those formats; none without with_formats.
  const std::optional<OperandFormats>& formats() const { return formats_; }

  Tensor operator()(const Tensor& x, const Pass& pass) const;
  const Parameters& parameters() const { return parameters_; }
  /// The shape [N, ...] that it was built for.
  const Shape& batch_shape() const { return input_; }
  /// The shape of one sample, without N.
  Shape input_shape() const;
  Shape output_shape() const;

 private:
  Parameters parameters_;
  Shape input_;
  Forward forward_;
  std::optional<OperandFormats> formats_;
};

}  // namespace nixie
