// Cells of tables that a spreadsheet may open: none begins a formula.
#pragma once

#include <string>

namespace nixie {

/// A cell of RFC 4180, in quotes where it must be.
std::string quoted_where_needed(const std::string& text);
/// A text as a cell of RFC 4180, on one line. A spreadsheet takes what begins with =, +, - or @ for a formula: such a
/// text gets an apostrophe before it unless it is a number.
std::string csv_text(const std::string& text);
/// A path as a cell. One that begins so is relative: with ./ before it, it leads to the same file.
std::string csv_path(const std::string& path);

}  // namespace nixie
