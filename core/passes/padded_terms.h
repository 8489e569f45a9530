// Sums of padded arrays that are side by side: the gradient of taking an array apart.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "nixie/core/graph/op.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// Makes a node; `simplify` merges equal ones.
using MakeNode = std::function<Tensor(const Op&, std::vector<Tensor>, const Shape&, Dtype)>;

/// The sum of `terms`, which have the same shape and type, as a concatenation, if they are arrays padded with zeros
/// that fill the shape and do not overlap, and whole lines along some axis separate them; none otherwise.
std::optional<Tensor> concat_of_padded(const std::vector<Tensor>& terms, const MakeNode& make);

}  // namespace nixie
