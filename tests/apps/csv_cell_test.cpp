// Cells that a spreadsheet takes for what they are.
#include "nixie/apps/trainer/program/csv_cell.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

TEST(CsvCell, NoneBeginsAFormula) {
  const struct {
    std::string text, as_text, as_path;
  } kCases[] = {
      {"cat", "cat", "cat"},
      {"a/=b.png", "a/=b.png", "a/=b.png"},
      {"=1+1", "'=1+1", "./=1+1"},
      {"+cmd", "'+cmd", "./+cmd"},
      {"-a.png", "'-a.png", "./-a.png"},
      {"@sum", "'@sum", "./@sum"},
      {"-1.5e3", "-1.5e3", "./-1.5e3"},  // a number is none
      {"+7", "+7", "./+7"},
      {"-1+2", "'-1+2", "./-1+2"},
      {"=a,\"b\"", "\"'=a,\"\"b\"\"\"", "\"./=a,\"\"b\"\"\""},
      {"\t=1", "\\t=1", "\\t=1"},
      {"", "", ""},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(csv_text(c.text), c.as_text) << c.text;
    EXPECT_EQ(csv_path(c.text), c.as_path) << c.text;
  }
}

}  // namespace
}  // namespace nixie
