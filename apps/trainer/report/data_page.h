// The page of `trainer data show`: samples of each class, and some in several augmentations, as the net sees them.
#pragma once

#include <cstdint>
#include <string>

#include "nixie/data/dataset.h"

namespace nixie {

struct DataFacts {
  std::string source = {}, kind = {};  ///< where the data are, and of which dataset
  const Splits& data;
  std::uint64_t seed = 0;  ///< of the run's augmentation
};

/// One self-contained HTML page. Throws Fault::data for a sample that cannot be read.
std::string data_page_html(const DataFacts& facts);

}  // namespace nixie
