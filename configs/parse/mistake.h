// find_mistake: where a text that is no YAML goes wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nixie {

struct Mistake {
  int line = 0, column = 0;  ///< from 1
  std::string what;
};

/// The tab, bracket or quote that makes a text unreadable: yaml-cpp names the place where it noticed, often the end of
/// the text. Nothing where it is something else.
std::optional<Mistake> find_mistake(std::string_view text);

/// Whether the quoted text whose quote is the `character`-th of a UTF-8 text ends; true where no quote stands there.
/// yaml-cpp takes the end of the text for its end.
bool is_quote_closed(std::string_view text, std::size_t character);

}  // namespace nixie
