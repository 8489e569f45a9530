// Checks what a GPU needs on this machine, with the remedy for each missing part.
#pragma once

#include <string>
#include <vector>

namespace nixie {

struct Finding {
  std::string part;  ///< "GPU"
  bool is_good = false;
  std::string text;  ///< what was found, or what is wrong and what to do
};

/// Opens the GPU and each library; changes nothing, but creates the cache folder.
std::vector<Finding> examine_cuda();

}  // namespace nixie
