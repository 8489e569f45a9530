// Finds the line at which a text stops being YAML.
#pragma once

#include <optional>
#include <string_view>

#include "nixie/configs/parse/mistake.h"

namespace nixie {

/// The mistake that makes yaml-cpp fail at `line`: a tab, bracket, quote, colon, comma or indentation in that line or
/// above it. yaml-cpp reports where it noticed the mistake, often a line below it or the end of the text. Lines end
/// with \n (normalized). Nothing if every line so far can be read, or holds what configurations have no use for.
std::optional<Mistake> find_mistake(std::string_view text, int line);

}  // namespace nixie
