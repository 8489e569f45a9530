// Answers to arguments that are not understood: other programs' words for commands, options and keys.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace nixie {

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
