// Elementwise formulas as ONNX nodes: one node if ONNX has the op, else one per instruction.
#pragma once

#include "nixie/core/graph/tensor.h"
#include "nixie/models/io/onnx/graph.h"

namespace nixie {

/// The result of a Map node whose inputs have these names. Throws Fault::usage for an instruction that ONNX lacks.
std::string add_formula(OnnxGraph& graph, const Node& map, const std::vector<std::string>& inputs);

}  // namespace nixie
