// An empty value would read as an option that was not given, and another run or model would be taken without a word.
#include "nixie/apps/trainer/program/arguments.h"

#include <algorithm>

#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

/// `--option=` with nothing behind it.
bool lacks_value(const std::string& argument) {
  return argument.starts_with("--") && argument.find('=') == argument.size() - 1;
}

}  // namespace

void parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return one_line(error.what()) + "\nRun with --help for more information.\n";
  });
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].empty() && !lacks_value(arguments[i])) continue;
    const std::string where = !arguments[i].empty() ? arguments[i].substr(0, arguments[i].size() - 1)
                              : i > 0               ? arguments[i - 1]
                                                    : std::string("the first argument");
    throw CLI::ValidationError(where, "an empty value; is a shell's variable not set?");
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  app.parse(std::move(arguments));
}

CLI::Validator ends_in(const std::string& suffix) {
  return {[suffix](const std::string& file) {
            return file.ends_with(suffix) ? std::string() : one_line(file) + " does not end in " + suffix;
          },
          ""};
}

}  // namespace nixie
