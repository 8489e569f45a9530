// A net's layers as a table: name, kind, output shape of one sample, parameters and options that are not the defaults.
#pragma once

#include <string>
#include <vector>

#include "nixie/models/model.h"

namespace nixie {

struct LayerRow {
  std::string name, kind, shape, parameters, options;
};

/// `input` is [N, ...].
std::vector<LayerRow> layer_rows(const AnyModel& model, const Shape& input);
/// The same as text, a line for each.
std::string layer_table(const AnyModel& model, const Shape& input);

}  // namespace nixie
