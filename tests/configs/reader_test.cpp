// Reading option structs: scalars by form, ranges, nesting, choices, and every problem of a file in one error.
#include "nixie/configs/parse/reader.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

struct Inner {
  float momentum = 0.9f;
  double weight_decay = 0;
  static constexpr const char* name = "inner";
  static constexpr auto fields() {
    return field_list(field("momentum", &Inner::momentum, "share of the last step kept", {0, 1}),
                      field("weight_decay", &Inner::weight_decay, "pull towards zero", {0}));
  }
};

struct Color {  // a user's own type
  int red = 0;
};
void read_value(const Tree& tree, Color& color, Problems& problems) {
  if (tree.is_scalar() && tree.text == "red")
    color.red = 255;
  else
    problems.add_unexpected(tree, "a color");
}

struct Everything {
  int count = 1;
  std::int64_t large = 2;
  std::uint64_t seed = 3;
  float rate = 0.1f;
  double exact = 0.2;
  bool on = false;
  std::string word = "w";
  PerAxis kernel = 3;
  std::vector<float> scales{1};
  std::vector<std::string> names;
  std::optional<int> limit;
  Inner inner;
  std::vector<Inner> several;
  Color color;
  static constexpr const char* name = "everything";
  static constexpr auto fields() {
    using E = Everything;
    return field_list(field("count", &E::count, "", {1, 100}), field("large", &E::large, ""),
                      field("seed", &E::seed, ""), field("rate", &E::rate, ""), field("exact", &E::exact, ""),
                      field("on", &E::on, ""), field("word", &E::word, ""), field("kernel", &E::kernel, "", {1}),
                      field("scales", &E::scales, "", {0, 2}), field("names", &E::names, ""),
                      field("limit", &E::limit, "", {0, 9}), field("inner", &E::inner, ""),
                      field("several", &E::several, ""), field("color", &E::color, ""));
  }
};

struct Other {
  int depth = 2;
  static constexpr const char* name = "other";
  static constexpr auto fields() { return field_list(field("depth", &Other::depth, "", {1, 5})); }
};
struct Ready {  // read by an overload of its own, not by a field list
  static constexpr const char* name = "ready";
  int items = 0;
};
void read_value(const Tree& tree, Ready& ready, Problems&) { ready.items = static_cast<int>(tree.items.size()); }

using All = Types<Inner, Other, Ready>;

template <class T>
std::string problems_of(const std::string& text, T& value) {
  Problems problems;
  const Tree tree = parse_yaml(text, "f.yaml");
  read(tree, value, problems);
  return problems.text();
}

TEST(Reader, ReadsEveryKindOfField) {
  Everything e;
  EXPECT_EQ(problems_of("count: 7\nlarge: -9000000000\nseed: 18446744073709551615\nrate: 5e-4\nexact: .25\non: true\n"
                        "word: yes\nkernel: [3, 5]\nscales: [0, 1.5, 2]\nnames: [a, \"b c\", 5]\nlimit: 4\n"
                        "inner: {momentum: 1}\nseveral: [{weight_decay: 1e-3}, {}]\ncolor: red\n",
                        e),
            "");
  EXPECT_EQ(e.count, 7);
  EXPECT_EQ(e.large, -9'000'000'000);
  EXPECT_EQ(e.seed, 18446744073709551615ull);
  EXPECT_EQ(e.rate, 5e-4f);
  EXPECT_EQ(e.exact, 0.25);
  EXPECT_TRUE(e.on);
  EXPECT_EQ(e.word, "yes");
  EXPECT_EQ(e.kernel, (PerAxis{3, 5}));
  EXPECT_EQ(e.scales, (std::vector<float>{0, 1.5f, 2}));
  EXPECT_EQ(e.names, (std::vector<std::string>{"a", "b c", "5"}));
  EXPECT_EQ(e.limit, 4);
  EXPECT_EQ(e.inner.momentum, 1);
  ASSERT_EQ(e.several.size(), 2u);
  EXPECT_EQ(e.several[0].weight_decay, 1e-3);
  EXPECT_EQ(e.color.red, 255);
}

// As JSON has it.
TEST(Reader, AWordMayBeQuoted) {
  for (const char* text : {"kernel: same", "kernel: \"same\"", "{\"kernel\": \"same\"}"}) {
    Everything e;
    EXPECT_EQ(problems_of(text, e), "");
    EXPECT_EQ(e.kernel, PerAxis::same()) << text;
  }
}

TEST(Reader, LeavesDefaultsOfAbsentFields) {
  Everything e;
  EXPECT_EQ(problems_of("inner:\nlimit:\n", e), "");
  EXPECT_EQ(e.count, 1);
  EXPECT_EQ(e.kernel, PerAxis(3));
  EXPECT_EQ(e.inner.momentum, 0.9f);
  EXPECT_EQ(e.limit, std::nullopt);
}

TEST(Reader, NamesEachBadValue) {
  struct Row {
    const char *text, *line;
  };
  const Row rows[] = {
      {"count: yes", "f.yaml:1:8: count is \"yes\", expected an integer"},
      {"count: 010", "f.yaml:1:8: count is \"010\", expected an integer"},
      {"count: 0x10", "f.yaml:1:8: count is \"0x10\", expected an integer"},
      {"count: 1_000", "f.yaml:1:8: count is \"1_000\", expected an integer"},
      {"count: 1e1", "f.yaml:1:8: count is \"1e1\", expected an integer"},
      {"count: 1.0", "f.yaml:1:8: count is \"1.0\", expected an integer"},
      {"count: \"5\"", "f.yaml:1:8: count is \"5\" (the quotes make it a string), expected an integer"},
      {"count: 3000000000", "f.yaml:1:8: count is \"3000000000\", expected an integer from -2147483648 to 2147483647"},
      {"count: 0", "f.yaml:1:8: count is 0, expected a number from 1 to 100"},
      {"count: +", "f.yaml:1:8: count is \"+\", expected an integer"},
      {"count: [1]", "f.yaml:1:8: count is a list, expected an integer"},
      {"\ncount:\n\nword: a\n", "f.yaml:2:1: count is empty, expected an integer"},
      {"count:  # none\n", "f.yaml:1:1: count is empty, expected an integer"},
      {"seed: -1", "f.yaml:1:7: seed is \"-1\", expected an integer from 0 to 18446744073709551615"},
      {"rate: .nan", "f.yaml:1:7: rate is \".nan\", expected a finite number"},
      {"rate: -.inf", "f.yaml:1:7: rate is \"-.inf\", expected a finite number"},
      {"rate: nan", "f.yaml:1:7: rate is \"nan\", expected a finite number"},
      {"rate: 1e39", "f.yaml:1:7: rate is \"1e39\", expected a number up to 3.4028235e+38"},
      {"rate: 00.5", "f.yaml:1:7: rate is \"00.5\", expected a finite number"},
      {"rate: 5e", "f.yaml:1:7: rate is \"5e\", expected a finite number"},
      {"rate: .", "f.yaml:1:7: rate is \".\", expected a finite number"},
      {"rate: \"1\\n2\"", "f.yaml:1:7: rate is \"1\\n2\", expected a finite number"},
      {"rate: \"1\"", "f.yaml:1:7: rate is \"1\" (the quotes make it a string), expected a finite number"},
      {"on: \"true\"", "f.yaml:1:5: on is \"true\" (the quotes make it a string), expected true or false"},
      {"on: \"yes\"", "f.yaml:1:5: on is \"yes\", expected true or false"},
      {"kernel: \"large\"", "f.yaml:1:9: kernel is \"large\", expected an integer"},
      {"rate: 1 2", "f.yaml:1:7: rate is \"1 2\", expected a finite number"},
      {"exact: 1e400", "f.yaml:1:8: exact is \"1e400\", expected a number up to 1.7976931348623157e+308"},
      {"on: yes", "f.yaml:1:5: on is \"yes\", expected true or false"},
      {"on: True", "f.yaml:1:5: on is \"True\", expected true or false"},
      {"on: 1", "f.yaml:1:5: on is \"1\", expected true or false"},
      {"word: [a]", "f.yaml:1:7: word is a list, expected a word or \"text\""},
      {"word:", "f.yaml:1:1: word is empty, expected a word or \"text\""},
      {"kernel: []", "f.yaml:1:9: kernel is a list, expected an integer or a list of them"},
      {"kernel: [3, 0]", "f.yaml:1:13: kernel.1 is 0, expected a number from 1 up"},
      {"kernel: 0", "f.yaml:1:9: kernel is 0, expected a number from 1 up"},
      {"scales: 1", "f.yaml:1:9: scales is \"1\", expected a list, such as [1]"},
      {"scales:\n- 1\n-  # none\n\n- 2\n", "f.yaml:3:1: scales.1 is empty, expected a finite number"},
      {"scales:\n- 1\n-\nword: a\n", "f.yaml:3:1: scales.1 is empty, expected a finite number"},
      {"scales: [1,\n  ~]\n", "f.yaml:2:3: scales.1 is empty, expected a finite number"},
      {"scales: [1, 3]", "f.yaml:1:13: scales.1 is 3, expected a number from 0 to 2"},
      {"limit: 10", "f.yaml:1:8: limit is 10, expected a number from 0 to 9"},
      {"inner: 5", "f.yaml:1:8: inner is \"5\", expected a map of fields"},
      {"inner: {momentum: 2}", "f.yaml:1:19: inner.momentum is 2, expected a number from 0 to 1"},
      {"several: [{}, {momentum: x}]", "f.yaml:1:26: several.1.momentum is \"x\", expected a finite number"},
      {"color: blue", "f.yaml:1:8: color is \"blue\", expected a color"},
      {"inner: {momentun: 1}",
       "f.yaml:1:9: unknown key \"momentun\" in inner, expected one of momentum, weight_decay; did you mean "
       "\"momentum\"?"},
      {"inner: {zzz: 1}", "f.yaml:1:9: unknown key \"zzz\" in inner, expected one of momentum, weight_decay"},
  };
  for (const Row& row : rows) {
    Everything e;
    EXPECT_EQ(problems_of(row.text, e), row.line) << row.text;
  }
}

TEST(Reader, ReportsAllProblemsInTheFilesOrder) {
  Everything e;
  Problems problems;
  Tree tree = parse_yaml("rates: 1\ncount: x\ninner:\n  momentum: 3\n  weight_decay: -1\n", "f.yaml");
  override_yaml(tree, "on=maybe");
  read(tree, e, problems);
  ASSERT_EQ(problems.size(), 5u);
  const std::string text = problems.text();
  EXPECT_EQ(text.rfind("--set on=maybe: on is \"maybe\", expected true or false\nf.yaml:1:1: unknown key \"rates\"", 0),
            0u)
      << text;
  EXPECT_THAT(text, HasSubstr("\nf.yaml:2:8: "));
  EXPECT_LT(text.find("f.yaml:4:13"), text.find("f.yaml:5:17")) << text;
  try {
    problems.raise();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), text);
    EXPECT_EQ(error.exit_code(), 2);
  }
  EXPECT_NO_THROW(Problems().raise());
}

std::string chosen(const std::string& value) {
  Problems problems;
  const Tree tree = parse_yaml("optimizer: " + value, "f.yaml");
  std::string result;
  Scope scope("optimizer");
  const bool is_read = read_choice<All>(*tree.find("optimizer"), problems, [&](auto options) {
    using T = decltype(options);
    result = T::name;
    if constexpr (std::is_same_v<T, Other>) result += fmt::format(" {}", options.depth);
    if constexpr (std::is_same_v<T, Ready>) result += fmt::format(" {}", options.items);
  });
  EXPECT_EQ(is_read, problems.empty());
  return is_read ? result : problems.text();
}

TEST(ReaderChoice, TakesANameOrItsFields) {
  EXPECT_EQ(chosen("inner"), "inner");
  EXPECT_EQ(chosen("other"), "other 2");
  EXPECT_EQ(chosen("{other: }"), "other 2");
  EXPECT_EQ(chosen("{other: {depth: 5}}"), "other 5");
  EXPECT_EQ(chosen("{ready: [a, b, c]}"), "ready 3");
}

TEST(ReaderChoice, NamesWhatIsWrong) {
  EXPECT_EQ(
      chosen("othr"),
      "f.yaml:1:12: unknown name \"othr\" in optimizer, expected one of inner, other, ready; did you mean \"other\"?");
  EXPECT_THAT(chosen("{\n  othr: {}}"), StartsWith("f.yaml:2:3: unknown name \"othr\""));
  EXPECT_EQ(chosen("{other: {depth: 6}}"), "f.yaml:1:28: optimizer.other.depth is 6, expected a number from 1 to 5");
  EXPECT_EQ(chosen("{inner: {}, other: {}}"),
            "f.yaml:1:24: optimizer names inner and other, expected one {name: {fields}}");
  EXPECT_EQ(chosen("{}"), "f.yaml:1:12: optimizer is a map, expected a name or {name: {fields}}");
  EXPECT_EQ(chosen("[inner]"), "f.yaml:1:12: optimizer is a list, expected a name or {name: {fields}}");
}

}  // namespace
}  // namespace nixie
