// What is usual is counted over the whole text.
#include "nixie/configs/parse/indentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace nixie {
namespace {

using Step = std::ptrdiff_t;

Step step_between(const Lines& lines, std::size_t key, std::size_t depth) {
  return static_cast<Step>(depth) - static_cast<Step>(lines.indent_of(lines.behind_dashes(key)));
}

/// How often the values of keys begin that much deeper than the key: those that are lists, or those that are not.
std::map<Step, std::size_t> steps_below_keys(const Lines& lines, bool of_items) {
  std::map<Step, std::size_t> times;
  for (std::size_t i = lines.next_content(0); i < lines.size(); i = lines.next_content(i))
    if (const std::size_t key = lines.last_content(i); lines.is_empty_key(key) && lines.is_item(i) == of_items)
      ++times[step_between(lines, key, lines.indent_of(i))];
  return times;
}

/// How many items, or other lines, are as deep as a line.
std::size_t times_as_deep(const Lines& lines, std::size_t line) {
  std::size_t times = 0;
  for (std::size_t i = 0; i < lines.size(); i = lines.row_end(i) + 1) {
    const std::size_t first = lines.behind_blanks(i);
    const bool is_content = lines.at(first) != '\n' && !lines.is_comment(first);
    times += is_content && first - i == lines.indent_of(line) && lines.is_item(first) == lines.is_item(line);
  }
  return times;
}

}  // namespace

bool is_usually_indented(const Lines& lines, std::size_t key, std::size_t depth, bool is_item) {
  std::map<Step, std::size_t> times = steps_below_keys(lines, is_item);
  std::size_t most = 0;
  for (const auto& [step, count] : times) most = std::max(most, count);
  return times[step_between(lines, key, depth)] == most;
}

bool is_usually_indented(const Lines& lines, std::size_t line) {
  const std::size_t key = lines.last_content(line);
  const bool is_first = key < lines.row_start(line) && lines.is_empty_key(key);
  return !is_first || is_usually_indented(lines, key, lines.indent_of(line), lines.is_item(line));
}

bool lacks_dash(const Lines& lines, std::size_t line, std::size_t below) {
  const std::size_t depth = lines.indent_of(line), next = lines.next_outside(below, depth);
  const bool is_beside_item = next < lines.size() && lines.indent_of(next) == depth && lines.is_item(next);
  return !lines.is_item(line) && depth < lines.indent_of(below) && is_beside_item &&
         !lines.is_empty_key(lines.last_content(next));
}

Mistake odd_indent(const Lines& lines, std::size_t odd, std::size_t other) {
  const std::string_view before = lines.text().substr(0, other);
  const auto line_of_other = std::count(before.begin(), before.end(), '\n') + 1;
  return mistake_at(lines.text(), odd,
                    fmt::format("this line is indented by {} and line {} by {}, expected the same indentation, or a "
                                "`key:` above the deeper one",
                                lines.indent_of(odd), line_of_other, lines.indent_of(other)));
}

Mistake wrong_indent(const Lines& lines, std::size_t above, std::size_t below) {
  const std::size_t item = lines.first_of_row(above);  // not its first key
  if (!lines.is_item(below) && item != above)
    return is_usually_indented(lines, item) ? odd_indent(lines, below, above) : odd_indent(lines, item, below);
  if (lines.is_item(below)) above = item;
  const std::size_t depth_above = lines.indent_of(above), depth_below = lines.indent_of(below);
  const bool is_key_of_item =
      lines.is_item(below) && !lines.is_item(above) && depth_above == lines.indent_of(lines.behind_dashes(below));
  const std::size_t key = lines.last_content(above);
  if (lacks_dash(lines, above, below) || (is_key_of_item && is_usually_indented(lines, key, depth_below, true)))
    return mistake_at(lines.text(), above, kNoDash);
  const std::size_t depth = std::min(depth_above, depth_below), next = lines.next_outside(below, depth);
  const std::size_t as_above = times_as_deep(lines, above), as_below = times_as_deep(lines, below);
  bool is_above = as_above == as_below ? depth_above % 2 > depth_below % 2 : as_above < as_below;
  if (!is_usually_indented(lines, above)) is_above = true;
  if (next < lines.size() && lines.indent_of(next) == depth && lines.is_item(next) == lines.is_item(below))
    is_above = depth_above > depth_below;
  return is_above ? odd_indent(lines, above, below) : odd_indent(lines, below, above);
}

}  // namespace nixie
