// Reads UTF-8. Terminals obey the control characters of Latin-1 too (U+009B begins a command as ESC [ does), and those
// that reverse the direction of the text after them.
#include "nixie/core/base/one_line.h"

#include <algorithm>

#include <fmt/format.h>

#include <cstdint>

namespace nixie {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: these bytes are no UTF-8
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  std::uint32_t code = first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[bytes] || code > 0x10ffff || is_surrogate ? Character{} : Character{code, bytes};
}

bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const Character c = first_of(text);
    const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    if (c.code == '\n' || c.code == '\t')
      line += c.code == '\n' ? "\\n" : "\\t";
    else if (c.bytes == 0)
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (is_control(c.code))
      line += c.code < 0x80 ? fmt::format("\\x{:02x}", c.code) : fmt::format("\\u{:04x}", c.code);
    else
      line += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return line;
}

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

// Bash's $'' is the only quoting that gives one line and the same bytes.
std::string shell_word(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  if (one_line(text) != text) return escaped(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace nixie
