// did_you_mean: what somebody meant who wrote a word that is not known here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nixie {

/// The end of a message, or "" where nothing fits: `; did you mean "momentum"?` for the nearest of the known words, or
/// the answer to a word of another program (words/tables.h): `; it is "conv2d" with ...`, `; there is none ...`.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

/// The parts of a text between separators.
std::vector<std::string> parts_of(std::string_view text, char separator);

/// The one of the known words that is called so, here or in other programs; "" where none is.
std::string known_word(const std::string& word, const std::vector<std::string>& known);

}  // namespace nixie
