// What a GPU needs on this machine: whether each part is there, and the remedy where it is not.
#pragma once

#include <string>
#include <vector>

namespace nixie {

struct Finding {
  std::string part;  ///< "GPU"
  bool is_good = false;
  std::string text;  ///< what was found; else what is wrong and what to do
};

/// Opens the GPU and each library; changes nothing but the cache folder, which is made.
std::vector<Finding> examine_cuda();

}  // namespace nixie
