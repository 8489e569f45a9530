// The text of the tables in this folder; CMake generates the definitions.
#pragma once

#include <span>

#include "nixie/core/base/embedded_file.h"

namespace nixie {

std::span<const EmbeddedFile> embedded_words();

}  // namespace nixie
