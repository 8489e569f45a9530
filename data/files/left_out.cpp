// Names do not depend on the order in which a system lists a folder.
#include "nixie/data/files/left_out.h"

#include <fmt/format.h>

namespace nixie {

void LeftOut::add(const std::string& kind, std::int64_t count, const std::string& entry) {
  Kind& all = kinds_[kind];
  all.count += count;
  if (all.first.empty() || (!entry.empty() && entry < all.first)) all.first = entry;
}

void LeftOut::add(const LeftOut& other) {
  for (const auto& [name, kind] : other.kinds_) add(name, kind.count, kind.first);
}

std::string LeftOut::text() const {
  std::string text;
  for (const auto& [name, kind] : kinds_)
    text += fmt::format("{}{} {}{}", text.empty() ? "left out " : ", ", kind.count, name,
                        kind.first.empty() ? "" : " (the first: " + kind.first + ")");
  return text;
}

}  // namespace nixie
