// Prints a Tree in block style: what a run's config.yaml and `trainer config` hold.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "nixie/configs/parse/yaml.h"
#include "nixie/core/base/fields.h"

namespace nixie {
namespace {

bool is_plain(const std::string& text) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '/'; };
  if (text.empty()) return false;
  const bool is_signed = (text[0] == '-' || text[0] == '+') && text.size() > 1;
  if (!is_word(static_cast<unsigned char>(text[is_signed ? 1 : 0])) || text.starts_with("...")) return false;
  return std::all_of(text.begin() + 1, text.end(), [&](unsigned char c) { return is_word(c) || c == '-' || c == '+'; });
}

bool is_null_word(const std::string& text) { return text == "null" || text == "Null" || text == "NULL"; }

std::string scalar_text(const std::string& text, bool quoted) {
  if (!quoted && is_plain(text) && !is_null_word(text)) return text;
  return field_text(text);
}

std::string print_value(const Tree& tree, std::size_t indent);

/// The value after `key:` or `-`: on the same line where it is a scalar or empty.
std::string print_after(const Tree& tree, std::size_t indent, bool in_list) {
  if (tree.is_null()) return "\n";
  if (tree.is_scalar()) return " " + scalar_text(tree.text, tree.quoted) + "\n";
  if (tree.items.empty() && tree.entries.empty()) return tree.is_list() ? " []\n" : " {}\n";
  const std::string block = print_value(tree, indent + 2);
  return in_list ? " " + block.substr(indent + 2) : "\n" + block;  // `- key: value`, the rest below it
}

std::string print_value(const Tree& tree, std::size_t indent) {
  const std::string space(indent, ' ');
  std::string out;
  for (const Tree& item : tree.items) out += space + "-" + print_after(item, indent, true);
  for (const Tree::Entry& entry : tree.entries)
    out += space + scalar_text(entry.key, false) + ":" + print_after(entry.value, indent, false);
  return out;
}

template <class Items, class Text>
std::string joined(const Items& items, Text&& text_of) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(text_of(item));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string print_flow(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::null:
      return "null";
    case Tree::Kind::scalar:
      return scalar_text(tree.text, tree.quoted);
    case Tree::Kind::list:
      return "[" + joined(tree.items, print_flow) + "]";
    case Tree::Kind::map:
      break;
  }
  return "{" +
         joined(
             tree.entries,
             [](const Tree::Entry& entry) { return scalar_text(entry.key, false) + ": " + print_flow(entry.value); }) +
         "}";
}

std::string print_yaml(const Tree& tree) {
  return tree.is_map() && tree.entries.empty() ? "{}\n" : print_value(tree, 0);
}

}  // namespace nixie
