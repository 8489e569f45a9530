// Other data as a model knows them: with the normalisation and the classes that it was trained with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nixie/data/dataset.h"

namespace nixie {

/// The same samples, normalised as `preparation` says where the data say how they are normalised, and with labels that
/// are places in `classes`; the data itself where nothing differs. The data may lack classes. Throws Fault::data where
/// they have others.
std::shared_ptr<const Dataset> as_trained(std::shared_ptr<const Dataset> data, const Preparation& preparation,
                                          const std::vector<std::string>& classes);

}  // namespace nixie
