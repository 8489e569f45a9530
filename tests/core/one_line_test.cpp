// Whatever a name holds, it is printed on one line and commands no terminal.
#include "nixie/core/base/one_line.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

using namespace std::string_literals;

TEST(OneLine, EscapesWhatATerminalObeys) {
  const struct {
    std::string text, expected;
  } kCases[] = {
      {"", ""},
      {"plain, \"quoted\" \\ and ~", "plain, \"quoted\" \\ and ~"},
      {"gr\xc3\xbc\xc3\x9f \xe6\x96\x87 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80", "grüß 文 👩‍🚀"},
      {"a\nb\tc\rd\x1b[31m\x7f\0e"s, "a\\nb\\tc\\x0dd\\x1b[31m\\x7f\\x00e"},
      {"\xc2\x80 \xc2\x9b\xc2\xa0", "\\u0080 \\u009b\xc2\xa0"},                         // Latin-1's controls
      {"\xe2\x80\xaegnp.exe\xe2\x81\xa9\xe2\x80\xa8", "\\u202egnp.exe\\u2069\\u2028"},  // directions, lines
      {"\x9b\xff\xc0\x8a\xe0\x80\x8a\xed\xa0\x80", "\\x9b\\xff\\xc0\\x8a\\xe0\\x80\\x8a\\xed\\xa0\\x80"},  // no UTF-8
      {"\xe2\x80", "\\xe2\\x80"},
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond Unicode
  };
  for (const auto& c : kCases) EXPECT_EQ(one_line(c.text), c.expected);
}

TEST(ShellWord, IsOneLineThatBashReadsBack) {
  const struct {
    std::string text, word;
  } kCases[] = {
      {"runs/net/1", "runs/net/1"},
      {"epochs=3", "epochs=3"},
      {"", "''"},
      {"my net/1", "'my net/1'"},
      {"a;b", "'a;b'"},
      {"~/x", "'~/x'"},
      {"it's", "'it'\\''s'"},
      {"gr\xc3\xb6\xc3\x9f"
       "e",
       "'gr\xc3\xb6\xc3\x9f"
       "e'"},
      {"a\nb\t'\\", "$'a\\nb\\t\\'\\\\'"},
      {"a\x1b[31m1\x7f", "$'a\\x1b[31m1\\x7f'"},
      {"\xe2\x80\xae"
       "1\xff"
       "f",
       "$'\\xe2\\x80\\xae1\\xfff'"},
  };
  for (const auto& c : kCases) {
    const std::string word = shell_word(c.text);
    EXPECT_EQ(word, c.word);
    EXPECT_EQ(one_line(word), word);
    ::setenv("NIXIE_WORD", word.c_str(), 1);
    std::FILE* shell = ::popen("exec bash -c 'eval printf %s \"$NIXIE_WORD\"'", "r");
    ASSERT_NE(shell, nullptr);
    std::array<char, 100> read{};
    const std::size_t bytes = std::fread(read.data(), 1, read.size(), shell);
    ::pclose(shell);
    EXPECT_EQ(std::string(read.data(), bytes), c.text);
  }
}

}  // namespace
}  // namespace nixie
