// Other programs' words come before the nearest known one, and that before their mistyped words.
#include "nixie/configs/parse/suggestion.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "nixie/configs/parse/words/tables.h"
#include "nixie/core/base/print.h"

namespace nixie {
namespace {

constexpr std::size_t kLongest = 60;        // bytes of a word for which suggestions are sought
constexpr std::size_t kShortestStart = 4;   // letters that one word must begin with to suggest the other
constexpr std::size_t kLettersPerEdit = 6;  // of another program's word that is mistyped

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

/// The answer to another program's word.
std::string answer_of(const OtherWord& name) {
  return name.text.empty() ? question(name.known_word) : fmt::format("; it is \"{}\" {}", name.known_word, name.text);
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

std::size_t most_edits(const std::string& word) { return std::max<std::size_t>(1, word.size() / 3); }

/// Whether one word begins with the other, as `evaluate` with `eval`, and is at most twice as long: not
/// `kernel_initializer` with `kernel`.
bool is_start(const std::string& word, const std::string& candidate) {
  if (std::min(word.size(), candidate.size()) < kShortestStart) return false;
  return candidate.starts_with(word) || (word.starts_with(candidate) && word.size() <= 2 * candidate.size());
}

/// The edits between two words; too many to count where a part between _ differs as a whole: save_every is not near
/// eval_every, for all that they share.
std::size_t distance_of(const std::string& word, const std::string& candidate) {
  const std::vector<std::string> own = parts_of(word, '_'), other = parts_of(candidate, '_');
  if (own.size() == 1 || own.size() != other.size()) return edit_distance(word, candidate);
  std::size_t edits = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t part = is_start(own[i], other[i]) ? own[i] != other[i] : edit_distance(own[i], other[i]);
    if (part > most_edits(other[i])) return word.size() + candidate.size();
    edits += part;
  }
  return edits;
}

/// The nearest of the known words; "" where none is near.
std::string nearest_known(const std::string& word, const std::vector<std::string>& known) {
  std::size_t nearest = most_edits(word) + 1;
  std::string suggestion;
  for (const std::string& candidate : known)
    if (is_start(lower(word), candidate)) suggestion = candidate;  // unless another is nearer
  for (const std::string& candidate : known) {
    std::size_t distance = std::min(distance_of(word, candidate), distance_of(lower(word), candidate));
    // An unfinished word is nearer than another of as many letters: resnet is resnet18, not lenet.
    if (is_start(lower(word), candidate) && candidate.size() > word.size())
      distance = std::min<std::size_t>(distance, 1);
    if (distance >= nearest) continue;
    nearest = distance;
    suggestion = candidate;
  }
  return suggestion;
}

/// The answer to the nearest of a table's words, with at most so many edits; "" where none is so near.
std::string answer_by(const std::vector<OtherWord>& table, const std::string& word,
                      const std::vector<std::string>& known, std::size_t most_edits = 0) {
  const OtherWord* nearest = nullptr;
  for (const OtherWord& other : table) {
    if ((other.known_word != "*" && !holds(known, other.known_word)) || other.word.size() > word.size() + most_edits)
      continue;
    const std::size_t edits = other.word == word ? 0 : most_edits == 0 ? 1 : edit_distance(word, other.word);
    if (edits > most_edits || (nearest && edits == most_edits)) continue;
    nearest = &other;
    most_edits = edits;
    if (edits == 0) break;
  }
  return !nearest ? "" : &table == &other_names() ? answer_of(*nearest) : "; " + nearest->text;
}

}  // namespace

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::string known_word(const std::string& word, const std::vector<std::string>& known) {
  if (holds(known, word)) return word;
  for (const OtherWord& other : other_names())
    if (other.word == plain(word) && holds(known, other.known_word)) return other.known_word;
  return {};
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string text = plain(word);
  if (word.size() > kLongest || text.empty()) return {};
  if (const std::string answer = answer_by(other_names(), text, known); !answer.empty()) return answer;
  for (const std::string& here : known)
    if (text == plain(here)) return question(here);
  if (const std::string answer = answer_by(absent_words(), text, known); !answer.empty()) return answer;
  if (const std::string near = nearest_known(word, known); !near.empty()) return question(near);
  const std::size_t edits = text.size() / kLettersPerEdit;
  const std::string answer = answer_by(other_names(), text, known, edits);
  return answer.empty() ? answer_by(absent_words(), text, known, edits) : answer;
}

}  // namespace nixie
