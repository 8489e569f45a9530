// The words come from the options as they are declared; files are completed wherever no word fits.
#include "nixie/apps/trainer/commands/completion.h"

#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/apps/trainer/commands/train_options.h"
#include "nixie/configs/parse/config.h"

namespace nixie {
namespace {

/// The long options of a command, and what its arguments may be where they are words of a list.
std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
  return words;
}

std::string keys() {
  std::string words;
  for_each_field<TrainConfig>(
      [&](const auto& field) { words += (words.empty() ? "" : " ") + std::string(field.key) + "="; });
  return words;
}

constexpr const char* kScript = R"(# bash completion of nixie's trainer: source <(trainer completion)
_nixie_trainer() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words
  compopt +o nospace
  if [[ $before == --set ]]; then
    compopt -o nospace
    COMPREPLY=($(compgen -W "KEYS" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
CASES    *) words="TRAIN"; ((COMP_CWORD == 1)) && words+=" COMMANDS" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _nixie_trainer trainer
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

}  // namespace

std::string completion_text() {
  std::string cases, commands = "train benchmark";
  for_each_command([&](const char* name, const CLI::App& app, const std::string& first) {
    commands += std::string(" ") + name;
    cases += fmt::format("    {}) words=\"{}{}\" ;;\n", name, first.empty() ? "" : first + " ", words_of(app));
  });
  CLI::App train;
  train.set_version_flag("--version", "");
  TrainRequest request;
  add_train_options(train, request);
  std::string text = replaced(kScript, "CASES", cases);
  text = replaced(text, "TRAIN", words_of(train));
  return replaced(replaced(text, "COMMANDS", commands), "KEYS", keys());
}

}  // namespace nixie
