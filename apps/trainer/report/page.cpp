// Everything that is shown goes through these few elements, so that the style sheet is short.
#include "nixie/apps/trainer/report/page.h"

#include <fmt/format.h>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/report/style.h"

namespace nixie {
namespace {

std::string row_html(const std::vector<Cell>& cells, bool are_headings) {
  std::string row;
  for (const Cell& cell : cells)
    row += fmt::format("<{0}{1}{2}>{3}</{0}>", are_headings || cell.is_heading ? "th" : "td",
                       cell.is_number ? " class=\"number\"" : "", cell.attributes.empty() ? "" : " " + cell.attributes,
                       cell.html);
  return "<tr>" + row + "</tr>\n";
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string result;
  for (const char letter : printable(text)) {
    const char* entity = letter == '<' ? "&lt;" : letter == '>' ? "&gt;" : letter == '&' ? "&amp;" : "&quot;";
    if (std::string_view("<>&\"").find(letter) != std::string_view::npos)
      result += entity;
    else
      result += letter;
  }
  return result;
}

std::string html_page(const std::string& title, const std::string& body, const std::string& head) {
  const std::string text = html_text(title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{}<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n{}</main>\n</body>\n</html>\n",
      head, text, kPageStyle, text, body);
}

std::string numbers_text(std::span<const float> numbers) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), kMost); ++i)
    text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", numbers[i]);
  return text + (numbers.size() > kMost ? ", ..." : "");
}

std::string section(const std::string& title, const std::string& content, bool is_folded) {
  if (content.empty()) return {};
  const std::string heading = fmt::format("<h2>{}</h2>", html_text(title));
  return is_folded ? fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", heading, content)
                   : fmt::format("{}\n{}", heading, content);
}

std::string preformatted(const std::string& text) { return text.empty() ? "" : "<pre>" + html_text(text) + "</pre>\n"; }

std::string table_html(const std::string& kind, const std::string& name, const std::vector<Cell>& headings,
                       const std::vector<std::vector<Cell>>& rows) {
  std::string text = row_html(headings, true);
  for (const std::vector<Cell>& row : rows) text += row_html(row, false);
  return fmt::format("<div class=\"wide\"><table class=\"{}\" aria-label=\"{}\">\n{}</table></div>\n", kind,
                     html_text(name), text);
}

std::string image_html(const PagePicture& picture, const std::string& words, bool has_caption) {
  const std::string text = html_text(words);
  return fmt::format("<img src=\"{}\" alt=\"{}\"{}>", data_uri(picture), text,
                     has_caption ? "" : " title=\"" + text + "\"");
}

std::string strip_html(const std::string& kind, const std::vector<Captioned>& figures) {
  if (figures.empty()) return {};
  std::string text = fmt::format("<div class=\"{}\">\n", kind);
  for (const auto& [title, images, caption] : figures)
    text += fmt::format("<figure>{}{}{}</figure>\n", title.empty() ? "" : "<figcaption>" + title + "</figcaption>",
                        images, caption.empty() ? "" : "<div>" + caption + "</div>");
  return text + "</div>\n";
}

}  // namespace nixie
