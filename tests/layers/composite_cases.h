// The cases of composite_layers_test.cpp and named_inputs_test.cpp, for the test that no layer goes without one.
#pragma once

#include "nixie/tests/layers/layer_check.h"

namespace nixie {

std::vector<LayerCase> composite_layer_cases();
std::vector<LayerCase> named_input_cases();

}  // namespace nixie
