// Gradient rules of the structural ops, each defined beside its op. Elementwise ops carry their own.
#pragma once

#include "nixie/core/graph/tensor.h"

namespace nixie {

// Gradients of a node's inputs x, given g, the gradient of the node y. An empty Tensor is zero.
// shape_ops.cpp and indexing.cpp
Gradients gradient(const Expand&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Reshape&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Permute&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Slice&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Pad&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Concat&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Gather&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Scatter&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
// rows.cpp
Gradients gradient(const ArgSort&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Scan&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
// in reductions.cpp
Gradients gradient(const Reduce&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
// in contractions.cpp
Gradients gradient(const Matmul&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Conv&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const RoundedProduct&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);
Gradients gradient(const Pool&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);

// collectives.cpp
Gradients gradient(const Collective&, const Tensor& g, const Tensor& y, const std::vector<Tensor>& x);

}  // namespace nixie
