// A mistyped value would otherwise change nothing without a word.
#include "nixie/backends/settings/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "nixie/core/base/error.h"

namespace nixie {
namespace {

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

using Words = std::vector<std::string_view>;

std::string list_of(const Words& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    (text += i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") += words[i];
  return text;
}

/// A word of `words`, or "" where the variable is not set.
std::string word_of(const char* name, const Words& words) {
  std::string value = value_of(name);
  check(value.empty() || std::ranges::find(words, value) != words.end(), name, " is ", value, ", expected ",
        list_of(words));
  return value;
}

bool flag(const char* name, bool otherwise) {
  const std::string value = word_of(name, {"0", "1"});
  return value.empty() ? otherwise : value == "1";
}

}  // namespace

bool winograd_is_allowed() { return flag("NIXIE_WINOGRAD", true); }
bool is_validated() { return flag("NIXIE_VALIDATE", false); }
bool waits_for_kernels() { return flag("NIXIE_SYNC", false); }

bool is_traced(BackendTrace trace) {
  static const Words words{"families", "source", "time"};
  const std::string value = value_of("NIXIE_TRACE");
  bool has = false;
  for (std::size_t begin = 0; begin < value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string_view word = std::string_view(value).substr(begin, end - begin);
    check(std::ranges::find(words, word) != words.end(), "NIXIE_TRACE is ", value, ", expected ", list_of(words),
          ", or several with commas between them");
    has |= word == words[static_cast<std::size_t>(trace)];
    begin = end + 1;
  }
  return has;
}

std::string tuning_word() { return word_of("NIXIE_TUNING", {"off", "known", "measure", "again"}); }
int silence_seconds() {
  constexpr int kMost = 86400;
  const std::string value = value_of("NIXIE_SILENCE");
  if (value.empty()) return 7;
  int seconds = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  check(fault == std::errc() && end == value.data() + value.size() && seconds > 0 && seconds <= kMost,
        "NIXIE_SILENCE is ", value, ", expected seconds from 1 to ", kMost);
  return seconds;
}

std::string chosen_chip() { return value_of("NIXIE_CHIP"); }

std::string cache_folder() {
  if (std::string own = value_of("NIXIE_CACHE"); !own.empty()) return own;
  if (const std::string caches = value_of("XDG_CACHE_HOME"); !caches.empty()) return caches + "/nixie";
  if (const std::string home = value_of("HOME"); !home.empty()) return home + "/.cache/nixie";
  return {};
}

}  // namespace nixie
