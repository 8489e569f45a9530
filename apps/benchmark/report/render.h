// Pages and charts of a table: apps/peers/render.py, which the program contains, run by python3.
#pragma once

#include <string>
#include <vector>

namespace nixie::benchmark {

/// The output of render.py with these arguments for a table as JSON. Throws a usage Error with the line that it ends
/// with if it fails, and where there is no python3.
std::string rendered(const std::vector<std::string>& arguments, const std::string& table);

/// The chart of a table as JSON, as SVG.
std::string chart_of(const std::string& table);
/// Throws unless charts can be drawn.
void check_renderer();

}  // namespace nixie::benchmark
