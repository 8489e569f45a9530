// The text of the tables in this folder, embedded in the library, so that none is needed at run time. CMake generates
// the definition.
#pragma once

#include <span>
#include <string_view>

namespace nixie {

struct EmbeddedFile {
  const char* name;  ///< without its folder: `other_names.tsv`
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_words();

}  // namespace nixie
