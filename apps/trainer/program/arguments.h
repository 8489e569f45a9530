// Parsing a command line: what every program of nixie refuses, whatever its options, and answers to arguments that are
// not understood: other programs' words for commands, options and keys.
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

/// --set key.path=value, which may be repeated.
CLI::Option* add_assignments(CLI::App& app, std::vector<std::string>& assignments);

/// Accepts one of these words; suggests the nearest for another.
CLI::Validator word_of(const std::vector<std::string>& words);

inline constexpr const char* kOneDevice =
    "; a process trains on one device: start one for each by mpirun -np N trainer (docs/scaling.md)";

/// `; write --set optimizer=sgd`, where `how` is `write`, for the value `SGD` of `optimizer`: the one that the reader
/// of the configuration tells for it; where it tells none, what it says comes first.
std::string set_hint(const char* how, const std::string& key, const std::string& value);
/// The advice about arguments that the app does not know, as the end of a message: for `--epochs 3` or `-e 3`
/// `; to change the configuration write --set epochs=3`, for `--out x` `; write --run x`, for a checkpoint alone
/// `; write --checkpoint a.h5`; "" where nothing is known.
std::string option_hint(const CLI::App& app, const std::vector<std::string>& arguments);
/// The same for options whose names are not quite those of an option, or of a key of the configuration.
std::string near_hint(const CLI::App& app, const std::vector<std::string>& arguments);

/// The advice about a word that is no command, or an option that is one: `; the command is `trainer eval``
/// for `--eval`, the nearest of `commands`, or the option for a file alone; "" where nothing is known.
std::string command_hint(const CLI::App& app, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& commands);

}  // namespace nixie
