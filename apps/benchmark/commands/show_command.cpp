// Reads the file; the rest is that of the command that wrote it.
#include "nixie/apps/benchmark/commands/show_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/report/markdown.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie::benchmark {

void run_show(const ShowCommand& command) {
  check_output(command.page);
  check_writable(command.plot);
  std::ifstream file = open_to_read(command.file, Fault::usage, "name a file that --json wrote");
  try {
    const auto report = nlohmann::json::parse(file);
    const std::string made_by = report.at("command"), text = markdown_text(report, command.brief);
    if (command.page.empty())
      tell("{}", text);
    else
      put_into_page(command.page, command.name.empty() ? made_by : command.name, text);
    if (!command.plot.empty()) write_file(command.plot, chart_of(report));
  } catch (const nlohmann::json::exception&) {  // its words are for programmers
    fail(Fault::usage, command.file.string(), ": is no table that --json wrote; name another file");
  }
}

}  // namespace nixie::benchmark
