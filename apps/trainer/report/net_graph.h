// The net as a picture: a box for each layer, branches side by side.
#pragma once

#include <string>

#include "nixie/models/model.h"

namespace nixie {

/// SVG inside a page whose style sheet colours it; "" for a net of more than 300 layers. `input` is [N, ...].
std::string net_graph(const AnyModel& model, const Shape& input);

}  // namespace nixie
