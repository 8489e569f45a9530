// A folder is listed once, whatever the number of words.
#include "nixie/data/files/half_sources.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <tuple>

#include "nixie/core/base/one_line.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/folder_scan.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// `shards/a.tar and 11 more`
std::string text_of(const HalfSource& half, const fs::path& first) {
  return first.string() + (half.size() > 1 ? fmt::format(" and {} more", half.size() - 1) : "");
}

}  // namespace

bool HalfSources::use(const fs::path& path) const {
  for (const HalfSource* half : {&train, &test})
    for (const fs::path& used : *half)
      if (used == path || used.parent_path() == path) return true;
  return false;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

fs::path find_half(const fs::path& folder, HalfWords words, const std::vector<HalfKind>& kinds) try {
  using Found = std::tuple<std::ptrdiff_t, std::ptrdiff_t, fs::path>;  // the places of word and kind
  std::optional<Found> best;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto word = std::ranges::find(words, lower_case(entry.path().stem().string()));
    if (word == words.end()) continue;
    const auto kind = std::ranges::find_if(kinds, [&](const HalfKind& is_kind) { return is_kind(entry); });
    if (kind == kinds.end()) continue;
    const Found found{word - words.begin(), kind - kinds.begin(), entry.path()};
    if (!best || found < *best) best = found;
  }
  return best ? std::get<fs::path>(*best) : fs::path{};
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the folder and its permissions");
}

std::string text_of(const HalfSource& half) { return text_of(half, half.front()); }

std::string HalfNames::note(const std::string& left_out) const {
  return one_line(fmt::format("{} is left out: training reads {}, evaluation {}", left_out, train,
                              test.empty() ? "a share held out of it" : test));
}

HalfNames names_of(const HalfSources& halves) {
  const auto name_of = [](const HalfSource& half) {
    return half.empty() ? "" : text_of(half, half.front().filename());
  };
  return {name_of(halves.train), name_of(halves.test)};
}

void note_left_out(const fs::path& folder, const HalfNames& names,
                   const std::function<bool(const fs::path&)>& is_left_out, std::vector<std::string>& notes) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!is_hidden(entry.path()) && is_left_out(entry.path())) found.push_back(names.note(entry.path().string()));
  std::ranges::sort(found);
  notes.insert(notes.end(), found.begin(), found.end());
}

}  // namespace nixie
