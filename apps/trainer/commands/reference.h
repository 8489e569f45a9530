// The reference of configurations: every key with type, default, range and meaning, from the field lists.
#pragma once

#include <string>

namespace nixie {

/// The text of docs/configuration.md.
std::string reference_text();

}  // namespace nixie
