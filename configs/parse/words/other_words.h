// The words of other programs (PyTorch, Keras, Lightning, Caffe) for what has a name here, or has none.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nixie {

/// What other programs call a thing. Case, `_` and all before a `.` do not count.
struct OtherName {
  const char* words;     ///< separated by spaces
  const char* here;      ///< the known word
  const char* how = "";  ///< what to set besides
};
std::span<const OtherName> other_names();
/// The one of the known words that is called so, here or in other programs; "" where none is.
std::string known_word(const std::string& word, const std::vector<std::string>& known);

/// What has no word here among those that stand beside `beside`; with "", wherever the word is not known.
struct Absent {
  const char* words;
  const char* beside;
  const char* sentence;
};
std::span<const Absent> absent_words();

}  // namespace nixie
