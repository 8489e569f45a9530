// Parsing a command line: what every program of nixie refuses, whatever its options.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace nixie {

/// Has the app parse the arguments. Throws CLI::ParseError, also for an argument that is empty: no option and no file
/// has an empty value, but a shell gives one for a variable that is not set, as in `--run "$RUN"`. The error becomes
/// one line, which ends with what to write instead, where that is known: as an option, or by `hint`.
/// A value that begins with `~/` is a path in the home folder, whether or not the shell has expanded it.
void parse_arguments(CLI::App& app, std::vector<std::string> arguments,
                     const std::function<std::string(const CLI::App&)>& hint = {});

/// An option that names a file to write, which ends in `suffix`, and the flag --overwrite, without which a file that is
/// there is refused. Refuses files that output_fault refuses, and a file that another argument names.
CLI::Option* add_output(CLI::App& app, const std::string& name, std::filesystem::path& file, const std::string& doc,
                        const std::string& suffix = "");
CLI::Option* add_overwrite(CLI::App& app);

/// Accepts one of these words; suggests the nearest for another.
CLI::Validator word_of(const std::vector<std::string>& words);

}  // namespace nixie
