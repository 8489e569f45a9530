// trainer completion: what a shell offers for the word that is being typed, and the scripts that ask for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nixie {

using EachCommand = std::function<void(const std::function<void(const char* name, const CLI::App& app)>&)>;

const std::vector<std::string>& completion_shells();

/// A script for the shell, which asks the program at each completion: `source <(trainer completion bash)`.
std::string completion_script(const std::string& shell);

/// Completions of the last word of a command line: commands, options, their values, keys of --set and
/// theirs. Nothing where only a file fits. The words, beginning with the program's name, are joined by '\x1f'.
/// `commands` are their names, `each_command` calls a function with each and its options.
std::vector<std::string> completions(const std::string& line, const std::vector<std::string>& commands,
                                     const EachCommand& each_command);

}  // namespace nixie
