// The nodes of single ops: convolutions, reductions, views and pooling.
#pragma once

#include <string>
#include <vector>

#include "nixie/core/graph/tensor.h"
#include "nixie/models/io/onnx/graph.h"

namespace nixie {

/// The batch that graphs are traced at: no other size is equal to it, so that N differs from the rest.
inline constexpr std::int64_t kOnnxBatch = 1000003;

/// The result of the node that computes `x`, whose op this is, from inputs of these names. Throws Fault::usage for what
/// ONNX does not have.
std::string add_op(OnnxGraph& graph, const Conv& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Reduce& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Reshape& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Permute& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Concat& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Slice& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Pad& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Gather& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Scatter& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Collective& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const ArgSort& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Scan& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Random& op, const Tensor& x, const std::vector<std::string>& inputs);
std::string add_op(OnnxGraph& graph, const Pool& op, const Tensor& x, const std::vector<std::string>& inputs);

}  // namespace nixie
