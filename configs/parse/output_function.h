// Finds a model whose last layer applies the function that its loss applies once more.
#pragma once

#include "nixie/configs/parse/reader.h"

namespace nixie {

/// Adds a problem at the last layer of a list if it is a softmax or sigmoid, and the loss, which has the kind `loss`,
/// applies `function` itself ("": none).
void check_output_function(const Tree& model, const std::string& loss, const std::string& function, Problems& problems);

}  // namespace nixie
