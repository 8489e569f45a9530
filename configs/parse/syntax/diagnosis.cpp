// Tries the repairs of the failing line first and of those above it last.
#include "nixie/configs/parse/syntax/diagnosis.h"

#include <fmt/format.h>

#include "nixie/configs/parse/syntax/repair.h"

namespace nixie {
namespace {

constexpr std::size_t kLongest = 32 << 10;    // bytes of a text that is repaired
constexpr std::size_t kLongestRow = 1 << 10;  // bytes of a row that is repaired
constexpr std::size_t kMostBytes = 4 << 20;   // read in all trials

/// A text behind | or > that is no deeper than its key.
std::optional<Mistake> shallow_text(const Lines& lines, std::size_t row) {
  const std::size_t above = lines.row_above(row);
  const bool is_text = lines.colon_in_row(row) == Lines::kNone && !lines.is_item(row);
  if (!is_text || above == Lines::kNone || !lines.is_any_of(lines.end_of_text(above) - 1, "|>") ||
      lines.indent_of(row) > lines.indent_of(lines.behind_dashes(above)))
    return std::nullopt;
  return mistake_at(lines.text(), row, "a text behind | or > that is no deeper than its key, expected a deeper one");
}

/// The first closing bracket that does not fit.
std::optional<Mistake> wrong_bracket(const Lines& lines, const Brackets& brackets) {
  for (const Bracket& bracket : brackets.all())
    if (bracket.opening != Lines::kNone && bracket.closes != 1)
      return mistake_at(
          lines.text(), bracket.at,
          fmt::format("{} where {} is expected", lines.at(bracket.at), closing_of(lines.at(bracket.opening))));
  return std::nullopt;
}

/// The same mistake in two rows that follow each other: neither repair alone lets the text be read. Blames the first.
std::optional<Mistake> repeated_mistake(std::string_view text, const Lines& lines, const Brackets& brackets,
                                        const std::vector<std::size_t>& rows, int line,
                                        const FailingLine& failing_line) {
  for (std::size_t i = 0; i + 1 < rows.size(); ++i)
    for (const Repair& lower : repairs_of(lines, brackets, rows[i]))
      for (const Repair& upper : repairs_of(lines, brackets, rows[i + 1])) {
        if (upper.what != lower.what || upper.at >= lower.at) continue;
        std::string repaired(text);
        repaired.replace(lower.at, lower.length, lower.with).replace(upper.at, upper.length, upper.with);
        const int fails = failing_line(repaired);
        if (fails == 0 || fails > line) return mistake_at(text, upper.blame, upper.what);
      }
  return std::nullopt;
}

}  // namespace

std::optional<Mistake> find_mistake(std::string_view text, int line, const FailingLine& failing_line) {
  if (text.size() > kLongest) return std::nullopt;
  const Lines lines(text);
  const Brackets brackets(lines);
  std::vector<std::size_t> rows = lines.rows_down_to(line);
  std::erase_if(rows, [&](std::size_t row) { return lines.row_end(row) - row > kLongestRow; });
  for (const std::size_t row : rows)
    if (auto mistake = shallow_text(lines, row)) return mistake;
  std::size_t bytes = 0;
  std::optional<Mistake> best;
  for (const auto repairs : {repairs_of, larger_repairs_of})
    for (const std::size_t row : rows)
      for (const Repair& repair : repairs(lines, brackets, row)) {
        if ((bytes += text.size()) > kMostBytes) return best;
        const int fails = failing_line(std::string(text).replace(repair.at, repair.length, repair.with));
        if (fails == 0) return mistake_at(text, repair.blame, repair.what);
        const bool leaves_open = repair.length > 0 && lines.is_any_of(repair.at, "[]{}");  // then all fails at the end
        if (fails <= line || leaves_open) continue;
        line = fails;
        best = mistake_at(text, repair.blame, repair.what);
      }
  if (!best) best = repeated_mistake(text, lines, brackets, rows, line, failing_line);
  return best ? best : wrong_bracket(lines, brackets);
}

}  // namespace nixie
