// The lines that messages about broken YAML name: single mistakes, each line of the shipped files, legal text.
#include "nixie/configs/parse/syntax/diagnosis.h"

#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/yaml.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_yaml(text, "f.yaml"); });
}

std::vector<std::string> shipped_texts() {
  std::vector<std::string> texts;
  for (const char* folder : {"configs", "configs/recipes"})
    for (const auto& entry : fs::directory_iterator(fs::path(NIXIE_SOURCE_DIR) / folder))
      if (entry.path().extension() == ".yaml")
        texts.push_back((std::ostringstream() << std::ifstream(entry.path()).rdbuf()).str());
  return texts;
}

TEST(Diagnosis, NamesTheLineOfTheMistake) {
  struct Row {
    const char *text, *place, *what;
  };
  const Row rows[] = {
      // a missing colon
      {"g:\n  - match: \"*bias\"\n    rate 2\n    decay: 0\n", "3:5", "no `: ` in this line"},
      {"g:\n- match: \"*bias\"\n  rate 2\n", "3:3", "no `: ` in this line"},
      {"g:\n  - match \"*bias\"\n    rate: 2\n", "2:5", "no `: ` in this line"},
      {"m:\n  - conv2d\n      out: 3\n", "2:5", "no `: ` in this line"},
      {"m:\n  - conv2d:\n      out 3\n      kernel: 3\n", "3:7", "no `: ` in this line"},
      {"m\n  - relu\n  - conv2d: 1\n", "1:1", "no `: ` in this line"},
      {"m:[\n  {a: 1}]\n", "1:3", "no `: ` in front of this ["},
      {"s: 1\ndata {glyphs: {train: 200,\n  test: 20}}\n", "2:6", "no `: ` in front of this {"},
      {"s: 1\ndata:{glyphs: {train: 200,\n  test: 20}}\n", "2:6", "no `: ` in front of this {"},
      {"s: 1\nm:\n  words\n  - a: 1\n", "3:3", "no `: ` in this line"},
      {"s: [1]\n  words\nt: 1\n", "2:3", "no `: ` in this line"},
      {"s: 1\nt", "2:1", "no `: ` in this line"},
      {"s: 1\n.t\n", "2:1", "no `: ` in this line"},
      {"s:\n  t: 1\n  u\n...\n", "3:3", "no `: ` in this line"},
      {"m: \n  {a: 1},\n  b]\n", "1:1", "no [ behind this key"},
      {"m: [\n  {a: {b: \n  c,\n  {d: 1}]}}\n]\n", "2:9", "no [ behind this colon"},
      {"m: [\n  {a: 1},\n  b: [c,\n  d]},\n e]\n", "3:3", "no { in front of this key"},
      {"m: [\n  {a: b: {c: 1,\n  d: 1}}},\n e]\n", "2:5", "another `: ` follows this one"},
      {"m: [\n  {a: \n  b: 1}},\n e]\n", "2:5", "another `: ` follows this one"},
      // marks in front of a key
      {"a: 1\n&b: 3\nc: 1\n", "2:1", "& in front of a key"},
      {"a: 1\n!b: 3\nc: 1\n", "2:1", "! in front of a key"},
      {"a: 1\n*b: 3\nc: 1\n", "2:1", "* in front of a key"},
      {"m:\n  - &b:\n      c: 1\n", "2:5", "& in front of a key"},
      {"m: [{&b: {c: 1}}]\n", "1:6", "an anchor that ends with a colon"},
      // a missing dash
      {"m:\n  - relu\n    dropout: 1\n", "3:5", "no `- ` in this line"},
      {"m:\n  - relu\n  words\n  - conv2d: 1\n", "3:3", "no `- ` in this line"},
      {"m:\n  conv2d: 1\n  - relu\n  - tanh\n", "2:3", "no `- ` in this line"},
      {"m:\n  - a: 1\n  b: 2\n  c: 3\n", "2:3", "`- ` in front of a line among pairs"},
      {"m:\n- a\n-b: 10\n- c\n", "3:1", "no blank behind this -"},
      {"m:\n- a\n-:\n    b: 10\n- c\n", "3:1", "no blank behind this -"},
      {"m:\n  -a: b\n    c: 1\n  - d: 2\n", "2:3", "no blank behind this -"},
      {"m:\n  a: b\n    c: 1\n  - d: 2\n", "2:3", "no `- ` in this line"},
      {"m:\n  - a:\n        b: 1\n      - c\n", "3:9", "no `- ` in this line"},
      // a value in several lines
      {"m:\n- a\n     - b\n- c\n", "3:6", "this line is indented by 5 and line 2 by 0"},
      {"m:\n- a\n     -\n  b: 1\n- c\n", "3:6", "this line is indented by 5 and line 2 by 0"},
      {"m:\n- a\n    - b: 1\n    - c\n", "2:3", "no `: ` in this line"},
      {"m:\n- a\n b: 1\n- c\n", "3:2", "no `- ` in this line"},
      {"m:\n  - a\n    b\n  - c\n", "3:5", "no `- ` in this line"},
      {"m:\n  - a\n\n    b c\n", "4:5", "no `- ` in this line"},
      {"m: &n 3\n  words\n", "2:3", "no `: ` in this line"},
      {"m: &n\n  3\n  words\n", "3:3", "no `: ` in this line"},
      {"m: ! 3\n  words\n", "2:3", "no `: ` in this line"},
      {"m:\n- 3\n    n: 1\n", "3:5", "indented by 4 and line 2 by 0"},
      {"m: 3\n  words\n", "2:3", "no `: ` in this line"},
      {"m:\n  words\n  of two lines\n", "3:3", "no `: ` in this line"},
      // a missing comma
      {"m: [a,\n  b\n  c: 1]\n", "2:3", "no `,` between"},
      {"m: [a\n  b, c]\n", "1:5", "no `,` between"},
      {"m: [a,\n  {b: 1},\n  words\n  {c: 1}]\n", "3:7", "no `,` between"},
      {"m: [a,\n  {b: 1}\n  words\n  , {c: 1}]\n", "3:3", "no `,` between"},
      {"m: [a,\n  {b: 1}\n  {c: 1}]\n", "2:8", "no `,` between"},
      {"m: {a: 0.9\n    b: 1}\n", "1:10", "no `,` between"},
      // mistakes of indentation
      {" m: [1]\ns: 2\n", "1:2", "indented by 1 and line 2 by 0"},
      {"m: 1\n s: 2\n", "2:2", "indented by 1 and line 1 by 0"},
      {"m:\n   a: 1\n  b: 2\n  c: 2\n", "2:4", "indented by 3 and line 3 by 2"},
      {"m:\n  a: 1\n  b: 2\n c: 2\n", "4:2", "indented by 1 and line 2 by 2"},
      {"m:\n - a: 1\n  - b\n  - c\n", "2:2", "indented by 1 and line 3 by 2"},
      {"m: {a: 1}  # b\n  s: 2\nt: 3\n", "2:3", "indented by 2 and line 1 by 0"},
      {"m:\n  - a: {b: 3}\n   c\n  - d\n", "3:4", "indented by 3 and line 2 by 4"},
      {"m:\n    {a: 1}\n  - b\n  - c\n", "2:5", "no `- ` in this line"},
      {"m:\n  - - a: 1\n    b: 2\n", "2:5", "`- ` in front of a line among pairs"},
      {"m:\n- a: 1\n  - b\n  - c\n", "2:1", "indented by 0 and line 3 by 2"},
      {"m:\n  a:\n  b: 1\n    c: 1\n", "3:3", "indented by 2 and line 4 by 4"},
      // lists as deep as their key
      {"l:\n- a\nm:\n  - b: 1\n- c\n", "4:3", "indented by 2 and line 5 by 0"},
      {"l:\n- a\nm:\n  words\n- c\n", "4:3", "no `- ` in this line"},
      {"l:\n- a\nm:\n  b: 1\n  c: 1\n- d: 1\n", "4:3", "no `- ` in this line"},
      {"l:\n- a\nm:\nb: \"1\"\n  c: 1\n- d: 1\n", "4:1", "no `- ` in this line"},
      {"l:\n- a\nb: {c: 1}\n- d\n", "3:1", "no `- ` in this line"},
      {"l:\n- a\nm:\n  o: 1\n- n:\n- b\no: 1\n", "5:1", "`- ` in front of a line among pairs"},
      {"l:\n- a\n- m\n  - b\n  - c\n", "3:3", "no `: ` in this line"},
      {"a: 1\n  l:\n- b\n", "2:3", "indented by 2 and line 1 by 0"},
      // below a key
      {"a:\n  b: 1\n  l:\n- c\n- d\n", "3:3", "indented by 2 and line 4 by 0"},
      {"k:\n  - a: 1\nl:\n    - a: 1\n  - b\n", "4:5", "indented by 4 and line 5 by 2"},
      {"j:\n  - a: 1\nk:\n  - a: 1\nl:\n   - a: 1\n    b: 1\n", "6:4", "indented by 3 and line 7 by 4"},
      {"k:\n  a: 1\nl:\n    - a: 1\n      b: 1\nm:\n  a: 1\n    b: 1\n", "8:5", "indented by 4 and line 7 by 2"},
      {"m:\n  - - a: 1\n    b: 2\n    c: 2\n", "2:5", "`- ` in front of a line among pairs"},
      // quotes and brackets
      {"g:\n- \"a: \"b*\"\n  c: 1\n- d\n", "2:3", "more follows the text in \""},
      {"g:\n- a:'b*' # c\n  d: 1\n", "2:3", "no `: ` in this line"},
      {"m: {a: {#b: 1}\nc: 1\nd: 2\n", "1:8", "this { is never closed"},
      {"a: 'x\nb: 'y'\n", "1:4", "this ' is never closed"},
      {"m: [a,\n  {b: {c: 1},\n  d\n]\n", "2:3", "this { is never closed, expected }"},
      {"m: [a,\n  b]],\n  {c: 1}\n]\n", "2:5", ""},
      {"m: [a,\n  {b: 1}},\n  c\n]\nd: 1\n", "2:9", "} where ] is expected"},
      {"m: {a: b,\n  c]: 1}\nd: 1\n", "2:4", "] where } is expected"},
      {"m: {a: {b: 1,\n  c}: 1}}\nd: 1\n", "2:4", "} in front of a colon"},
      {"m: [a,\n  {b: 1}[]\nd: 1\n", "2:9", "this [ is never closed"},
      {"m: [\n  a,\n  [b,\n  c\n]\nd: 1\n", "3:3", "this [ is never closed"},
      {"m:\n- {a\n- b: {c: 1}\n- d\n", "2:3", "this { is never closed"},
      {"m: {a: 1\nb:\n  c: 1\n", "1:4", "this { is never closed"},
      {"m: []\n  {a: 1},\n]\n", "1:5", "the brackets end before a line that goes on with them, expected no ] here"},
      {"m: [\n  a]\n  {c: 1}\n", "2:4", "the brackets end before a line that goes on with them, expected no ] here"},
      {"m: {a: [1, 2]], b: 3}\n", "1:14", "] where } is expected"},
      {"m: {a: [1,\n  2]],\n  b: 3}\nc: 1\n", "2:5", "] where } is expected"},
      {"m: {a: {b: 1}},\n  c: 3}\nd: 1\n", "1:14", "the brackets end before a line"},
      {"m: [\n  a,]\n  b,\n  c\n]\nd: 1\n", "2:5", "the brackets end before a line"},
      {"m:\n  a: {\n    b: 1}}\n  }\nd: 1\n", "3:10", "illegal flow end"},
      {"m: {\n  a: {\n    b: 1}\n  }\n}\nd: 1\n", "3:9", "the brackets end before a line"},
      {"m: [{a: [\n  b],\n  c]}]\nd: 1\n", "2:4", "one ] too many"},
      {"m:\n  a: {\n    b: 1\n  }\n}\nd: 1\n", "1:1", "no { behind this key, but a } below"},
      {"m:\n  a: 1,\n  b: {c: 1},\n  d: 2\n}\n", "1:1", "no { behind this key, but a } below"},
      {"m:\n  - a: {\n      b: {c: 1,\n      d: 2\n    }\n  - e\n", "3:10", "this { is never closed"},
      {"m: {a: {b: 1}\n  *}\nd: 1\n", "2:3", "no `,` between"},
      {"m: {a: {b: 1}\n  :}\nd: 1\n", "2:3", "no key in front of this colon"},
      {"s: 1\nm: x {a: {b: 1}}\n", "2:6", "there is more between the colon and this {"},
      {"s: 1\nm: x {\n  a: {b: 1}}\n", "2:6", "there is more between the colon and this {"},
      {"s: 1\nm={a: {b: 1,\n  c: 1}}\n", "2:3", "no `: ` in front of this {"},
      // a text behind | or >
      {"m|\n  a\nb: 1\n", "1:2", "no `: ` in front of this |"},
      {"m:\n  - a:>-\n      b\n    c: 1\n", "2:7", "no `: ` in front of this >"},
      {"m:\n  - a |\n      b\n    c: 1\n", "2:7", "no `: ` in front of this |"},
      {"m: x |\n  a\nb: 1\n", "1:6", "there is more between the colon and this |"},
      {"l:\n  a: 1\nm: |\n    b\n  c\nd: 1\n", "4:5", "indented by 4 and line 5 by 2"},
      {"l:\n  - a: 1\nm:\n    - a: |\n    b\n  - c: 1\n", "5:5", "a text behind | or >"},
      {"m:\n  a: |\n      b\n    c: 1\n  - d: |\n    e\n", "2:3", "no `- ` in this line"},
      {"m:\n  - a\n\t- b: 1\n", "3:1", "a tab in the indentation"},
      // marks of a document
      {"a: 1\n--- b\n", "2:1", "something follows the document"},
      {"a: 1\n--- b\nc: 1\n", "2:1", "something follows the document"},
      {"a: 1\n---\nb: 1\n", "2:1", "something follows the document"},
      {"a: 1\n... b\nc: 1\n", "2:1", "something follows the document"},
      {"a: 1\n...\n# c\n\nb: 1\n", "2:1", "something follows the document"},
      {"# c\n...\na: 1\n", "2:1", "something follows the document"},
      {"--- a\nb: 1\n", "1:5", "no `: ` in this line"},
      // % is no comment
      {"a: 1\n%", "2:1", "this line begins with %"},
      {"a: 1\n% b\n% c\n", "2:1", "this line begins with %"},
      {"a: 1\n...\n# b\n%YAML 1.2\n", "4:1", "this line begins with %"},
      {"a: 1\n...\n%YAML 1.2\n---\nb: 1\n", "3:1", "this line begins with %"},
      {"---\n% b\na: 1\n", "2:1", "this line begins with %"},
      {"a: 1\n% b\nc: 1\n", "2:1", "this line begins with %"},
      {"a: '\n% b'\n% c\n", "3:1", "this line begins with %"},
      {"a: [b,\n% c\n]\n", "2:1", "this line begins with %"},
      {"a:\n  - b\n%YAML 1.2\n  - c\n", "3:1", "this line begins with %"},
  };
  for (const Row& row : rows) {
    const std::string error = parse_error(row.text);
    EXPECT_TRUE(error.starts_with(std::string("f.yaml:") + row.place + ": ")) << row.text << " -> " << error;
    EXPECT_THAT(error, HasSubstr(row.what)) << row.text << " -> " << error;
  }
}

TEST(Diagnosis, NamesEachLineOfTheShippedFiles) {
  const struct {
    const char* what;
    std::function<std::string(std::string)> mutated;  // an empty one: the line cannot be mistaken so
  } kMistakes[] = {
      {"no colon behind the key",
       [](std::string line) {
         const std::size_t colon = line.find(':');
         const bool is_pair = colon != std::string::npos && line.find_first_of("#{[") > colon;
         return is_pair ? line.erase(colon, 1) : "";
       }},
      {"no blank behind the colon",
       [](std::string line) { return line.find(": ") < line.size() ? line.erase(line.find(": ") + 1, 1) : ""; }},
      {"a bracket too many", [](const std::string& line) { return line.ends_with('}') ? line + "}" : ""; }},
      {"a tab", [](const std::string& line) { return "\t" + line; }},
      {"a line that begins with %", [](const std::string& line) { return "% words\n" + line; }},
      {"an open quote", [](const std::string& line) { return line.ends_with('}') ? line + "\n\"words: 1" : ""; }},
  };
  for (const std::string& text : shipped_texts())
    for (const auto& mistake : kMistakes) {
      std::istringstream lines(text);
      std::string before, line;
      for (int number = 1; std::getline(lines, line); before += line + "\n", ++number) {
        const std::string mutated = line.empty() || line.starts_with('#') ? "" : mistake.mutated(line);
        if (mutated.empty()) continue;
        const std::size_t behind = std::min(before.size() + line.size() + 1, text.size());
        const std::string whole = before + mutated + "\n" + text.substr(behind);
        const std::string error = error_of([&] { parse_config(whole, "f.yaml"); });
        const int added = mutated.find("\n\"") != std::string::npos ? 1 : 0;
        EXPECT_TRUE(error.starts_with("f.yaml:" + std::to_string(number + added) + ":"))
            << mistake.what << ": " << mutated << " -> " << error;
      }
    }
}

TEST(Diagnosis, FindsNothingInLegalText) {
  std::vector<std::string> texts = shipped_texts();
  for (const char* text : {"a: 1",
                           "# a\n\n---\na: 1\n...\n# b\n",
                           "%YAML 1.2\n---\na: 1\n",
                           "a:\n- b\n- c: 1\n  d: 2\ne: 3\n",
                           "a:\n  - - b\n    - c\n  - d:\n    - e\n    f: 1\n  -\n    g: 1\n",
                           "a:\n  words # of one line\nb: 1\n",
                           "a: |\n  b: [\n\n   'c\n  \t% d\ne: >-\n  {\nf: 1\n",
                           "a: \"b\n  c: [\n\n% d\"\ne: 'f\n  g'\n",
                           "\"a: b\": 1\n'c': {\"d\": 1, 'e':2}\n",
                           "a: [b c,\n  d, 'e', {f: g\n}, h: i]\n",
                           "a: {\nb: [\nc, d],\ne: 1\n}\nf: 2\n",
                           "a: &b {c: 1}\nd: {<<: *b, e: [*b, &f 'g']}\n",
                           "a: it's\nb: [it's, 'x, ]']\nc: x'\n",
                           "a: [b, # c ]\n  d]  # e\nf: {g: , h, }\n",
                           "a:\n\t\n  # b\n\n  c: 1\n # d\n  e: 1\n",
                           "a: b{c}[d]\ne: f#g:h\n",
                           "a:\n  b:\n    c: 1\n  d:\ne:\n",
                           "a:\n- b: >\n    c\n\n     d\n  e: |2\n      f\n    g\n- |\n h\ni: |\nj: &k l\n",
                           "- a\n- b: 1\n  c: 2\n- [d]\n",
                           "{a: 1,\n b: 2}\n",
                           "'words'\n"})
    texts.push_back(text);
  for (const std::string& text : texts) {
    if (text.starts_with('-') || text.starts_with('\''))
      EXPECT_THAT(parse_error(text), HasSubstr("the document is no map")) << text;
    else
      EXPECT_NO_THROW(parse_yaml(text, "f.yaml")) << text;
  }
}

}  // namespace
}  // namespace nixie
