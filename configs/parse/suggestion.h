// did_you_mean: what somebody meant who wrote a word that is not known here.
#pragma once

#include <string>
#include <vector>

namespace nixie {

/// The end of a message, or "" where nothing fits: `; did you mean "momentum"?` for the nearest of the known words, or
/// what stands here for a word of another framework: `; it is "conv2d" with ...`, `; there is none ...`.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace nixie
