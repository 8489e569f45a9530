// The tables as Markdown, and putting them into a page.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

/// What a command reported: where and when it was measured, and its rows as tables; `is_brief`: of `compare` the ratios
/// alone.
std::string markdown_text(const nlohmann::json& report, bool is_brief);

/// Replaces what stands in `page` between the lines `<!-- benchmark NAME -->` and `<!-- end -->` by this text. Throws a
/// usage Error where the page has no such lines.
void put_into_page(const std::filesystem::path& page, const std::string& name, const std::string& text);

}  // namespace nixie::benchmark
