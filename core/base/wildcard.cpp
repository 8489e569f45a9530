// Matches a name with a pattern.
#include "nixie/core/base/wildcard.h"

namespace nixie {

// A part between two stars may be taken where it is first found: what follows has the most room there, so no other
// place needs a trial.
bool matches_wildcard(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  const std::size_t last = pattern.rfind('*');
  const std::string_view front = pattern.substr(0, star), back = pattern.substr(last + 1);
  if (text.size() < front.size() + back.size() || !text.starts_with(front) || !text.ends_with(back)) return false;
  text = text.substr(front.size(), text.size() - front.size() - back.size());
  for (std::size_t at = star; at < last;) {
    const std::size_t next = pattern.find('*', at + 1);
    const std::string_view part = pattern.substr(at + 1, next - at - 1);
    const std::size_t found = text.find(part);
    if (found == std::string_view::npos) return false;
    text.remove_prefix(found + part.size());
    at = next;
  }
  return true;
}

}  // namespace nixie
