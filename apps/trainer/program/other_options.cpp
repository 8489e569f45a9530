// Options come first that are known word by word; a similar name is the last resort.
#include "nixie/apps/trainer/program/arguments.h"

#include <algorithm>
#include <filesystem>

#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/reader.h"
#include "nixie/configs/parse/suggestion.h"
#include "nixie/configs/parse/words/tables.h"
#include "nixie/core/base/one_line.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

constexpr const char* kNoValue = "VALUE";

/// An option that is not known, in parts.
struct Unknown {
  std::string name = {};   ///< `--batch-size`
  std::string key = {};    ///< `batch_size`
  std::string value = {};  ///< VALUE where none was given
};

std::vector<Unknown> unknown_options(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<Unknown> all;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('='), begin = word.find_first_not_of('-');
    if (!word.starts_with("-") || begin == std::string::npos) continue;
    Unknown found{.name = word.substr(0, equals), .key = word.substr(begin, equals - begin), .value = kNoValue};
    if (app.get_option_no_throw(found.name)) continue;
    std::replace(found.key.begin(), found.key.end(), '-', '_');
    if (equals != std::string::npos)
      found.value = word.substr(equals + 1);
    else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"))
      found.value = arguments[i + 1];
    if (found.value.empty()) found.value = kNoValue;
    all.push_back(std::move(found));
  }
  return all;
}

const std::vector<std::string>& top_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for_each_field<TrainConfig>([&](const auto& field) { all.emplace_back(field.key); });
    return all;
  }();
  return keys;
}

bool is_key(const std::string& path) {
  return std::ranges::find(top_keys(), path.substr(0, path.find_first_of(".="))) != top_keys().end();
}

/// The word in quotes that did_you_mean gives; "" where it gives none.
std::string word_in(const std::string& suggestion) {
  const std::size_t begin = suggestion.find('"') + 1, end = suggestion.find('"', begin);
  return begin == 0 || end == std::string::npos ? "" : suggestion.substr(begin, end - begin);
}

/// The value of a top-level key as the configuration's reader tells it, such as `sgd` for `SGD` or `[f1]` for
/// `f1_score`, and what the reader says to that one: "" where it takes it.
std::pair<std::string, std::string> as_read(const std::string& key, std::string value) {
  std::string said;
  for (int words = 0; words < 4; ++words) try {
      parse_config("{model: [flatten], data: glyphs, epochs: 1}", "", {key + "=" + value});
      return {value, ""};
    } catch (const Error& error) {
      const std::string text = error.what(), start = "--set " + key + "=" + value + ": ";
      if (!text.starts_with(start)) return {value, ""};
      said = text.substr(start.size(), text.find('\n') - start.size());
      const std::size_t hint = said.find("; did you mean "), at = value.find(word_in(said));
      if (said.find("expected a list") != std::string::npos)
        value = "[" + value + "]";
      else if (hint != std::string::npos && at != std::string::npos)
        value.replace(at, word_in(said).size(), word_in(said.substr(hint)));
      else
        break;
    }
  return {value, said};
}

/// `cuda` for `gpu`, `cuda:0` or `0`.
std::string backend_of(const std::string& value) {
  if (value.find_first_not_of("0123456789") == std::string::npos) return "cuda";
  const std::string word = value.substr(0, value.find(':')),
                    meant = word_in(did_you_mean(word, {"auto", "cpu", "cuda"}));
  return meant.empty() ? word : meant;
}

/// The file that --config names; "" where it names none.
std::filesystem::path config_of(const std::vector<std::string>& arguments) {
  constexpr std::string_view option = "--config";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("--config=")) return arguments[i].substr(option.size() + 1);
    if (arguments[i] == option && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return {};
}

/// The key with what the file names in place of its second part, if that has the key, too: `data.mnist.batch` for
/// `data.DATASET.batch`. Unchanged where no file says it.
std::string key_in(const std::filesystem::path& config, const std::string& key) try {
  const std::size_t first = key.find('.'), last = key.rfind('.');
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored),
                              file = found_config(config, program);
  if (first == last || !std::filesystem::is_regular_file(file, ignored)) return key;  // a pipe would be waited for
  const Tree tree = load_yaml(file);
  const Tree* part = tree.find(key.substr(0, first));
  Problems problems;
  const auto choice = part ? split_choice(*part, problems) : std::nullopt;
  if (!choice) return key;
  const std::string place = key.substr(0, first + 1) + choice->name, field = key.substr(last + 1);
  const std::vector<std::string> places = TrainConfig::places_of(field);
  return std::ranges::find(places, place) == places.end() ? key : place + "." + field;
} catch (const Error&) {  // reading the file reports its mistakes
  return key;
}

/// For commands that take a trained model; "" for others.
std::string model_hint(const CLI::App& app) {
  const bool takes_model = app.get_option_no_throw("--checkpoint") && app.get_option_no_throw("--run");
  return takes_model ? "; name the model with --checkpoint FILE or --run DIR" : "";
}

/// How a command gets the value of a key: by an option of that name, or by --set; "" where it has neither.
std::string value_hint(const CLI::App& app, const std::string& key, const std::string& value) {
  const std::string meant = key == "backend" ? backend_of(value) : value;
  if (app.get_option_no_throw("--" + key)) return fmt::format("; write --{} {}", key, shell_word(meant));
  if (!app.get_option_no_throw("--set")) return {};
  return set_hint("to change the configuration write", key, meant);
}

std::string key_hint(const CLI::App& app, const Unknown& option, const std::filesystem::path& config) {
  if (is_key(option.key)) return value_hint(app, option.key, option.value);
  for (const OtherWord& other : other_options())
    if (option.key == other.word && !other.known_word.starts_with("--"))
      return value_hint(app, key_in(config, other.known_word), other.text.empty() ? option.value : other.text);
  if (option.key == "config") return model_hint(app);
  if (option.key != "gpus" && option.key != "devices") return {};
  const std::string hint = value_hint(app, "backend", "cuda");
  return hint.empty() ? "" : kOneDevice + hint;
}

/// `; write --set epochs=3` for `epochs=3`.
std::string assignment_hint(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_value = i > 0 && arguments[i - 1].starts_with("--");
    const std::size_t equals = arguments[i].find('=');
    if (!is_value && equals != std::string::npos && is_key(arguments[i]))
      return set_hint("write", arguments[i].substr(0, equals), arguments[i].substr(equals + 1));
  }
  return {};
}

/// `; write --checkpoint a.h5` for `a.h5`.
std::string file_hint(const CLI::App& app, const std::string& word) {
  const auto write = [&](const char* option) {
    const CLI::Option* known = app.get_option_no_throw(option);
    return known && known->count() == 0 ? fmt::format("; write {} {}", option, shell_word(word)) : std::string();
  };
  std::error_code ignored;
  if (word.ends_with(".yaml") || word.ends_with(".yml"))
    return app.get_option_no_throw("--config") ? write("--config") : model_hint(app);
  if (word.ends_with(".h5")) return write("--checkpoint");
  const bool has_models = app.get_option_no_throw("--checkpoint");
  return has_models && std::filesystem::is_directory(word, ignored) ? write("--run") : "";
}

namespace fs = std::filesystem;

/// ``; the command is `trainer train` `` for `fit`, `; write trainer --resume runs/a` for `resume` before `runs/a`,
/// `; there is no server; ...` for `serve`; "" for a word that is no command anywhere.
std::string other_command(const std::vector<std::string>& commands, const std::string& word, const std::string& next,
                          bool may_be_absent) {
  OtherWord meant{.word = word, .known_word = word, .text = {}};
  const auto row = std::ranges::find(other_commands(), word, &OtherWord::word);
  if (row != other_commands().end())
    meant = *row;
  else if (std::ranges::find(commands, word) == commands.end())
    return {};
  if (meant.known_word == "*") return may_be_absent ? "; " + meant.text : "";
  return meant.known_word.starts_with("--") ? fmt::format("; write trainer {} {}", meant.known_word, shell_word(next))
                                            : fmt::format("; the command is `trainer {}`", meant.known_word);
}

}  // namespace

std::string set_hint(const char* how, const std::string& key, const std::string& value) {
  const bool is_known = value != kNoValue && std::ranges::find(top_keys(), key) != top_keys().end();
  const auto [meant, said] = is_known ? as_read(key, value) : std::pair(value, std::string());
  if (said.starts_with("unknown ")) return fmt::format("; {}; {} --set {}={}", said, how, key, kNoValue);
  return fmt::format("; {} --set {}", how, shell_word(key + "=" + meant));
}

std::string option_hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  const bool sets = app.get_option_no_throw("--set");
  if (const std::string hint = sets ? assignment_hint(arguments) : ""; !hint.empty()) return hint;
  const std::vector<Unknown> unknown = unknown_options(app, arguments);
  for (const Unknown& option : unknown) {
    for (const OtherWord& other : other_options())
      if (const CLI::Option* known = app.get_option_no_throw(other.known_word); known && option.key == other.word) {
        const bool takes_none = option.value == kNoValue && known->get_expected_min() == 0;
        return fmt::format("; write {}{}", other.known_word, takes_none ? "" : " " + shell_word(option.value));
      }
    if (const std::string hint = key_hint(app, option, config_of(arguments)); !hint.empty()) return hint;
  }
  if (!unknown.empty()) return {};  // a word may be the value of one
  std::vector<std::string> words = app.remaining();
  if (words.empty()) return {};
  for (const CLI::Option* option : app.get_options())  // a model may have taken the output's place
    if (option->get_positional()) words.insert(words.begin(), option->results().begin(), option->results().end());
  for (const std::string& word : words)
    if (const std::string hint = file_hint(app, word); !hint.empty()) return hint;
  return {};
}

std::string near_hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  for (const Unknown& option : unknown_options(app, arguments)) {
    if (!option.name.starts_with("--")) continue;
    if (const std::string near = did_you_mean(option.name, options); !near.empty()) return near;
    if (!app.get_option_no_throw("--set")) continue;
    const std::string near = did_you_mean(option.key, top_keys()), key = word_in(near);
    if (is_key(key))
      return near.ends_with('"') || near.ends_with('?') ? value_hint(app, key, option.value)
                                                        : near + "; write --set " + key + "=VALUE";
  }
  return {};
}

std::string command_hint(const CLI::App& app, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& commands) {
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--") || app.get_option_no_throw(argument)) continue;
    if (const std::string command = other_command(commands, argument.substr(2), "RUN", false); !command.empty())
      return command;
  }
  if (arguments.empty() || arguments[0].starts_with("-")) return {};
  const std::string& word = arguments[0];
  const std::string command = other_command(commands, word, arguments.size() > 1 ? arguments[1] : "RUN", true);
  if (!command.empty()) return command;
  if (word == "launch" || word == "torchrun") return kOneDevice;
  const std::string near = did_you_mean(word, commands);
  std::error_code ignored;
  if (!near.empty() || !fs::exists(word, ignored)) return near;
  return fmt::format("; write {} {}", is_picture_name(word) ? "trainer predict" : "--config FILE --data",
                     shell_word(word));
}

}  // namespace nixie
