// Strict YAML: what is kept, what is refused and where, --set, printing, and hostile or mangled text.
#include "nixie/configs/parse/yaml.h"

#include <yaml-cpp/yaml.h>

#include "nixie/core/base/fields.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_yaml(text, "f.yaml"); });
}

/// Structure, keys, texts and quoting, without places.
std::string shape_of(const Tree& tree) {
  if (tree.is_null()) return "~";
  if (tree.is_scalar()) return (tree.quoted ? "s'" : "'") + tree.text + "'";
  std::string out = tree.is_list() ? "[" : "{";
  for (const Tree& item : tree.items) out += shape_of(item) + ",";
  for (const Tree::Entry& entry : tree.entries) out += entry.key + ":" + shape_of(entry.value) + ",";
  return out + (tree.is_list() ? "]" : "}");
}

TEST(Yaml, KeepsStructurePlacesAndQuotes) {
  const Tree tree = parse_yaml("model:\n  alexnet: {classes: 10}\nlist:\n  - relu\n  - \"5\"\nnothing:\n", "f.yaml");
  EXPECT_EQ(shape_of(tree), "{model:{alexnet:{classes:'10',},},list:['relu',s'5',],nothing:~,}");
  const Tree& classes = *tree.find("model")->find("alexnet")->find("classes");
  EXPECT_EQ(to_string(classes.place), "f.yaml:2:22");
  EXPECT_EQ(to_string(tree.entries[1].place), "f.yaml:3:1");
  EXPECT_EQ(to_string(tree.find("list")->items[1].place), "f.yaml:5:5");
  EXPECT_EQ(tree.find("absent"), nullptr);
}

TEST(Yaml, RepeatsAliasesAndDropsAnchorHolders) {
  const Tree tree = parse_yaml(".defaults:\n  conv: &conv {out: 3}\na: *conv\nb: [*conv, *conv]\n", "f.yaml");
  EXPECT_EQ(shape_of(tree), "{a:{out:'3',},b:[{out:'3',},{out:'3',},],}");
}

TEST(Yaml, MergesFieldsThatTheMapLeavesOut) {
  const struct {
    const char *text, *shape;
  } kCases[] = {
      {".b: &b {x: 1, y: 2}\na: {<<: *b, y: 3}\n", "{a:{y:'3',x:'1',},}"},
      {".b: &b {x: 1, y: 2}\na: {y: 3, <<: *b}\n", "{a:{y:'3',x:'1',},}"},
      {".b: &b {x: 1}\n.c: &c {x: 2, z: 4}\na: {<<: [*b, *c]}\n", "{a:{x:'1',z:'4',},}"},
      {".b: &b {x: 1}\n.c: &c {<<: *b, y: 2}\na: {<<: *c}\n", "{a:{y:'2',x:'1',},}"},
      {"a: {<<: {x: 1}, y: 2}\n", "{a:{y:'2',x:'1',},}"},
      {"a: {\"<<\": 1}\n", "{a:{<<:'1',},}"},
  };
  for (const auto& c : kCases) EXPECT_EQ(shape_of(parse_yaml(c.text, "f.yaml")), c.shape) << c.text;
}

TEST(Yaml, RefusesWithPlaceAndRemedy) {
  struct Row {
    std::string text;
    const char *place, *what;
  };
  const Row rows[] = {
      {"", "f.yaml:1:1", "no map"},
      {"5", "f.yaml:1:1", "no map"},
      {"- a\n- b\n", "f.yaml:1:1", "no map"},
      {", a: 1", "f.yaml:1:1", ""},
      {",", "f.yaml:1:1", ""},
      {"a: 1\nb: 2\na: 3\n", "f.yaml:3:1", "first at f.yaml:1:1"},
      {"m: {x: 1, y: 2, x: 3}", "f.yaml:1:17", "first at f.yaml:1:5"},
      {"a: &a [*a]\n", "f.yaml:1:8", "is inside the value it repeats"},
      {"a: &a {b: {c: *a}}\n", "f.yaml:1:15", "is inside the value it repeats"},
      {"a: *b\n", "f.yaml:1:4", ""},
      {"a: !!str 5\n", "f.yaml:1:", "tag tag:yaml.org,2002:str"},
      {"a: !thing {b: 1}\n", "f.yaml:1:", "tag"},
      {"a:\n  <<: 5\n", "f.yaml:2:7", "the value of the merge key << is no map"},
      {"b: &b {x: 1}\na:\n  <<: [*b, 5]\n", "f.yaml:3:12", "the value of the merge key << is no map"},
      {"b: &b {x: 1}\na:\n  <<: *b\n  <<: *b\n", "f.yaml:4:3", "key \"<<\" again"},
      {"[a, b]: 1\n", "f.yaml:1:1", "key is no word"},
      {"? \n: 1\n", "f.yaml:", "key is no word"},
      {"a: 1\n---\nb: 2\n", "f.yaml:2:1", "follows the document"},
      {"{a: 1} b\n", "f.yaml:1:", "follows the document"},
      {"a: [1, 2\n", "f.yaml:1:4", "this [ is never closed, expected ]"},
      {"a: 1\nmodel: {mlp: {hidden: 5}\ndata: glyphs\n", "f.yaml:2:8", "this { is never closed, expected }"},
      {"a: {b: [1, {c: 2], d: 1}}\n", "f.yaml:1:17", "] where } is expected"},
      {"a: {b: 'it''s }', c: \"}\\\"\", d: 1 # }\n", "f.yaml:1:4", "this { is never closed"},
      {"a:\n  b: 1\n\tc: 2\n", "f.yaml:3:1", "a tab in the indentation, expected spaces"},
      {"a: 'x", "f.yaml:1:4", "this ' is never closed"},
      {"\"a\\nb\": 1\n\"a\\nb\": 2\n", "f.yaml:2:1", "key \"a\\nb\" again"},
      {"\"a\\0b\": 1\n\"a\\0b\": 2\n", "f.yaml:2:1", "key \"a\\x00b\" again"},
      {"b: 1\na: \"x\nc: 1\n", "f.yaml:2:4", "this \" is never closed"},
      {"# gr\xc3\xb6\xc3\x9f"
       "e\nb: it's 'x\na: &a 'x\nc: 1\n",
       "f.yaml:3:7", "this ' is never closed"},
      {"\xef\xbb\xbf"
       "a: 'x\nc: 1\n",
       "f.yaml:1:4", "this ' is never closed"},
      {"a: 'x\r\nc: 1\r\n", "f.yaml:1:4", "this ' is never closed"},
      {"a: 'x\n...\n", "f.yaml:1:4", "this ' is never closed"},
      {"a: \"x\\", "f.yaml:1:4", "this \" is never closed"},
      {"a: |\n  b\n'c: 1\n", "f.yaml:3:1", "this ' is never closed"},
      {"\xc3\xb6\xe4\xb8\xad\xf0\x9f\x98\x80: {b: [1}\n", "f.yaml:1:12", "} where ] is expected"},
      {"\xc3\xb6: {\xc3\xb6: 1, \xc3\xb6: 2}\n", "f.yaml:1:11", "first at f.yaml:1:5"},
      {"a: \xc3\xb6\nb: '\xc3\xb6': 3\n", "f.yaml:2:7", "illegal map value, expected"},
      {"a: 1\rb: 2\rb: 3\r", "f.yaml:3:1", "first at f.yaml:2:1"},
      {"\xff\xfe\xe9\x80", "f.yaml:1:1", "UTF-16 text, expected UTF-8"},
      {"\xff\xfe"
       "a\0:",
       "f.yaml:1:1", "UTF-16 text, expected UTF-8"},
      {{"\xff\xfe\0\0a\0\0\0", 8}, "f.yaml:1:1", "UTF-32 text, expected UTF-8"},
      {{"\0\0\xfe\xff\0\0\0a", 8}, "f.yaml:1:1", "UTF-32 text, expected UTF-8"},
      {{"a\0\0\0:\0\0\0", 8}, "f.yaml:1:1", "UTF-32 text, expected UTF-8"},
      {{"\0\0\0a\0\0\0:", 8}, "f.yaml:1:1", "UTF-32 text, expected UTF-8"},
      {{"a\0:\0", 4}, "f.yaml:1:1", "UTF-16 text, expected UTF-8"},
      {"%FOO bar\n---\na: 1\n", "f.yaml:1:1", "this line begins with %, expected"},
      {"# c\n\n%FOO bar\na: 1\n", "f.yaml:3:1", "this line begins with %, expected"},
      {"a: {b: 1,,}\n", "f.yaml:1:", ", expected"},
      {"a: }\n", "f.yaml:1:4", "illegal flow end, expected"},
      {"a: - 3\n", "f.yaml:1:4", "illegal block entry, expected"},
      {"a: @3\n", "f.yaml:1:4", "unknown token, expected quotes"},
      {"a: \"\\xZZ\"\n", "f.yaml:1:", "hex number, expected"},
      {"a:\tb: 1\n", "f.yaml:1:", ""},
  };
  for (const Row& row : rows) {
    const std::string error = parse_error(row.text);
    EXPECT_EQ(error.rfind(row.place, 0), 0u) << row.text << " -> " << error;
    EXPECT_THAT(error, HasSubstr(row.what)) << row.text << " -> " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(Yaml, AcceptsAnyTextOfUtf8) {
  const struct {
    const char *text, *shape;
  } kCases[] = {
      {"# first\n---\na: 1\n...\n", "{a:'1',}"},
      {"a: 'x' # \"", "{a:s'x',}"},
      {"a: |\n  'x", "{a:s''x',}"},
      {"a: it's", "{a:'it's',}"},
      {"# gr\xc3\xb6\xc3\x9f"
       "e des Netzes\na: [{match: '*', b: \"\"}]\n",
       "{a:[{match:s'*',b:s'',},],}"},
      {"a: \xd0\xbd\xd0\xb0\xd0\xb1\xd0\xbe\xd1\x80\nb: '\xe4\xb8\xad'\nc: ''\n",
       "{a:'\xd0\xbd\xd0\xb0\xd0\xb1\xd0\xbe\xd1\x80',b:s'\xe4\xb8\xad',c:s'',}"},
      {"\xef\xbb\xbf"
       "a: 'x'\n",
       "{a:s'x',}"},
      {"a: 'x'\r\nb: \"y\r\n  z\"\r\n", "{a:s'x',b:s'y z',}"},
      {"a: 'x'\rb:\r  - 1\r", "{a:s'x',b:['1',],}"},
      {"%YAML 1.2\n---\na: 1\n", "{a:'1',}"},
      {"a: \"\xff'\"\n", "{a:s'\xff'',}"},  // no UTF-8, such as an old file's name
  };
  for (const auto& c : kCases) EXPECT_EQ(shape_of(parse_yaml(c.text, "f.yaml")), c.shape) << c.text;
}

TEST(Yaml, BoundsSizeDepthNodesAndText) {
  const auto nested = [](std::size_t lists) {
    return "a: " + std::string(lists, '[') + std::string(lists, ']') + "\n";
  };
  EXPECT_NO_THROW(parse_yaml(nested(63), "f.yaml"));
  EXPECT_THAT(parse_error(nested(64)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(parse_error("a: " + std::string(1 << 20, 'x')), HasSubstr("more than 1048576 bytes"));

  std::string wide = "a: [0";
  for (int i = 0; i < 100'000; ++i) wide += ",1";
  EXPECT_THAT(parse_error(wide + "]"), HasSubstr("more than 100000 values"));

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 14; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 9; ++j) bomb += fmt::format("{}*a{}", j ? ", " : "", i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(parse_error(bomb), HasSubstr("more than 100000 values"));

  std::string text_bomb = "a: &a " + std::string(500'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 100; ++i) text_bomb += ", *a";
  EXPECT_THAT(parse_error(text_bomb + "]"), HasSubstr("bytes of text"));

  std::string deep = "a0: &a0 [x]\n";  // every line is shallow, the last alias is not
  for (int i = 1; i < 70; ++i) deep += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  EXPECT_THAT(parse_error(deep), HasSubstr("more than 64 levels"));
}

// A short text that is no YAML is repaired in trials; a long one is not.
TEST(Yaml, HostileTextEndsQuickly) {
  for (const char* unit : {"[",    "{",       "- ",          "? ",         "a: ",      "\"",   "'",     "&a ",
                           "!a ",  "{a: ",    "[a, ",        ",",          "\n",       " ",    "\t",    "#",
                           "|\n",  "---\n",   "%YAML 1.2\n", "- *a\n",     "\xff",     "a\n",  "a:\n ", "]",
                           "*a: ", "a",       "'a', ",       "a: 1\n",     "- a\n",    "'a\n", "-\n",   "#\n",
                           "[]",   "a: &a\n", "a: {b}\n",    "a: |\n b\n", "\"a\":\n", "[~,"})
    for (const auto& [start, size] :
         {std::pair("", 512 << 10), {"a: ", 512 << 10}, {"a: [", 32 << 10}, {"a: 1\n", 32 << 10}}) {
      std::string text = start;
      while (text.size() + 16 <= static_cast<std::size_t>(size)) text += unit;
      const auto begin = std::chrono::steady_clock::now();
      parse_error(text);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << start << unit;
    }
}

TEST(Yaml, LoadNamesTheFile) {
  const std::string file = testing::TempDir() + "nixie_yaml_test.yaml";
  std::ofstream(file) << "a: 1\n";
  EXPECT_EQ(shape_of(load_yaml(file)), "{a:'1',}");
  EXPECT_FAULT(usage, "/no/such.yaml", load_yaml("/no/such.yaml"));
  EXPECT_FAULT(usage, "/tmp is a folder", load_yaml("/tmp"));
  EXPECT_FAULT(usage, "more than 1048576 bytes", load_yaml("/dev/zero"));
  fs::remove(file);
}

TEST(YamlOverride, SetsCreatesAndReplaces) {
  struct Row {
    const char *before, *assignment, *after;
  };
  const Row rows[] = {
      {"a: {b: 1}", "a.b=2", "{a:{b:'2',},}"},
      {"a: {b: 1}", "a.c.d=2", "{a:{b:'1',c:{d:'2',},},}"},
      {"a: {b: 1}", "a={c: [1, x]}", "{a:{c:['1','x',],},}"},
      {"a: 1", "b=\"5\"", "{a:'1',b:s'5',}"},
      {"a: 1", "b=x=y", "{a:'1',b:'x=y',}"},
      {"a: 1", "a=", "{a:~,}"},
      {"a:", "a.b=1", "{a:{b:'1',},}"},
      {"a: [{x: 1}, {x: 2}]", "a.1.x=3", "{a:[{x:'1',},{x:'3',},],}"},
      {"model: lenet", "model.lenet.classes=5", "{model:{lenet:{classes:'5',},},}"},
      {"model: lenet", "model.mlp.classes=5", "{model:{mlp:{classes:'5',},},}"},
      {"model: {lenet: {classes: 3}}", "model.mlp.hidden=5", "{model:{mlp:{hidden:'5',},},}"},
      {"model: {lenet: {classes: 3}}", "model.lenet.pad=5", "{model:{lenet:{classes:'3',pad:'5',},},}"},
      {"a: 1", "model.mlp.hidden=5", "{a:'1',model:{mlp:{hidden:'5',},},}"},
  };
  for (const Row& row : rows) {
    Tree tree = parse_yaml(row.before, "f.yaml");
    override_yaml(tree, row.assignment, {"model"});
    EXPECT_EQ(shape_of(tree), row.after) << row.before << " --set " << row.assignment;
  }
}

TEST(YamlOverride, ErrorsNameTheFlag) {
  for (const char* assignment : {"a", "=1", "a..b=1", ".a=1", "a.=1", "a=[1", "a={b: 1, b: 2}", "n.b=1", "l.2=1",
                                 "l.x=1", "a=1\n---\nb: 2", "a=*x", "a='\xc3\xb6", "a=[\xc3\xb6, 'x]"}) {
    Tree tree = parse_yaml("n: 5\nl: [1, 2]\n", "f.yaml");
    const std::string before = shape_of(tree);
    const std::string error = error_of([&] { override_yaml(tree, assignment); });
    const std::string text = std::string(assignment).starts_with("a=1\n") ? "a=1\\n---\\nb: 2" : assignment;
    EXPECT_TRUE(error.starts_with("--set " + text + ": ")) << error;
    EXPECT_EQ(shape_of(tree), before) << assignment;
  }
  Tree tree = parse_yaml("n: 5\n", "f.yaml");
  override_yaml(tree, "n=x");
  EXPECT_EQ(to_string(tree.find("n")->place), "--set n=x");
}

TEST(YamlPrint, ReadsAsABlock) {
  const Tree tree = parse_yaml(
      "model: [conv2d: {out: 64, kernel: [3, 5]}, relu, []]\ndata: {}\nname: \"a b\"\nrate: 5e-4\nnone:\n", "f");
  EXPECT_EQ(print_yaml(tree),
            "model:\n  - conv2d:\n      out: 64\n      kernel:\n        - 3\n        - 5\n  - relu\n  - []\n"
            "data: {}\nname: \"a b\"\nrate: 5e-4\nnone:\n");
}

TEST(YamlPrint, ReadsInALine) {
  const std::string text =
      "{model: [{conv2d: {out: 64, kernel: [3, 5]}}, relu, []], data: {}, name: \"a b\", rate: 5e-4, none: null}";
  EXPECT_EQ(print_flow(parse_yaml(text, "f")), text);
}

TEST(YamlPrint, TextOfAFieldParsesBack) {
  for (const std::string text : {"plain", "", "a \"b\" c", "C:\\new\\", "line\none\ttab", "bell\x07 \x7f", "null",
                                 "{a: 1}", "gr\xc3\xbc\xc3\x9f"})
    EXPECT_EQ(parse_yaml("key: " + field_text(text), "t").find("key")->text, text);
}

TEST(YamlPrint, ParsesBackToTheSameTree) {
  const char* texts[] = {"{}",
                         "a: {}",
                         "a: [[1, [2]], [[{b: c}]]]",
                         "a:\n  - - x\n    - y: 1\n      z: [q]\n",
                         "a: \"\\n\\t\\\"\\\\\\x01 \\u00e9\"",
                         "\"k: #\": 'it''s'",
                         "a: '010'",
                         "a: \"null\"",
                         "\"null\": 1",
                         "\"-\": \"-\"",
                         "a: |\n  two\n  lines\n",
                         "a: \"- x\"",
                         "a: [~, '~', null]",
                         "a: \"...\""};
  for (const char* text : texts) {
    const Tree tree = parse_yaml(text, "f");
    const std::string printed = print_yaml(tree);
    EXPECT_EQ(shape_of(parse_yaml(printed, "f")), shape_of(tree)) << text << "\n" << printed;
    EXPECT_EQ(print_yaml(parse_yaml(printed, "f")), printed);
  }
}

/// A node of yaml-cpp's own loader in the form of shape_of, as an independent reading.
std::string shape_of(const YAML::Node& node) {
  if (node.IsNull()) return "~";
  if (node.IsScalar()) return (node.Tag() == "!" ? "s'" : "'") + node.Scalar() + "'";
  std::string out = node.IsSequence() ? "[" : "{";
  if (node.IsSequence())
    for (const auto& item : node) out += shape_of(item) + ",";
  else
    for (const auto& entry : node) out += entry.first.Scalar() + ":" + shape_of(entry.second) + ",";
  return out + (node.IsSequence() ? "]" : "}");
}

TEST(Yaml, MutatedTextIsRefusedOrReadAsYamlCppReadsIt) {
  const std::string seed =
      "backend: cuda\nmodel: {alexnet: {classes: 1000}}\noptimizer:\n  sgd: &o {momentum: 0.9, weight_decay: 5e-4}\n"
      "list:\n  - conv2d: {out: 64, kernel: [3, 5]}\n  - relu\n  - 'it''s'\n  - \"x\\n\"\nother: *o\ntext: |\n  a\n  "
      "b\n";
  const std::string alphabet = "\n\n  ::--{}[],&*!|>'\"%@`#?~ao0.\t\\x";
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 6'000; ++round) {
    std::string text = seed;
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0)
        text[at] = c;
      else if (random() % 2)
        text.insert(at, 1, c);
      else
        text.erase(at, 1 + random() % 3);
    }
    Tree tree;
    try {
      tree = parse_yaml(text, "f");
    } catch (const Error&) {
      continue;
    }
    ++accepted;
    const bool holds_anchors = text[0] == '.' || text.find("\n.") != std::string::npos;
    if (!holds_anchors) {
      ASSERT_EQ(shape_of(tree), shape_of(YAML::Load(text))) << text;
    }
    const std::string printed = print_yaml(tree);
    Tree again;
    ASSERT_NO_THROW(again = parse_yaml(printed, "f")) << text << "\n-----\n" << printed;
    ASSERT_EQ(print_yaml(again), printed) << text;
  }
  EXPECT_GT(accepted, 300);
}

}  // namespace
}  // namespace nixie
