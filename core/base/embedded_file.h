// A file of the source tree whose text is in the library, so that none is needed at run time.
#pragma once

#include <string_view>

namespace nixie {

struct EmbeddedFile {
  const char* name;  ///< without its folder: `map.cuh`
  std::string_view text;
};

}  // namespace nixie
