// The text of a YAML file before yaml-cpp reads it, and what to do about its mistakes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nixie {

struct Mistake {
  int line = 0, column = 0;  ///< from 1; columns count characters
  std::string what;
};

/// A mistake at a byte of the text.
Mistake mistake_at(std::string_view text, std::size_t at, std::string what);

/// The message about a quote that has no other end.
std::string never_closed(char quote);

/// The message about a directive that means nothing or is behind the document.
inline constexpr const char* kNoDirective = "this line begins with %, expected `key: value` or # in front of a comment";

/// The text as YAML reads it: without UTF-8's byte order mark, lines ended by \n alone.
std::string normalized(std::string_view text);

/// Where the document begins behind blank lines, comments and directives.
std::size_t end_of_head(std::string_view text);

/// Whether the byte is one of a UTF-8 character's, but not its first.
bool is_inside_character(char byte);

/// Finds characters that yaml-cpp would misread: UTF-16 and UTF-32; control characters, which YAML
/// allows nowhere (0x04 ends the file for yaml-cpp, without a word about what follows, and 0x00 is an escape); a
/// directive (`%FOO`) that means nothing.
std::optional<Mistake> find_unreadable(std::string_view text);

/// yaml-cpp's words with what it expected.
std::string with_remedy(const std::string& message);

}  // namespace nixie
