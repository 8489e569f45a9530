// Layer: an options struct whose `build` makes parameters and returns the function that the layer computes.
//
//   struct Scale {
//     float by = 1;
//     static constexpr const char* name = "scale";
//     static constexpr auto fields() { return field_list(field("by", &Scale::by, "factor")); }
//     Forward build(const Shape&, Parameters&) const {
//       return [by = by](const Tensor& x, const Pass&) { return x * by; };
//     }
//   };
// Shapes are [N, C, spatial...], the batch included; the batch size of a call may differ from that of the build.
#pragma once

#include <functional>
#include <string>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/variable.h"

namespace nixie {

struct AuxiliaryLoss;  // layers/auxiliary_loss.h

/// The context of a run of a net, besides its input.
struct Pass {
  bool training = true;    ///< enables dropout; batch norm uses the batch's statistics and updates the running ones
  Tensor step = 0;         ///< i32 scalar: selects the random numbers
  std::uint64_t seed = 0;  ///< seed of all random streams
  /// Which of the equal shares of a batch this is, from 0: its random numbers are those of the whole batch.
  std::int64_t share = 0;
  /// The position in the whole batch's values of the first element of the share's.
  std::int64_t first_of(const Shape& values) const { return share * values.size(); }
  /// Called with the result of every layer of a container, in order, with the layer's Scope open; may be empty.
  std::function<void(const Tensor& result)> observe = {};
  /// Called in training with the output of every auxiliary_loss layer, with the layer's Scope open; may be empty.
  std::function<void(const Tensor& output, const AuxiliaryLoss& loss)> auxiliary = {};
};

using Forward = std::function<Tensor(const Tensor& x, const Pass& pass)>;

/// A layer's options. Containers (sequential, concat, sum) have a `text()` in place of fields.
template <class T>
concept Layer = requires(const T& layer, const Shape& in, Parameters& parameters) {
  { T::name } -> std::convertible_to<std::string>;
  { layer.build(in, parameters) } -> std::convertible_to<Forward>;
};

/// Any layer, as a value.
class AnyLayer {
 public:
  /// The identity.
  AnyLayer();
  AnyLayer(const AnyLayer&) = default;  // no move, so that an AnyLayer always is one
  AnyLayer& operator=(const AnyLayer&) = default;
  template <Layer T>
  requires(!std::same_as<T, AnyLayer>) AnyLayer(const T& layer)
      : kind_(T::name), text_(text_of(layer)), build_([layer](const Shape& in, Parameters& parameters) -> Forward {
          if constexpr (Options<T>) check_fields(layer);
          return layer.build(in, parameters);
        }) {
    if constexpr (requires(const std::vector<Tensor>& parts) { layer.join(parts); })
      join_ = [layer](const std::vector<Tensor>& parts) { return layer.join(parts); };
    if constexpr (requires { layer.shared_layer(); }) shared_ = layer.shared_layer();
    if constexpr (requires { layer.adds_loss(); }) adds_loss_ = layer.adds_loss();
  }

  /// `conv2d`
  const std::string& kind() const { return kind_; }
  /// `conv2d: {out: 64, kernel: [11], ...}`, as in a configuration.
  std::string text() const { return kind_ + ": " + text_; }
  /// Makes the layer's parameters for inputs of this shape. Throws if shape or options do not match.
  Forward build(const Shape& in, Parameters& parameters) const { return build_(in, parameters); }

  using Join = std::function<Tensor(const std::vector<Tensor>&)>;
  /// The function of a layer that may read several inputs (concat, sum, product); else empty.
  const Join& join() const { return join_; }
  /// The layer of the same list that is applied again; "" for all but `shared`.
  const std::string& shared() const { return shared_; }
  /// Whether it has an effect in training besides its result: auxiliary_loss, and lists that contain one.
  bool adds_loss() const { return adds_loss_; }

 private:
  template <class T>
  static std::string text_of(const T& layer) {
    if constexpr (Options<T>)
      return fields_text(layer);
    else
      return layer.text();
  }

  std::string kind_, text_;
  std::function<Forward(const Shape&, Parameters&)> build_;
  Join join_;
  std::string shared_;
  bool adds_loss_ = false;
};

/// Does nothing: the shortcut of a residual block.
struct Identity {
  static constexpr const char* name = "identity";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// A value of this shape on which to run a Forward if only the shape of its result matters.
Tensor placeholder(const Shape& shape, Dtype dtype = Dtype::f32);
/// The output shape of a layer for an input shape, as in evaluation; nothing is computed or changed.
Shape output_shape(const Forward& forward, const Shape& in);

/// Throws `input is [..], expected [N, C, H, W]` unless the shape has this many spatial axes after N and C, and this
/// many channels (0: any).
void check_input(const Shape& in, int spatial, std::int64_t channels = 0);

}  // namespace nixie
