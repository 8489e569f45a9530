// Parsing a command line: what every program of nixie refuses, whatever its options.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace nixie {

/// Has the app parse the arguments. Throws CLI::ParseError, also for an argument that is empty: no option and no file
/// has an empty value, but a shell gives one for a variable that is not set, as in `--run "$RUN"`. The error becomes
/// one line, which ends with what `hint` gives for it or, where that is empty, with the option of a similar name.
/// A value that begins with `~/` is a path in the home folder, whether or not the shell has expanded it.
void parse_arguments(CLI::App& app, std::vector<std::string> arguments, const std::function<std::string()>& hint = {});

/// For an option that names a file to write: refuses another suffix, so that no other file is replaced by mistake.
CLI::Validator ends_in(const std::string& suffix);

}  // namespace nixie
