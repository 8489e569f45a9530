// find_mistake, find_missing_colon, find_line_without_colon, find_control: the place of a syntax error in YAML.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nixie {

struct Mistake {
  int line = 0, column = 0;  ///< from 1
  std::string what;
};

/// The tab, bracket or quote that causes a syntax error: yaml-cpp reports where it noticed the error, often the end of
/// the text. Nothing for other errors.
std::optional<Mistake> find_mistake(std::string_view text);

/// A line without a colon above `line`, where yaml-cpp takes both for one key and reports the second. Nothing if there
/// is none.
std::optional<Mistake> find_missing_colon(std::string_view text, int line);

/// That the text of `line` is no pair, where yaml-cpp found no end of its map there or took it for a document of its
/// own. Nothing if it is one, or begins an item, a collection or a comment.
std::optional<Mistake> find_line_without_colon(std::string_view text, int line);

/// The first control character, which YAML allows nowhere. yaml-cpp takes 0x04 for the end of the file, without a word
/// about what follows, and 0x00 for an escape.
std::optional<Mistake> find_control(std::string_view text);

/// Whether the quote at `character` of a UTF-8 text is closed; true if there is no quote.
/// yaml-cpp accepts the end of the text in place of the closing quote.
bool is_quote_closed(std::string_view text, std::size_t character);

}  // namespace nixie
