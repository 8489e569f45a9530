// Tables that name pictures and classes, and the damaged kinds of them.
#include "nixie/data/files/manifest.h"

#include "nixie/data/image_folder.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

using testing::UnorderedElementsAre;

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 6; ++i) write_file(folder_ / fmt::format("images/{}.png", i), png(picture(8, 8, i)));
    write_file(folder_ / "images/with, comma.png", png(picture(8, 8, 9)));
  }
  FolderScan scan(const std::string& text) {
    std::ofstream(folder_ / "list.csv") << text;
    return scan_manifest(folder_ / "list.csv");
  }
  std::string error(const std::string& text) {
    return error_of(Fault::data, [&] { scan(text); });
  }

  TempFolder folder_;
};

TEST_F(ManifestTest, RowsNamePicturesAndClasses) {
  const FolderScan found = scan(
      "file,label,source\nimages/0.png,cat,me\r\nimages/1.png,dog\n\nimages/2.png,cat\n"
      "\"images/with, comma.png\",\"a \"\"big\"\" dog\"\n");
  EXPECT_EQ(found.source.folder, folder_.path());
  EXPECT_THAT(found.classes, ElementsAre("a \"big\" dog", "cat", "dog"));
  EXPECT_THAT(names_of(found), ElementsAre(ElementsAre("images/with, comma.png"),
                                           ElementsAre("images/0.png", "images/2.png"), ElementsAre("images/1.png")));
  // Blanks around a cell are no part of it, whatever wrote them.
  EXPECT_THAT(
      scan("images/0.png,cat\nimages/1.png,cat\t\nimages/2.png,\xc2\xa0 cat\xc2\xa0\n"
           "images/3.png\t,\t\"cat\"\xe3\x80\x80\n\xe2\x80\x89images/4.png,\"cat \"\nimages/5.png,a\xc2\xa0\x63\n")
          .classes,
      ElementsAre("a\xc2\xa0\x63", "cat"));
  // Numbers are in their order, not in that of letters; without a header the first row is a picture.
  EXPECT_THAT(scan("images/0.png,10\nimages/1.png,9\nimages/2.png,0\n").classes, ElementsAre("0", "9", "10"));
}

TEST_F(ManifestTest, SaysWhichRowIsWrong) {
  EXPECT_THAT(error("images/0.png,cat\nimages/1.png\n"), HasSubstr("list.csv:2: no class"));
  EXPECT_THAT(error("images/0.png,cat\nimages/1.png,\n"), HasSubstr("list.csv:2: no class"));
  EXPECT_THAT(error("file,label\nimages/7.png,cat\n"), HasSubstr("list.csv:2: "));
  EXPECT_THAT(
      error("file,label\nimages/7.png,cat\n"),
      HasSubstr("images/7.png does not exist; expected a row picture,class or picture,mask or picture,number,..."));
  EXPECT_THAT(error("images/0.png,cat\nimages/0.gif,cat\n"), HasSubstr("does not end as a JPEG, PNG or WebP file"));
  for (const char* cell : {"-1", "+2", "1.0", "1e3", "0x1"}) {
    const std::string text = fmt::format("images/0.png,0\nimages/1.png,{}\n", cell);
    EXPECT_THAT(error(text), HasSubstr(fmt::format("list.csv:2: \"{}\" in column 2 is the number of no class", cell)));
    EXPECT_THAT(scan_manifest(folder_ / "list.csv", "class").classes, UnorderedElementsAre("0", cell));
  }
  EXPECT_THAT(error("images/0.png,cat\nimages/1.png,-1\n"), HasSubstr("\"-1\" in column 2 is the number of no class"));
  EXPECT_THAT(error("images/0.png,a\"cat\"\n"), HasSubstr("list.csv:1: column 2 has a quote inside its text"));
  EXPECT_THAT(error("file,label\n"), HasSubstr("no row names a picture"));
  EXPECT_FAULT(data, "/none.csv: cannot be read", scan_manifest("/none.csv"));
}

TEST_F(ManifestTest, RowsMayHoldNumbers) {
  const std::string text = "file,x,y\nimages/0.png,0.5,-2\nimages/1.png,1e2,3\nimages/2.png,7,0.25\n";
  const FolderScan found = scan(text);
  EXPECT_EQ(found.source.numbers, 2);
  EXPECT_THAT(found.classes, ElementsAre());
  EXPECT_THAT(names_of(found), ElementsAre(ElementsAre("images/0.png", "images/1.png", "images/2.png")));
  EXPECT_THAT(found.source.values, ElementsAre(0.5f, -2.0f, 100.0f, 3.0f, 7.0f, 0.25f));
  const FolderScan whole = scan("images/0.png,1,0.5\nimages/1.png,2,0\n");
  EXPECT_EQ(whole.classes.size(), 2u) << "whole numbers are classes";
  EXPECT_EQ(whole.left_out.text(), "left out 1 columns behind the class") << "and what follows them is counted";
  EXPECT_EQ(scan_manifest(folder_ / "list.csv", "numbers").source.numbers, 2);
  scan(text);
  EXPECT_THAT(scan_manifest(folder_ / "list.csv", "class").classes, ElementsAre("0.5", "1e2", "7"));

  EXPECT_THAT(error("images/0.png,0.5,1\nimages/1.png,0.5\n"),
              HasSubstr("list.csv:2: 2 cells where the first row has 3"));
  EXPECT_THAT(error("images/0.png,0.5,1\nimages/1.png,0.5,nan\n"),
              HasSubstr("list.csv:2: \"nan\" in column 3 is no finite number"));
  // A row without a number makes no classes of the others' numbers.
  for (const char* cell : {"NA", "nan", "inf", "1e400", "1e39", "1 000", "0x10", "+5"})
    EXPECT_THAT(error(fmt::format("images/0.png,0.5\nimages/1.png,{}\nimages/2.png,1\n", cell)),
                HasSubstr(fmt::format("list.csv:2: \"{}\" in column 2 is no finite number; mend", cell)));
  EXPECT_THAT(error("images/0.png,1\nimages/1.png,nan\n"), HasSubstr("list.csv:2: \"nan\""));
  EXPECT_EQ(scan("images/0.png,roti\nimages/1.png,nan\nimages/2.png,5\n").classes.size(), 3u) << "words are classes";
  scan("images/0.png,0.5,1\nimages/1.png,1.5,2\nimages/2.png,2.5,3\nimages/3.png,3.5,4\n");
  const Splits halves = ImageFolder{.path = folder_ / "list.csv", .crop = 8, .resize = 8, .holdout = 0.25f}.open();
  EXPECT_EQ(halves.train->target(), (SampleTarget{Dtype::f32, {2}}));
  EXPECT_EQ(halves.train->size(), 3);
  ASSERT_EQ(halves.test->size(), 1);
  std::set<float> firsts;
  for (const auto& half : {halves.train, halves.test})
    for (std::int64_t i = 0; i < half->size(); ++i) {
      const std::vector<float> numbers = sample_target<float>(*half, i);
      EXPECT_EQ(numbers[1], numbers[0] + 0.5f);
      Bytes expected(192);
      const Image source = picture(8, 8, numbers[0] - 0.5f);
      cut_bytes(source, centre_window(source, 8, 8, 8), 3, expected);
      EXPECT_EQ(sample_bytes(*half, i), expected) << "the numbers are those of this picture";
      firsts.insert(numbers[0]);
    }
  EXPECT_EQ(firsts.size(), 4u);
  const auto refused = [&](const ImageFolder& options) { return error_of(Fault::usage, [&] { options.open(); }); };
  fs::create_directories(folder_ / "a");
  EXPECT_THAT(refused({.path = folder_.path(), .target = "numbers"}),
              HasSubstr("target is numbers, which a .csv file has"));
  EXPECT_THAT(refused({.path = folder_.path(), .target = "masks"}), HasSubstr("target is masks, expected class"));
}

TEST_F(ManifestTest, StandsForAFolder) {
  std::ofstream(folder_ / "train.csv") << "images/0.png,b\nimages/1.png,a\nimages/2.png,a\nimages/3.png,b\n";
  std::ofstream(folder_ / "Test.CSV") << "images/4.png,a\nimages/5.png,b\n";
  const Splits both = ImageFolder{.path = folder_.path(), .crop = 8, .resize = 8}.open();
  EXPECT_EQ(both.train->size(), 4);
  EXPECT_EQ(both.test->size(), 2);
  EXPECT_THAT(both.notes, ElementsAre());
  std::vector<std::uint8_t> found(192), expected(192);
  EXPECT_EQ(both.test->bytes()->load_bytes(1, {}, found), 1);
  round_pixels(cut_window(picture(8, 8, 5), centre_window(picture(8, 8, 5), 8, 8, 8)), 3, expected);
  EXPECT_EQ(found, expected);
  // Alone, a share of it is held out.
  const Splits one = ImageFolder{.path = folder_ / "train.csv", .crop = 8, .resize = 8, .holdout = 0.5f}.open();
  EXPECT_EQ(one.train->size(), 2);
  EXPECT_EQ(one.test->size(), 2);
  std::ofstream(folder_ / "Test.CSV") << "images/4.png,c\n";
  EXPECT_FAULT(data, ContainsRegex("Test.CSV: its classes are not those of .*train.csv, which has none called \"c\""),
               ImageFolder{.path = folder_.path()}.open());
}

TEST_F(ManifestTest, BothHalvesNameTheColumnsAlike) {
  constexpr const char *kOfClasses = "images/0.png,1,0\nimages/1.png,0,1\n",
                       *kOfNumbers = "images/0.png,0.5,0\nimages/1.png,0.25,1\n";
  const struct {
    const char *train, *val, *rows, *words;
  } kCases[] = {{"file,x,y\n", "file,x,y\n", kOfNumbers, "no error"},
                {"", "file,y,x\n", kOfNumbers, "no error"},
                {"file,x,y\n", "file,y,x\n", kOfNumbers, "val.csv: column 2 is \"y\", in "},
                {"file,x,y\n", "file,x,z\n", kOfNumbers, "val.csv: column 3 is \"z\", in "},
                {"file,kind,part\n", "file,part,kind\n", kOfClasses, "val.csv: column 2 is \"part\", in "},
                {"file,kind,part\n", "file,kind,source\n", kOfClasses, "no error"}};  // the third is not read
  for (const auto& c : kCases) {
    std::ofstream(folder_ / "train.csv") << c.train << c.rows;
    std::ofstream(folder_ / "val.csv") << c.val << c.rows;
    const ImageFolder data{.path = folder_.path(), .crop = 8, .resize = 8};
    EXPECT_FAULT(data, c.words, data.open()) << c.train << c.val;
  }
}

// A small test half may lack a class; the others keep their places.
TEST_F(ManifestTest, TheTestHalfMayLackClasses) {
  std::ofstream(folder_ / "train.csv") << "images/0.png,b\nimages/1.png,a\nimages/2.png,c\nimages/3.png,d\n";
  const struct {
    const char* rows;
    std::vector<std::int32_t> labels;
    const char* note;
  } kCases[] = {{"images/4.png,c\nimages/5.png,b\n", {1, 2}, "has no picture of \"a\" and 1 more"},
                {"images/4.png,d\n", {3}, "has no picture of \"a\" and 2 more"},
                {"images/4.png,d\nimages/5.png,b\nimages/0.png,a\n", {0, 1, 3}, "has no picture of \"c\""}};
  for (const auto& c : kCases) {
    std::ofstream(folder_ / "val.csv") << c.rows;
    const Splits data = ImageFolder{.path = folder_.path(), .crop = 8, .resize = 8}.open();
    EXPECT_EQ(data.test->class_names(), data.train->class_names());
    EXPECT_EQ(data.test->labels(), c.labels) << c.rows;
    EXPECT_THAT(data.notes, ElementsAre(EndsWith(c.note)));
  }
}

}  // namespace
}  // namespace nixie
