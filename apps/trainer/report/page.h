// The kit of pages: a frame, sections, tables and strips of pictures. A page is one file, without a script, that asks
// for nothing from elsewhere.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nixie/apps/trainer/report/picture.h"

namespace nixie {

/// The text with what HTML would read as its own replaced.
std::string html_text(const std::string& text);

/// `title` is text, `body` and `head` (further tags there) are HTML.
std::string html_page(const std::string& title, const std::string& body, const std::string& head = "");

/// The first few numbers of a list: `0.5, 2, ...`
std::string numbers_text(std::span<const float> numbers);

/// Content below a heading; nothing where there is none. A folded one is closed until the reader opens it.
std::string section(const std::string& title, const std::string& content, bool is_folded = false);

/// Text as it is, in a box; nothing where there is none.
std::string preformatted(const std::string& text);

/// A cell of a table: HTML. Numbers are to the right.
struct Cell {
  std::string html = {}, attributes = {};
  bool is_number = false, is_heading = false;
};
/// `kind` is the class, `name` what a screen reader says.
std::string table_html(const std::string& kind, const std::string& name, const std::vector<Cell>& headings,
                       const std::vector<std::vector<Cell>>& rows);

/// A picture, and what it is in words: for a screen reader, and under the pointer where no caption says it.
std::string image_html(const PagePicture& picture, const std::string& words, bool has_caption = false);

/// Pictures with a caption above or below them; all are HTML.
struct Captioned {
  std::string title = {}, images = {}, caption = {};
};
/// Figures beside each other, as the class `kind` lays them out: `pictures`, `examples` or `charts`.
std::string strip_html(const std::string& kind, const std::vector<Captioned>& figures);

}  // namespace nixie
