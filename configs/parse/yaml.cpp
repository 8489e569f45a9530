// Builds the Tree from yaml-cpp's parser events and applies --set.
#include "nixie/configs/parse/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>

#include "nixie/configs/parse/suggestion.h"
#include "nixie/configs/parse/syntax/diagnosis.h"
#include "nixie/configs/parse/syntax/lines.h"
#include "nixie/configs/parse/syntax/marks.h"
#include "nixie/configs/parse/syntax/mistake.h"
#include "nixie/configs/parse/syntax/repair.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxText = 16 << 20;  // of all scalars, aliases counted where they are used

constexpr const char* kGoesOn =
    "a text without quotes goes on in this line, expected one value in a line, or quotes around a text of several";

struct PlacedError : Error {
  PlacedError(const Place& place, const std::string& what)
      : Error(Fault::usage, one_line(to_string(place) + ": " + what)), line(place.line) {}
  int line;
};

[[noreturn]] void fail_at(const Place& place, const std::string& what) { throw PlacedError(place, what); }

/// Receives the parser's events and grows one Tree. Working on events rather than on YAML::Node keeps aliases,
/// repeated keys and what follows the document visible.
class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, const Marks& marks, RepeatedKeys repeated)
      : lines_(text), marks_(marks), repeated_(repeated) {}

  Tree take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_key_without_colon(mark);
    close({make_tree(place_of_empty(mark)), anchor});
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    if (name.ends_with(':'))
      throw YAML::ParserException(mark, "an anchor that ends with a colon, expected `key: value` without &");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) fail_at(at(mark), "the alias is inside the value it repeats, expected a finite one");
    count(target->second, at(mark), stack_.size());
    attach(target->second, at(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_tag(mark, tag);
    scalar_at_ = mark.pos;
    Tree tree = scalar_tree(at(mark), text);
    tree.quoted = tag == "!";
    refuse_several_lines(mark, text);
    close({std::move(tree), anchor});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(Tree::Kind::list, mark, tag, anchor, style);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(Tree::Kind::map, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close_open(); }
  void OnMapEnd() override { close_open(); }

 private:
  struct Frame {
    Tree tree;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool in_brackets = false;             // {} holds keys without a colon, too
    bool has_key = false;                 // of a map: the key came, its value is next
    bool is_merge = false;                // that key is <<
    Tree::Entry entry{};                  // that key
    std::map<std::string, Place> keys{};  // all keys so far
    std::vector<Tree> merged{};           // the values of <<
  };

  Place at(const YAML::Mark& mark) const { return marks_.at(mark); }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "?" && tag != "!" && !tag.empty())
      fail_at(at(mark), fmt::format("tag {}, expected a value without one", tag));
  }
  /// yaml-cpp takes the end of a document for the colon of its last key, and says that the value is where the key is.
  void refuse_key_without_colon(const YAML::Mark& value) const {
    const bool is_awaited = !stack_.empty() && stack_.back().has_key && !stack_.back().in_brackets;
    if (is_awaited && value.pos == scalar_at_) throw YAML::ParserException(value, YAML::ErrorMsg::END_OF_MAP);
  }
  /// A value that goes on in the next line: that line lost its dash or colon, or one of them its comma or place.
  void refuse_several_lines(const YAML::Mark& mark, const std::string& value) const {
    std::size_t start = marks_.byte_of(mark);
    while (lines_.is_any_of(start, "&!"))  // anchors and tags in front of it
      start = std::min(lines_.text().find_first_not_of(" \t\n", lines_.end_of_word(start)), lines_.size());
    if (lines_.is_any_of(start, "\"'|>") || lines_.text().substr(start, value.size()) == value) return;
    const std::size_t end = lines_.row_end(start);
    const std::string_view row = lines_.text().substr(start, end - start);
    const std::string_view words = row.substr(0, row.find_last_not_of(" \t") + 1);
    if (end < lines_.size() && value.size() > words.size() && value.starts_with(words))
      throw YAML::ParserException(marks_.mark_of(lines_.next_row(start)), kGoesOn);
  }
  /// The place of an empty value: its key or dash. yaml-cpp gives the place of the next value.
  Place place_of_empty(const YAML::Mark& mark) const {
    if (stack_.empty()) return at(mark);
    if (stack_.back().has_key) return stack_.back().entry.place;
    if (stack_.back().in_brackets) return at(mark);
    const std::size_t next = marks_.byte_of(mark);
    if (lines_.first_of_row(next) < next) return at(mark);
    const std::size_t above = lines_.row_above(next);
    return lines_.is_item(above) ? at(marks_.mark_of(above)) : at(mark);
  }
  void open(Tree::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    refuse_tag(mark, tag);
    stack_.push_back({make_tree(at(mark), kind), anchor, style == YAML::EmitterStyle::Flow});
    if (stack_.size() > kMaxDepth) fail_at(at(mark), fmt::format("more than {} levels, expected fewer", kMaxDepth));
  }
  /// `<<: *map` or `<<: [*first, *second]`: fields that the map itself leaves out.
  void merge(Frame& top, Tree tree) {
    if (tree.is_list())
      std::move(tree.items.begin(), tree.items.end(), std::back_inserter(top.merged));
    else
      top.merged.push_back(std::move(tree));
    for (const Tree& map : top.merged)
      if (!map.is_map()) fail_at(map.place, "the value of the merge key << is no map, expected an alias of one");
  }
  void close_open() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    for (Tree& map : frame.merged)  // an earlier one wins, and the map's own fields over all
      for (Tree::Entry& entry : map.entries)
        if (frame.keys.emplace(entry.key, entry.place).second) frame.tree.entries.push_back(std::move(entry));
    close(std::move(frame));
  }
  void close(Frame frame) {
    const Place place = frame.tree.place;
    add(1, frame.tree.text.size(), place);
    if (frame.anchor != YAML::NullAnchor) {
      count(frame.tree, place, 0);  // the copy kept for aliases
      anchors_[frame.anchor] = frame.tree;
    }
    attach(std::move(frame.tree), place);
  }
  void attach(Tree tree, const Place& place) {
    if (stack_.empty()) {
      root_ = std::move(tree);
    } else if (Frame& top = stack_.back(); top.tree.is_list()) {
      top.tree.items.push_back(std::move(tree));
    } else if (!top.has_key) {
      start_entry(top, tree, place);
    } else {
      top.has_key = false;
      if (top.is_merge) return merge(top, std::move(tree));
      top.entry.value = std::move(tree);
      const bool anchors_only = stack_.size() == 1 && top.entry.key.starts_with('.');
      if (!anchors_only) top.tree.entries.push_back(std::move(top.entry));
    }
  }
  void start_entry(Frame& map, const Tree& key, const Place& place) {
    if (!key.is_scalar()) fail_at(place, "the key is no word, expected `key: value`");
    const auto [first, is_new] = map.keys.emplace(key.text, place);
    if (!is_new && repeated_ == RepeatedKeys::last_at_root && stack_.size() == 1)
      std::erase_if(map.tree.entries, [&](const Tree::Entry& entry) { return entry.key == key.text; });
    else if (!is_new)
      fail_at(place, fmt::format("key \"{}\" again, expected once (first at {})", key.text, to_string(first->second)));
    map.is_merge = key.text == "<<" && !key.quoted;
    map.entry = {key.text, place, {}};
    map.has_key = true;
  }
  void add(std::size_t nodes, std::size_t text, const Place& place) {
    nodes_ += nodes;
    text_ += text;
    if (nodes_ > kMaxNodes)
      fail_at(place, fmt::format("more than {} values (aliases included), expected fewer", kMaxNodes));
    if (text_ > kMaxText)
      fail_at(place, fmt::format("more than {} bytes of text (aliases included), expected fewer", kMaxText));
  }
  void count(const Tree& tree, const Place& place, std::size_t depth) {
    if (depth > kMaxDepth) fail_at(place, fmt::format("more than {} levels, expected fewer", kMaxDepth));
    add(1, tree.text.size(), place);
    for (const Tree& item : tree.items) count(item, place, depth + 1);
    for (const Tree::Entry& entry : tree.entries) {
      add(0, entry.key.size(), place);
      count(entry.value, place, depth + 1);
    }
  }

  Lines lines_;
  const Marks& marks_;
  RepeatedKeys repeated_;
  Tree root_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Tree> anchors_;  // of finished values only, so an alias to an open one is a cycle
  std::size_t nodes_ = 0, text_ = 0;
  int scalar_at_ = -1;  // of the last scalar, in the text
};

/// Swallows the events of a document.
struct Rest : YAML::EventHandler {
  YAML::Mark mark;  ///< where it begins

  void OnDocumentStart(const YAML::Mark& start) override { mark = start; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// Throws where the document ends inside quotes or at a directive. yaml-cpp takes the text's end for the closing quote,
/// but not a mark of the document's end; and it drops a directive that no document follows, but not a token that begins
/// with @.
void check_end(const std::string& text) {
  const std::size_t head = end_of_head(text);
  if (text.find_first_of("'\"") == std::string::npos && text.find("\n%", head) == std::string::npos) return;
  std::string checked = text + "\n...\n";
  for (std::size_t at = head; (at = checked.find("\n%", at)) != std::string::npos;) checked[++at] = '@';
  std::istringstream stream(checked);
  Rest rest;
  YAML::Parser(stream).HandleNextDocument(rest);
}

/// Reads one document, and that nothing follows it. Throws what yaml-cpp throws, or a PlacedError.
Tree read_document(const std::string& text, const Marks& marks, RepeatedKeys repeated) {
  std::istringstream stream(text);
  Builder builder(text, marks, repeated);
  YAML::Parser parser(stream);
  if (!parser.HandleNextDocument(builder)) return make_tree(marks.start());
  check_end(text);
  // Called once more, never in a loop: on some malformed input yaml-cpp 0.7 finds documents for ever.
  if (Rest rest; parser.HandleNextDocument(rest)) throw YAML::ParserException(rest.mark, kFollows);
  return builder.take();
}

int line_of(const YAML::Exception& error) {
  return error.mark.is_null() ? std::numeric_limits<int>::max() : error.mark.line + 1;
}

/// The line at which a text cannot be read; 0 where all of it can.
int failing_line(const std::string& text, RepeatedKeys repeated) try {
  read_document(text, Marks(nullptr, text, false), repeated);
  return 0;
} catch (const YAML::Exception& error) {
  return line_of(error);
} catch (const PlacedError& error) {
  return error.line;
}

/// The mistake that yaml-cpp noticed, where it begins.
[[noreturn]] void fail_by(const YAML::Exception& error, std::string_view text, const Marks& marks,
                          RepeatedKeys repeated) {
  const auto mistake =
      find_mistake(text, line_of(error), [&](const auto& other) { return failing_line(other, repeated); });
  if (mistake) fail_at(marks.at(*mistake), mistake->what);
  if (error.msg == YAML::ErrorMsg::DOC_IN_SCALAR && marks.is_behind(error.mark))
    fail_at(marks.start(), "a quote is never closed");
  fail_at(error.mark.is_null() ? marks.start() : marks.at(error.mark), with_remedy(error.msg));
}

/// Parses one document of any kind. `is_flag`: places are the flag `source` names, without lines.
Tree parse_document(std::string_view given, const std::string& source, bool is_flag,
                    RepeatedKeys repeated = RepeatedKeys::refused) {
  const auto name = std::make_shared<const std::string>(source);
  if (given.size() > kMaxBytes)
    fail_at(Marks(name, {}, is_flag).start(),
            fmt::format("more than {} bytes, expected a smaller document", kMaxBytes));
  const std::string text = normalized(given);
  const Marks marks(name, text, is_flag);
  if (const auto unreadable = find_unreadable(text)) fail_at(marks.at(*unreadable), unreadable->what);
  try {
    return read_document(text, marks, repeated);
  } catch (const YAML::Exception& error) {
    fail_by(error, text, marks, repeated);
  }
}

/// Gives `tree`, the value at `path`, room for a key: empty values and bare names (`lenet` is `{lenet: }`) become maps.
void become_map(Tree& tree, const std::string& path, const std::string& key, const Place& flag, bool is_choice) {
  const bool replace = is_choice && (tree.is_scalar() ? tree.text != key : tree.is_map() && !tree.find(key));
  if (tree.is_null() || replace) {
    tree = make_tree(flag, Tree::Kind::map);
  } else if (tree.is_scalar() && tree.text == key) {
    tree = map_tree(tree.place, {{key, tree.place, make_tree(tree.place)}});
  } else if (!tree.is_map()) {
    fail_at(flag, fmt::format("{} is {}, expected a map", path,
                              tree.is_list() ? fmt::format("a list of {}", tree.items.size()) : '"' + tree.text + '"'));
  }
}

Tree& step_into(Tree& tree, const std::string& path, const std::string& key, const Place& flag, bool is_choice) {
  if (tree.is_list()) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    const bool is_index = error == std::errc{} && end == key.data() + key.size() && index < tree.items.size();
    if (!is_index)
      fail_at(flag, fmt::format("{} has no \"{}\", expected an index below {}", path, key, tree.items.size()));
    return tree.items[index];
  }
  become_map(tree, path, key, flag, is_choice);
  if (Tree* found = tree.find(key)) return *found;
  tree.entries.push_back({key, flag, make_tree(flag)});
  return tree.entries.back().value;
}

}  // namespace

Tree parse_yaml(std::string_view text, const std::string& file, RepeatedKeys repeated) {
  Tree tree = parse_document(text, file, false, repeated);
  if (!tree.is_map()) fail_at(tree.place, "the document is no map, expected `key: value` lines");
  return tree;
}

Tree load_yaml(const FilePlace& file, RepeatedKeys repeated) {
  std::error_code error;
  check(!std::filesystem::is_directory(file.status(error)), file.path().string(), " is a folder, expected a YAML file");
  std::string text(kMaxBytes + 1, '\0');  // one byte more tells too long from long enough
  text.resize(FileToRead(file, Fault::usage, "name a YAML file", FileToRead::Kind::any).read(text));
  return parse_yaml(text, file.path().string(), repeated);
}

void override_yaml(Tree& tree, const std::string& assignment, const std::vector<std::string>& choices) {
  constexpr std::size_t kMostShown = 200;
  const std::string cut = assignment.substr(0, kMostShown) + (assignment.size() > kMostShown ? "..." : "");
  const std::string flag_text = "--set " + one_line(cut);
  const Place flag{std::make_shared<const std::string>(flag_text), 0, 0};
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) fail_at(flag, "no `=` in it, expected key.path=value");
  const std::vector<std::string> keys = parts_of(std::string_view(assignment).substr(0, equals), '.');
  if (std::find(keys.begin(), keys.end(), "") != keys.end())
    fail_at(flag, "an empty key in it, expected key.path=value");
  if (keys.size() >= kMaxDepth) fail_at(flag, fmt::format("more than {} levels, expected fewer", kMaxDepth));

  Tree value = parse_document(std::string_view(assignment).substr(equals + 1), flag_text, true);
  Tree* target = &tree;
  std::string path;
  for (const std::string& key : keys) {
    const bool is_choice = std::find(choices.begin(), choices.end(), path) != choices.end();
    target = &step_into(*target, path.empty() ? "the file" : path, key, flag, is_choice);
    path += (path.empty() ? "" : ".") + key;
  }
  *target = std::move(value);
}

std::string to_string(const Place& place) {
  const std::string source = place.source ? one_line(*place.source) : std::string{};
  return place.line > 0 ? fmt::format("{}:{}:{}", source, place.line, place.column) : source;
}

const Tree* Tree::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

Tree* Tree::find(std::string_view key) { return const_cast<Tree*>(std::as_const(*this).find(key)); }

Tree make_tree(Place place, Tree::Kind kind) {
  Tree tree;
  tree.kind = kind;
  tree.place = std::move(place);
  return tree;
}
Tree scalar_tree(const Place& place, const std::string& text) {
  Tree tree = make_tree(place, Tree::Kind::scalar);
  tree.text = text;
  return tree;
}
Tree scalar_tree(const Place& place, double number) { return scalar_tree(place, fmt::format("{:.9g}", number)); }
Tree list_tree(const Place& place, std::vector<Tree> items) {
  Tree tree = make_tree(place, Tree::Kind::list);
  tree.items = std::move(items);
  return tree;
}
Tree map_tree(const Place& place, Fields fields) {
  Tree tree = make_tree(place, Tree::Kind::map);
  tree.entries = std::move(fields);
  return tree;
}

}  // namespace nixie
