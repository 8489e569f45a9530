// Finds the mistake in a text that is no YAML: the one whose repair lets the text be read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "nixie/configs/parse/syntax/mistake.h"

namespace nixie {

/// The line at which a text cannot be read; 0 where all of it can.
using FailingLine = std::function<int(const std::string& text)>;

/// The mistake in a text that fails at `line`: a tab, bracket, quote, colon, comma, dash or indentation in that line or
/// above it. A parser reports where it noticed a mistake, often a line below it or the end of the text; `failing_line`
/// is asked whether a repair helps. Lines end with \n (normalized). Nothing where no repair lets more be read.
std::optional<Mistake> find_mistake(std::string_view text, int line, const FailingLine& failing_line);

}  // namespace nixie
