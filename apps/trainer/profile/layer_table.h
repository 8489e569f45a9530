// A net's layers, one by one, and as a table: name, kind, output shape of one sample, parameters, FLOP, memory, options
// that are not the defaults.
#pragma once

#include <string>
#include <vector>

#include "nixie/models/model.h"

namespace nixie {

/// A layer with the shape that reaches it, the batch included.
struct PlacedLayer {
  std::string name = {};  ///< its path in the net
  AnyLayer layer = {};
  Shape in = {}, out = {};
  std::int64_t parameters = 0;  ///< elements that are trained
  double flop = 0;              ///< of the forward pass's products, for the whole batch
  std::string options = {};     ///< that are not the defaults
  bool joins = false;           ///< a container: it joins what the layers of its branches, listed before it, give
};
/// All layers in the order they run; a sequence is listed as its layers. `input` is [N, ...].
std::vector<PlacedLayer> placed_layers(const AnyModel& model, const Shape& input);

struct LayerRow {
  std::string name, kind, shape, parameters;
  std::string mflop, kib;  ///< of a sample: of the forward pass's products; of the output in f32
  std::string options;
};

/// `input` is [N, ...].
std::vector<LayerRow> layer_rows(const AnyModel& model, const Shape& input);
/// The same as text, a line for each.
std::string layer_table(const AnyModel& model, const Shape& input);

}  // namespace nixie
