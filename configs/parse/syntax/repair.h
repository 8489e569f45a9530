// Repairs of a row of a text that is no YAML: changes that one mistake in it would need, each with what was wrong.
#pragma once

#include <string>
#include <vector>

#include "nixie/configs/parse/syntax/brackets.h"
#include "nixie/configs/parse/syntax/lines.h"

namespace nixie {

/// Puts `with` in place of `length` bytes. If that helps, the mistake is `what`, at `blame`.
struct Repair {
  std::size_t at, length;
  std::string with;
  std::size_t blame;
  std::string what;
};

class Repairs {
 public:
  void replace(std::size_t at, std::size_t length, std::string with, std::size_t blame, std::string what) {
    all_.push_back({at, length, std::move(with), blame, std::move(what)});
  }
  void insert(std::size_t at, std::string with, std::size_t blame, std::string what) {
    replace(at, 0, std::move(with), blame, std::move(what));
  }
  void erase(std::size_t at, std::size_t length, std::size_t blame, std::string what) {
    replace(at, length, "", blame, std::move(what));
  }
  std::vector<Repair> take() { return std::move(all_); }

 private:
  std::vector<Repair> all_;
};

inline constexpr const char* kFollows = "something follows the document, expected one document and its end";

/// Repairs of brackets, and of what is in them.
void add_bracket_repairs(const Lines& lines, const Brackets& brackets, std::size_t row, Repairs& repairs);
/// All repairs of a row, the likeliest first.
std::vector<Repair> repairs_of(const Lines& lines, const Brackets& brackets, std::size_t row);
/// Repairs that change a row more: its indentation with a dash or colon, or all of it.
std::vector<Repair> larger_repairs_of(const Lines& lines, const Brackets& brackets, std::size_t row);
/// A bracket, | or > that opens a value without a colon in front of it.
void add_opening_without_colon(const Lines& lines, std::size_t row, Repairs& repairs);

}  // namespace nixie
