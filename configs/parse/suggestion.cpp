// The tables of other programs' words come before the edit distance.
#include "nixie/configs/parse/suggestion.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "nixie/configs/parse/words/other_words.h"
#include "nixie/core/base/print.h"

namespace nixie {
namespace {

constexpr std::size_t kLongest = 60;       // bytes of a word for which suggestions are sought
constexpr std::size_t kShortestStart = 4;  // letters that one word must begin with to suggest the other

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

/// `nn.Conv2d` and `conv_2d` are `conv2d`.
std::string plain(const std::string& word) {
  const std::size_t dot = word.rfind('.');
  std::string text = lower(dot == std::string::npos ? word : word.substr(dot + 1));
  std::erase_if(text, [](char c) { return c == '_' || c == '-' || c == ' '; });
  return text;
}

bool holds(const std::vector<std::string>& known, const std::string& word) {
  return std::find(known.begin(), known.end(), word) != known.end();
}

std::string question(const std::string& word) { return fmt::format("; did you mean \"{}\"?", word); }

/// Whether the words, separated by spaces, hold one.
bool names(std::string_view words, const std::string& word) {
  return !word.empty() && fmt::format(" {} ", words).find(" " + word + " ") != std::string::npos;
}

/// Of another program's word; "" where the tables have none.
std::string of_tables(const std::string& word, const std::vector<std::string>& known) {
  const std::string text = plain(word);
  for (const auto& [others, here, how] : other_names())
    if (names(others, text) && holds(known, here))
      return *how == '\0' ? question(here) : fmt::format("; it is \"{}\" {}", here, how);
  for (const std::string& here : known)
    if (text == plain(here)) return question(here);
  for (const auto& [others, beside, sentence] : absent_words())
    if (names(others, text) && (*beside == '\0' || holds(known, beside))) return fmt::format("; {}", sentence);
  return {};
}

/// Levenshtein's edit distance, a swap of neighbours counted as one edit.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last.back();
}

std::vector<std::string> parts_of(const std::string& word) {
  std::vector<std::string> parts(1);
  for (const char c : word) {
    if (c == '_')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::size_t most_edits(const std::string& word) { return std::max<std::size_t>(1, word.size() / 3); }

/// Whether one word is a start of the other, as `eval` of `evaluate`; not `kernel` of `kernel_initializer`, where more
/// follows than stands there.
bool is_start(const std::string& word, const std::string& candidate) {
  if (std::min(word.size(), candidate.size()) < kShortestStart) return false;
  return candidate.starts_with(word) || (word.starts_with(candidate) && word.size() <= 2 * candidate.size());
}

/// The edits between two words; too many to count where a part between _ differs as a whole: save_every is not near
/// eval_every, for all that they share.
std::size_t distance_of(const std::string& word, const std::string& candidate) {
  const std::vector<std::string> own = parts_of(word), other = parts_of(candidate);
  if (own.size() == 1 || own.size() != other.size()) return edit_distance(word, candidate);
  std::size_t edits = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t part = is_start(own[i], other[i]) ? own[i] != other[i] : edit_distance(own[i], other[i]);
    if (part > most_edits(other[i])) return word.size() + candidate.size();
    edits += part;
  }
  return edits;
}

}  // namespace

std::string known_word(const std::string& word, const std::vector<std::string>& known) {
  if (holds(known, word)) return word;
  for (const auto& [others, here, how] : other_names())
    if (names(others, plain(word)) && holds(known, here)) return here;
  return {};
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  if (word.size() > kLongest) return {};
  if (const std::string told = of_tables(word, known); !told.empty()) return told;
  std::size_t nearest = most_edits(word) + 1;
  std::string suggestion;
  for (const std::string& candidate : known)
    if (is_start(lower(word), candidate)) suggestion = candidate;  // unless another is nearer
  for (const std::string& candidate : known) {
    std::size_t distance = std::min(distance_of(word, candidate), distance_of(lower(word), candidate));
    // What is only not finished is nearer than a word of as many letters: resnet is resnet18, not lenet.
    if (is_start(lower(word), candidate) && candidate.size() > word.size())
      distance = std::min<std::size_t>(distance, 1);
    if (distance >= nearest) continue;
    nearest = distance;
    suggestion = candidate;
  }
  return suggestion.empty() ? suggestion : question(suggestion);
}

}  // namespace nixie
