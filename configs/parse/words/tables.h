// The tables in this folder, which are embedded in the library: words of other programs (PyTorch, Keras, Lightning,
// Caffe, neon), each with the word here and what a message says.
#pragma once

#include <string>
#include <vector>

namespace nixie {

/// A word of a table's row; a word with `?d` in the table is three.
struct OtherWord {
  std::string word;
  std::string known_word;  ///< a known word, or `*`
  std::string text;        ///< the rest of the row
};

const std::vector<OtherWord>& other_names();     ///< what has a name here; `text`: what to set besides
const std::vector<OtherWord>& absent_words();    ///< what has none; `here`: a word known where the row counts
const std::vector<OtherWord>& other_options();   ///< options of command lines; `here`: an option or a key
const std::vector<OtherWord>& other_commands();  ///< commands; `here`: a command, an option or `*`
const std::vector<OtherWord>& neon_types();      ///< `layer.LRN` and the like; `here`: a struct, `text`: its fields

}  // namespace nixie
