// Pages of the manual and other files in lines: what tests run or compare of them.
#pragma once

#include "nixie/tests/data/support.h"

namespace nixie::test {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream file(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct Block {
  std::string kind;  ///< `cpp`, `python`, `$` for a command
  std::string text;
};

/// Fenced blocks of a kind, and each command of a fenced block; a backslash at its end joins two lines.
inline std::vector<Block> blocks_of(const fs::path& page) {
  std::vector<Block> blocks;
  std::istringstream text(text_of(page));
  bool inside = false, kept = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      kept = inside && line.size() > 3;
      if (kept) blocks.push_back({line.substr(3), ""});
    } else if (kept) {
      blocks.back().text += line + "\n";
    } else if (inside && line.starts_with("$ ")) {
      std::string command = line.substr(2);
      while (command.ends_with('\\') && std::getline(text, line)) command.back() = ' ', command += line;
      blocks.push_back({"$", command});
    }
  }
  return blocks;
}

/// The texts of a page's blocks of one kind.
inline std::vector<std::string> blocks_of(const fs::path& page, const std::string& kind) {
  std::vector<std::string> texts;
  for (const Block& block : blocks_of(page))
    if (block.kind == kind) texts.push_back(block.text);
  return texts;
}

}  // namespace nixie::test
