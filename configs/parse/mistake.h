// The text of a YAML file before yaml-cpp reads it, the places of its mistakes, and what to do about them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nixie {

struct Mistake {
  int line = 0, column = 0;  ///< from 1; columns count characters
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

/// The text as YAML reads it: without UTF-8's byte order mark, lines ended by \n alone.
std::string normalized(std::string_view text);

/// Whether the byte is one of a UTF-8 character's, but not its first.
bool is_inside_character(char byte);

/// What yaml-cpp would read as something else than stands there: UTF-16; control characters, which YAML allows nowhere
/// (0x04 ends the file for yaml-cpp, without a word about what follows, and 0x00 is an escape); a directive (`%FOO`)
/// that means nothing.
std::optional<Mistake> find_unreadable(std::string_view text);

/// yaml-cpp's words with what it expected.
std::string with_remedy(const std::string& message);

}  // namespace nixie
