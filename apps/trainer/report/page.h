// The frame of a page: one self-contained HTML file in the reports' style.
#pragma once

#include <string>

namespace nixie {

/// `title` is text, `body` and `head` (further tags there) are HTML.
std::string html_page(const std::string& title, const std::string& body, const std::string& head = "");

}  // namespace nixie
