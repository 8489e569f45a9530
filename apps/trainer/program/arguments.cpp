// An empty value would read as an option that was not given, and another run or model would be taken without a word.
#include "nixie/apps/trainer/program/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/configs/parse/suggestion.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/base/path.h"

namespace nixie {
namespace {

/// `--option=` with nothing behind it.
bool lacks_value(const std::string& argument) {
  return argument.starts_with("--") && argument.find('=') == argument.size() - 1;
}

/// `; write --set epochs=3` for `--set epochs 3`.
std::string split_assignment(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (!app.get_option_no_throw("--set")) return {};
  for (std::size_t i = 0; i + 2 < arguments.size(); ++i) {
    const std::string &key = arguments[i + 1], &value = arguments[i + 2];
    if (arguments[i] != "--set" || key.find('=') != std::string::npos || value.starts_with("--")) continue;
    return set_hint("write", key, value);
  }
  return {};
}

/// The parser's message; it names unknown arguments in the order in which they were given.
std::string message_of(const CLI::App& app, const CLI::Error& error) {
  const std::vector<std::string> unknown = app.remaining();
  const bool is_unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!is_unknown || unknown.size() < 2) return one_line(error.what());  // CLI11 lists them from the last
  return one_line(fmt::format("The following arguments were not expected: {}", fmt::join(unknown, " ")));
}

/// Only paths begin with ~/, and some came from a place where shells leave it: `'~/x'`, `--run=~/x`.
std::string with_home_path(const std::string& argument) try {
  const std::size_t value = argument.starts_with("--") ? argument.find('=') + 1 : 0;
  return argument.substr(0, value) + with_home(argument.substr(value));
} catch (const Error& error) {
  throw CLI::ValidationError(error.what());
}

/// The values on the command line besides this option's: files, values of --set, and words that are no file.
FilesInUse files_beside(const CLI::App& app, const std::string& option) {
  std::vector<std::filesystem::path> files;
  for (const CLI::Option* other : app.get_options())
    for (const std::string& value : other->get_name() == option ? std::vector<std::string>() : other->results())
      files.emplace_back(other->check_name("--set") ? value.substr(value.find('=') + 1) : value);
  return FilesInUse(files);
}

}  // namespace

void parse_arguments(CLI::App& app, std::vector<std::string> arguments,
                     const std::function<std::string(const CLI::App&)>& hint) {
  app.failure_message([=](const CLI::App* parsed, const CLI::Error& error) {
    std::string advice = split_assignment(*parsed, arguments);
    if (advice.empty()) advice = option_hint(*parsed, arguments);
    if (advice.empty() && hint) advice = hint(*parsed);
    if (advice.empty()) advice = near_hint(*parsed, arguments);
    const std::string line = message_of(*parsed, error);
    const bool says_enough = line.ends_with('?') || line.find("; ") != std::string::npos;
    if (advice.empty() && !says_enough) advice = "; --help says more";
    return line + advice + "\n";
  });
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].empty() && !lacks_value(arguments[i])) continue;
    const std::string where = !arguments[i].empty() ? arguments[i].substr(0, arguments[i].size() - 1)
                              : i > 0               ? arguments[i - 1]
                                                    : std::string("the first argument");
    throw CLI::ValidationError(where, "an empty value; is a shell's variable not set?");
  }
  for (std::string& argument : arguments) argument = with_home_path(argument);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  app.parse(std::move(arguments));
}

CLI::Option* add_overwrite(CLI::App& app) {
  CLI::Option* known = app.get_option_no_throw("--overwrite");
  const std::string doc = "replaces what is there already";
  return known ? known : app.add_flag("--overwrite", doc);
}

CLI::Option* add_assignments(CLI::App& app, std::vector<std::string>& assignments) {
  return app.add_option("--set", assignments, "key.path=value: changes the configuration; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
}

CLI::Validator word_of(const std::vector<std::string>& words) {
  const std::string all = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto fault = [=](const std::string& word) -> std::string {
    if (std::ranges::find(words, word) != words.end()) return {};
    return word + " not in " + all + did_you_mean(word, words);
  };
  return CLI::Validator(fault, all);
}

CLI::Option* add_output(CLI::App& app, const std::string& name, std::filesystem::path& file, const std::string& doc,
                        const std::string& suffix) {
  const auto fault = [&app, name, suffix, overwrite = add_overwrite(app)](const std::string& path) -> std::string {
    std::error_code ignored;
    const std::filesystem::file_status there = std::filesystem::status(path, ignored);
    const bool is_file = std::filesystem::is_regular_file(there), is_special = std::filesystem::is_other(there);
    if (!is_special && !path.ends_with(suffix)) return path + " does not end in " + suffix;
    if (const std::string fault = output_fault(path, files_beside(app, name)); !fault.empty()) return fault;
    if (overwrite->count() > 0 || !is_file) return {};
    return path + " is there already; name another file, or replace it with --overwrite";
  };
  return app.add_option(name, file, doc)->check(fault);
}

}  // namespace nixie
