// `benchmark show`: a table that --json wrote, as Markdown, in a page, or as a chart; render.py makes them.
#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie::benchmark {
namespace {

struct Show {
  std::filesystem::path file = {}, page = {}, plot = {};
  std::string name = {};
  bool brief = false;
};

void run(const Show& command) {
  check_output(command.page);
  check_writable(command.plot);
  open_to_read(command.file, Fault::usage, "name a file that --json wrote");
  std::vector<std::string> arguments;
  if (!command.page.empty()) {
    open_to_read(command.page, Fault::usage, "name a page that has the lines for the table");
    arguments.push_back("--page=" + command.page.string());
  }
  if (!command.plot.empty()) arguments.push_back("--plot=" + command.plot.string());
  if (!command.name.empty()) arguments.push_back("--name=" + command.name);
  if (command.brief) arguments.push_back("--brief");
  arguments.insert(arguments.end(), {"--", command.file.string()});
  tell("{}", rendered(arguments, ""));
}

}  // namespace

Subcommand add_show(CLI::App& app) {
  const auto command = std::make_shared<Show>();
  CLI::App* show = app.add_subcommand("show", "a table that --json wrote, as Markdown and as a chart, by python3");
  show->add_option("file", command->file, "what --json wrote")->required();
  show->add_option("--page", command->page,
                   "a page; the table replaces what is between its lines <!-- benchmark NAME --> and <!-- end -->");
  show->add_option("--name", command->name, "NAME, by default the command that made the table");
  show->add_flag("--brief", command->brief, "of compare the ratios alone");
  add_output(*show, "--plot", command->plot, "a file for the chart, .svg", ".svg");
  return {show, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
