// Unicode's blanks in UTF-8: White_Space of PropList.txt, the byte order mark and the space of no width.
#include "nixie/data/files/trimmed.h"

#include <algorithm>
#include <iterator>

namespace nixie {
namespace {

constexpr std::string_view kBlanks[] = {" ",
                                        "\t",
                                        "\n",
                                        "\v",
                                        "\f",
                                        "\r",
                                        "\xc2\x85",
                                        "\xc2\xa0",      // U+00A0, no-break space
                                        "\xe1\x9a\x80",  // U+1680
                                        "\xe2\x80\x80",  // U+2000 to U+200B
                                        "\xe2\x80\x81",
                                        "\xe2\x80\x82",
                                        "\xe2\x80\x83",
                                        "\xe2\x80\x84",
                                        "\xe2\x80\x85",
                                        "\xe2\x80\x86",
                                        "\xe2\x80\x87",
                                        "\xe2\x80\x88",
                                        "\xe2\x80\x89",
                                        "\xe2\x80\x8a",
                                        "\xe2\x80\x8b",
                                        "\xe2\x80\xa8",
                                        "\xe2\x80\xa9",
                                        "\xe2\x80\xaf",
                                        "\xe2\x81\x9f",
                                        "\xe3\x80\x80",   // U+3000, ideographic space
                                        "\xef\xbb\xbf"};  // U+FEFF

}  // namespace

std::size_t leading_blank(std::string_view text) {
  const auto found = std::ranges::find_if(kBlanks, [&](std::string_view blank) { return text.starts_with(blank); });
  return found == std::end(kBlanks) ? 0 : found->size();
}

std::string_view trimmed(std::string_view text) {
  while (const std::size_t bytes = leading_blank(text)) text.remove_prefix(bytes);
  for (;;) {
    const auto found = std::ranges::find_if(kBlanks, [&](std::string_view blank) { return text.ends_with(blank); });
    if (found == std::end(kBlanks)) return text;
    text.remove_suffix(found->size());
  }
}

}  // namespace nixie
