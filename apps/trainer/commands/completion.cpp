// The words come from the options as they are declared and from the fields of a configuration.
#include "nixie/apps/trainer/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>

#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/suggestion.h"

namespace nixie {
namespace {

constexpr char kSeparator = '\x1f';  // ASCII's unit separator: in no word, and no shell trims it

using Words = std::vector<std::string>;

// Each script hands over the words up to the cursor and leaves files to the shell where nothing comes back.
const std::map<std::string, const char*> kScripts = {
    {"bash", R"script(# bash completion of nixie's trainer: source <(trainer completion bash)
_nixie_trainer() {
  local words=() word i
  for ((i = 0; i <= COMP_CWORD; ++i)); do # readline splits key=value at the =
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == = || ${COMP_WORDS[i-1]} == = ]]; then words[-1]+=$word; else words+=("$word"); fi
  done
  local IFS=$'\x1f'
  mapfile -t COMPREPLY < <("${words[0]}" completion words "${words[*]}" 2>/dev/null)
  word=${COMP_WORDS[COMP_CWORD]#=}
  COMPREPLY=("${COMPREPLY[@]#"${words[-1]%"$word"}"}")
  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _nixie_trainer trainer
)script"},
    {"zsh", R"script(#compdef trainer
# zsh completion of nixie's trainer: source <(trainer completion zsh)
_nixie_trainer() {
  local -a found
  found=(${(f)"$("${words[1]}" completion words "${(pj:\x1f:)words[1,CURRENT]}" 2>/dev/null)"})
  if ((! $#found)); then
    _files
  elif [[ $found[1] == *= ]]; then
    compadd -S '' -- $found
  else
    compadd -- $found
  fi
}
compdef _nixie_trainer trainer
)script"},
    {"fish", R"script(# fish completion of nixie's trainer: trainer completion fish | source
function __nixie_trainer
  set -l words (commandline -opc) "$(commandline -ct)"
  set -l found ($words[1] completion words (string join \x1f -- $words) 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path "$(commandline -ct)"
  end
end
complete -c trainer -f -a '(__nixie_trainer)'
)script"}};

/// The words that the option's value may be, from its help: `TEXT:{test,train}`; none for other values.
Words values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

template <class List>
Words names_of() {
  Words names;
  List::for_each([&]<class T>() { names.emplace_back(T::name); });
  return names;
}

/// The words that the key may be set to.
template <class Value>
Words values_of_type() {
  if constexpr (std::is_same_v<Value, bool>) return {"true", "false"};
  if constexpr (std::is_same_v<Value, AnyModel>) return names_of<AllModels>();
  if constexpr (std::is_same_v<Value, AnyLoss>) return names_of<AllLosses>();
  if constexpr (std::is_same_v<Value, AnyOptimizer>) return names_of<AllOptimizers>();
  if constexpr (std::is_same_v<Value, AnySchedule>) return names_of<AllSchedules>();
  if constexpr (std::is_same_v<Value, AnyDataset>) return names_of<AllDatasets>();
  return {};
}

/// `key=` of each key, and once that is typed `key=value` of its words.
Words assignments(const std::string& typed) {
  Words found;
  for_each_field<TrainConfig>([&](const auto& field) {
    const std::string key = std::string(field.key) + "=";
    if (typed.find('=') == std::string::npos) return found.push_back(key);
    if (!typed.starts_with(key)) return;
    using Value = std::remove_cvref_t<decltype(std::declval<TrainConfig>().*field.member)>;
    Words values = *field.range.words ? words_of(field.range) : values_of_type<Value>();
    if (key == "precision=") values = precision_names();  // a text, which the policies name
    for (const std::string& value : values) found.push_back(key + value);
  });
  return found;
}

/// The options; and what the argument `at` may be, where that is a word.
Words words_of(const CLI::App& app, std::size_t at) {
  Words words;
  std::size_t arguments = 0;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    if (option->get_positional() && arguments++ == at)
      for (const std::string& value : values_of(*option)) words.push_back(value);
  }
  return words;
}

/// For the last of the words behind the command.
Words words_for(const CLI::App& app, const Words& words) {
  const std::string before = words.size() > 1 ? words[words.size() - 2] : "";
  if (before == "--set") return assignments(words.back());
  if (before == "--config") {
    std::error_code none;
    return shipped_configs(std::filesystem::read_symlink("/proc/self/exe", none));
  }
  const CLI::Option* option = before.starts_with("--") ? app.get_option_no_throw(before) : nullptr;
  if (option && option->get_items_expected_max() > 0) return values_of(*option);
  return words_of(app, words.size() - 1);
}

}  // namespace

const Words& completion_shells() {
  static const Words shells = [] {
    Words names;
    for (const auto& [shell, script] : kScripts) names.push_back(shell);
    return names;
  }();
  return shells;
}

std::string completion_script(const std::string& shell) { return kScripts.at(shell); }

Words completions(const std::string& line, const Words& commands, const EachCommand& each_command) {
  Words words = parts_of(line, kSeparator), offered;
  words.erase(words.begin());  // the program's name
  if (words.empty()) return {};
  const auto offer = [&](const CLI::App& app, std::size_t from) {
    offered = words_for(app, {words.begin() + static_cast<std::ptrdiff_t>(from), words.end()});
  };
  CLI::App train;
  train.set_version_flag("--version", "");
  TrainRequest request;
  add_train_options(train, request);
  if (words.size() == 1) {
    offered = commands;
    for (const std::string& word : words_of(train, 0)) offered.push_back(word);
  } else {
    offer(train, words[0] == "train" ? 1 : 0);
    each_command([&](const char* name, const CLI::App& app) {
      if (words[0] == name) offer(app, 1);
    });
  }
  std::erase_if(offered, [&](const std::string& word) { return !word.starts_with(words.back()); });
  return offered;
}

}  // namespace nixie
