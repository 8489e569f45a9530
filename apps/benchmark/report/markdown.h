// Prints the tables as Markdown, and inserts them into a page.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

/// A command's report: the conditions of the measurement, and its rows as tables; `is_brief`: for `compare` only the
/// ratios.
std::string markdown_text(const nlohmann::json& report, bool is_brief);

/// Replaces the text in `page` between the lines `<!-- benchmark NAME -->` and `<!-- end -->`. Throws a
/// usage Error if the page has no such lines.
void put_into_page(const std::filesystem::path& page, const std::string& name, const std::string& text);

}  // namespace nixie::benchmark
