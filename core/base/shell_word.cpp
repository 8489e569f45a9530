// One line and the same bytes: bash's $'' is the only quoting that gives both.
#include "nixie/core/base/shell_word.h"

#include <fmt/format.h>

#include <algorithm>

#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

bool is_plain(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), is_digit = c >= '0' && c <= '9';
  return is_letter || is_digit || std::string_view("_./+-:,@%=").find(c) != std::string_view::npos;
}

/// `$'a\nb'`; a byte is always two digits, so that what follows is not taken for a third.
std::string escaped(std::string_view text) {
  std::string word = "$'";
  for (const char c : text) {
    if (c == '\'' || c == '\\')
      word += std::string("\\") + c;
    else if (c == '\n' || c == '\t')
      word += c == '\n' ? "\\n" : "\\t";
    else if (c < ' ' || c > '~')
      word += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      word += c;
  }
  return word + "'";
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  if (one_line(text) != text) return escaped(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace nixie
