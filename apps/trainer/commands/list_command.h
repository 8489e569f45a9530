// trainer list: everything a configuration can name, with fields, defaults and meaning.
#pragma once

#include <string>
#include <vector>

namespace nixie {

/// The text of docs/configuration.md.
std::string reference_text();

/// For a terminal, with the shipped configurations; of one part only, if it is named.
std::string list_text(const std::string& part = {});
/// The names of its parts: `models`, `layers` ...
const std::vector<std::string>& list_parts();

}  // namespace nixie
