// Tables of numbers: as written by spreadsheets, pandas and hand; what is wrong is named with its place.
#include "nixie/data/files/table_file.h"

#include "nixie/data/arrays.h"
#include "nixie/data/preparation.h"
#include "nixie/tests/data/samples.h"
#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

class TableFileTest : public testing::Test {
 protected:
  fs::path table(const std::string& text, const std::string& name = "t.csv") {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  TempFolder folder_;
};

/// Arrays and classes as text: `x [1, 2]: 3 4; y i8 [1]: 0; cat|dog`.
std::string arrays_of(const TableFile& file) {
  std::string text;
  for (const std::string& name : file.names()) {
    const NumberArray array = file.array(name);
    text += fmt::format("{}{}{} [{}]:", text.empty() ? "" : "; ", name, name == "y" ? " " + array.type : "",
                        fmt::join(array.shape, ", "));
    for (const float number : floats_of(array)) text += fmt::format(" {:g}", number + 0.0f);
  }
  return file.class_names().empty() ? text : fmt::format("{}; {}", text, fmt::join(file.class_names(), "|"));
}

TEST_F(TableFileTest, ArraysOfColumns) {
  const struct {
    std::string text;
    int targets;
    std::string arrays;
  } kCases[] = {
      {"a,b,price\n1,2,0.5\n3,-4e1,1\n", 1, "x [2, 2]: 1 2 3 -40; y f8 [2]: 0.5 1"},
      {"1,2,0\r\n\r\n3,4,7\r\n", 1, "x [2, 2]: 1 2 3 4; y i8 [2]: 0 7"},                // no names, no fractions
      {"\xef\xbb\xbf\"a, b\",c,d\n 1 ,2,\"3\"\n", 2, "x [1, 1]: 1; y i8 [1, 2]: 2 3"},  // of a spreadsheet
      {"l,kind\n5,setosa\n6,virginica\n7,setosa\n", 1, "x [3, 1]: 5 6 7; y i8 [3]: 0 1 0; setosa|virginica"},
      {"1,2\n", 0, "x [1, 2]: 1 2"},
      {"\t1\xc2\xa0,2\t,\xe2\x80\xaf\x61\n3,4,a\t\n", 1, "x [2, 2]: 1 2 3 4; y i8 [2]: 0 0; a"},
      {"1e-400,-1e-400,1\n", 1, "x [1, 2]: 0 0; y i8 [1]: 1"},
      {"1, \"a, \"\"b\"\"\" \n2,\"\"\"\"\n3,\"c\"\n", 1, "x [3, 1]: 1 2 3; y i8 [3]: 1 0 2; \"|a, \"b\"|c"},
  };
  for (const auto& c : kCases) EXPECT_EQ(arrays_of(TableFile(table(c.text), c.targets)), c.arrays) << c.text;
}

TEST_F(TableFileTest, SaysWhichCellIsWrong) {
  const struct {
    std::string text;
    int targets;
    std::string words;
  } kCases[] = {{"a,b\n1,2\nx,3\n", 1, "t.csv:3: \"x\" in column 1 is no finite number"},
                {"a,b\n1,2\n,3\n", 1, "t.csv:3: \"\" in column 1 is no finite number"},
                {"1,2\n3,nan\n", 1, "t.csv:2: \"nan\" in column 2 is no finite number"},
                {"1,2\n3,word\n", 1, "t.csv:2: \"word\" in column 2 is no finite number"},
                {"1,1e999\n", 1, "t.csv:1: \"1e999\" in column 2"},
                {"1,2\n3\n", 1, "t.csv:2: 1 cells where the first row has 2"},
                {"1,a\n2,b\"x\n", 1, "t.csv:2: column 2 has a quote inside its text; put the whole cell in quotes"},
                {"1,\"a\"x,3\n", 1, "t.csv:1: column 2 has a quote inside its text"},
                {"a,b\n1,\"a\n", 1, "t.csv:2: column 2 begins with a quote that does not end on the line; end it"},
                {"\"1,\"\"2\n", 1, "t.csv:1: column 1 begins with a quote that does not end on the line"},
                {"1\n2\n", 1, "t.csv:1: 1 columns, expected numbers and then 1 target"},
                {"1,2,\n3,4,\n", 1, "t.csv:1: column 3 names no class"},
                {"1,red\n2,\n3,blue\n", 1, "t.csv:2: column 2 names no class"},
                {"1,2\r3,4\r", 1, "t.csv:1: a carriage return inside the line"},
                {"1,2\r\n3,4\r5\r\n", 1, "t.csv:2: a carriage return inside the line"},
                {"a;b\n1;2\n", 1, "t.csv:2: has a semicolon and no comma; separate cells by commas"},
                {"a\tb\n1\t2\n", 1, "t.csv:2: has a tab and no comma; separate cells by commas"},
                {std::string("a\0,\0b\0\n\0001\0,\0002\0\n\0", 17), 1, "t.csv:1: holds a byte of 0x00"},  // UTF-16
                {"a,b\n", 1, "t.csv: no row of numbers"}};
  for (const auto& c : kCases) EXPECT_FAULT(data, c.words, TableFile(table(c.text), c.targets)) << c.text;
}

// Reading the memory of a process at address 0 is an I/O error.
TEST_F(TableFileTest, AFaultOfTheDiskIsNotTheEndOfTheTable) {
  fs::create_symlink("/proc/self/mem", folder_ / "t.csv");
  EXPECT_FAULT(storage, "t.csv: cannot be read: Input/output error; check the disk", read_table(folder_ / "t.csv"));
}

TEST_F(TableFileTest, AreToldFromTablesOfPictures) {
  EXPECT_TRUE(is_number_table(table("a,b\n1,2\n")));
  EXPECT_TRUE(is_number_table(table("1,2\n")));
  EXPECT_FALSE(is_number_table(table("file,x\nhand.jpg,2\n")));
  EXPECT_FALSE(is_number_table(table("")));
}

TEST_F(TableFileTest, AreADataset) {
  std::string rows = "a,b,kind\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{},{}\n", i, 100 - i, i % 2 ? "odd" : "even");
  const Splits data = Arrays{.path = table(rows), .normalize = false, .holdout = 0.25f}.open();
  EXPECT_EQ(data.train->size(), 30);
  EXPECT_EQ(data.test->size(), 10);
  EXPECT_EQ(data.train->sample_shape(), (Shape{2, 1, 1}));
  EXPECT_THAT(data.train->class_names(), ElementsAre("even", "odd"));
  for (std::int64_t i = 0; i < 10; ++i) {
    const std::vector<float> sample = sample_values(*data.test, i);
    EXPECT_EQ(sample_label(*data.test, i), static_cast<std::int32_t>(sample[0]) % 2);
    EXPECT_EQ(sample[0] + sample[1], 100);
  }
  // Predictions take the same columns of a table with or without its targets.
  for (const char* text : {"1,2\n3,4\n", "a,b,kind\n1,2,odd\n3,4,even\n"}) {
    const std::vector<Array> samples = prepare_arrays(table(text), data.test->preparation());
    ASSERT_EQ(samples.size(), 2u) << text;
    EXPECT_NEAR(samples[1].data<float>()[0], 3, 1e-5) << text;
    EXPECT_NEAR(samples[1].data<float>()[1], 4, 1e-5) << text;
  }
  EXPECT_FAULT(data, "the last column holds words, such as \"even\", which are classes",
               Arrays{.path = table(rows), .target = "numbers"}.open());
}

TEST_F(TableFileTest, OfTwoHalvesNameTheirColumnsAlike) {
  const struct {
    const char *train, *val, *words;
  } kCases[] = {
      {"a,b,kind\n", "a,b,kind\n", "no error"},
      {"a,b,kind\n", "", "no error"},
      {"", "b,a,kind\n", "no error"},
      {"a,b,kind\n", "b,a,kind\n", "column 1 is \"b\", in "},
      {"a,b,kind\n", "a,c,kind\n", "column 2 is \"c\", in "},
      {"a,b,kind\n", "kind,a,b\n", "train.csv it is \"a\"; give both files the same columns in the same order"},
      {"a,b,kind\n", "a,b\n", "column 3 is missing, in "},
      {"a,b,kind\n", "a,b,kind,more\n", "column 4 is \"more\", in "}};
  for (const auto& c : kCases)
    for (const char* rows : {"1,2,0\n3,4,1\n", "1,2,even\n3,4,odd\n"}) {
      table(std::string(c.train) + rows, "train.csv");
      const auto val = table(std::string(c.val) + rows, "val.csv").string();
      const std::string error = error_of(Fault::data, [&] { Arrays{.path = folder_.path()}.open(); });
      EXPECT_THAT(error, HasSubstr(c.words)) << c.train << c.val;
      EXPECT_TRUE(error == "no error" || error.starts_with(val + ": column ")) << error;
    }
}

// Amperes beside seconds since 1970: a column has the deviation 1 in any unit, in predictions as in training.
TEST_F(TableFileTest, ColumnsOfAnyUnitAreNormalised) {
  const struct {
    double offset, unit;
  } kColumns[] = {{0, 1e-9}, {0, 1e-30}, {0, 1e30}, {1e5, 1}, {1e6, 1}, {-3e-7, 1e-8}, {7, 0}, {0.1, 0}};
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    for (const auto& [offset, unit] : kColumns) rows += fmt::format("{},", offset + unit * (i % 8 - 3.5));
    rows += fmt::format("{}\n", i % 2);
  }
  constexpr std::size_t kCount = std::size(kColumns);
  const Splits data = Arrays{.path = table(rows), .holdout = 0.25f}.open();
  std::vector<double> square(kCount);
  for (std::int64_t i = 0; i < data.train->size(); ++i) {
    const std::vector<float> sample = sample_values(*data.train, i);
    for (std::size_t c = 0; c < kCount; ++c) square[c] += sample[c] * sample[c] / 30.0;
  }
  for (std::size_t c = 0; c < kCount; ++c) EXPECT_NEAR(square[c], kColumns[c].unit > 0 ? 1 : 0, 0.01) << c;
  std::set<std::vector<float>> seen, predicted;
  for (const auto& half : {data.train, data.test})
    for (std::int64_t i = 0; i < half->size(); ++i) seen.insert(sample_values(*half, i));
  for (const Array& each : prepare_arrays(table(rows), data.test->preparation()))
    predicted.insert({each.data<float>().begin(), each.data<float>().end()});
  EXPECT_EQ(predicted, seen);
}

TEST_F(TableFileTest, OfTwoHalvesHaveTheClassesOfTheFirst) {
  table("1,red\n2,blue\n3,green\n", "train.csv");
  table("4,red\n", "val.csv");
  const Splits data = Arrays{.path = folder_.path(), .normalize = false}.open();
  EXPECT_THAT(data.test->class_names(), ElementsAre("blue", "green", "red"));
  EXPECT_EQ(sample_label(*data.test, 0), 2);
  table("4,1\n", "val.csv");
  EXPECT_FAULT(data, "val.csv:1: \"1\" in column 2 is no class of the training half",
               Arrays{.path = folder_.path()}.open());
  table("4,pink\n", "val.csv");
  EXPECT_FAULT(data, "val.csv:1: \"pink\" in column 2 is no class of the training half",
               Arrays{.path = folder_.path()}.open());
}

}  // namespace
}  // namespace nixie
