// Tar archives as several programs write them, the pictures and classes in them, and archives that are damaged.
#include "nixie/data/files/shards.h"

#include <sys/stat.h>

#include "nixie/data/files/input_file.h"
#include "nixie/data/files/tar_file.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

Bytes in_bytes(std::string_view text) { return {text.begin(), text.end()}; }

/// Writes a checksum as POSIX has it.
void seal(Bytes& header) {
  std::fill_n(header.begin() + 148, 8, std::uint8_t{' '});
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += header[i];
  const std::string text = fmt::format("{:06o}", sum) + std::string("\0 ", 2);
  std::copy(text.begin(), text.end(), header.begin() + 148);
}

struct Entry {
  std::string name;
  Bytes content = {};
  char kind = '0';
  std::string prefix = {};  // of ustar
};

/// A header and its padded content.
Bytes tar_entry(const Entry& entry) {
  Bytes block(512);
  const auto put = [&](std::size_t at, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, entry.name.substr(0, 100));
  put(124, fmt::format("{:011o}", entry.content.size()));
  block[156] = static_cast<std::uint8_t>(entry.kind);
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  put(345, entry.prefix);
  seal(block);
  block = block + entry.content;
  block.resize((block.size() + 511) / 512 * 512);
  return block;
}

Bytes tar(const std::vector<Entry>& entries) {
  Bytes archive;
  for (const Entry& entry : entries) archive = archive + tar_entry(entry);
  archive.resize(archive.size() + 1024);
  return archive;
}

class ShardsTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const Bytes& bytes) const {
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }
  std::string error(const Bytes& archive) const {
    return error_of(Fault::data, [&] { scan_shards({write("bad.tar", archive)}); });
  }

  TempFolder folder_;
  const Bytes picture_ = png(picture(8, 8));
};

TEST_F(ShardsTest, NamesAndPlacesOfEveryKindOfHeader) {
  const std::string deep = std::string(120, 'd') + "/long.jpg";
  const std::string folder_of_99 = std::string(99, 'e') + "/x.jpg";  // what a header can hold of it ends in a slash
  const std::string record = fmt::format("{} path={}\n", 6 + deep.size() + 4, deep);
  ASSERT_EQ(record.size(), 10 + deep.size()) << "a record counts itself";
  Bytes large = tar_entry({"gnu size.jpg", in_bytes("12345")});
  std::fill_n(large.begin() + 124, 12, std::uint8_t{0});
  large[124] = 0x80, large[135] = 5;
  seal(large);
  Bytes signed_sum = tar_entry({"caf\xc3\xa9.jpg", in_bytes("s")});  // summed with signs, as by some old programs
  std::int32_t sum = 0;
  std::fill_n(signed_sum.begin() + 148, 8, std::uint8_t{' '});
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<std::int8_t>(signed_sum[i]);
  const std::string text = fmt::format("{:06o}", sum);
  std::copy(text.begin(), text.end(), signed_sum.begin() + 148);
  const Bytes size_record = in_bytes("10 size=3\n");
  const fs::path file = write(
      "all.tar", tar_entry({"a.jpg", in_bytes("one")}) + tar_entry({"folder/", {}, '5'}) +
                     tar_entry({"b.jpg", in_bytes("two"), '\0', "some/prefix"}) + tar_entry({"link", {}, '2'}) +
                     tar_entry({"././@LongLink", in_bytes(deep + std::string(1, '\0')), 'L'}) +
                     tar_entry({deep, in_bytes("three")}) +
                     tar_entry({"././@LongLink", in_bytes(folder_of_99 + std::string(1, '\0')), 'L'}) +
                     tar_entry({folder_of_99, in_bytes("seven")}) + tar_entry({"pax", in_bytes(record), 'x'}) +
                     tar_entry({"short.jpg", in_bytes("four")}) +
                     tar_entry({"defaults", in_bytes("11 path=no\n"), 'g'}) + tar_entry({"pax", size_record, 'x'}) +
                     tar_entry({"c.jpg", in_bytes("six")}) + large + signed_sum + Bytes(1024));
  const TarContent content = read_tar(file);
  std::vector<std::pair<std::string, std::string>> found;
  for (const TarFile& each : content.files) {
    const Bytes bytes = read_part(file, each.offset, each.bytes);
    found.emplace_back(each.name, std::string(bytes.begin(), bytes.end()));
  }
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(found, ElementsAre(Pair("a.jpg", "one"), Pair("some/prefix/b.jpg", "two"), Pair(deep, "three"),
                                 Pair(folder_of_99, "seven"), Pair(deep, "four"), Pair("c.jpg", "six"),
                                 Pair("gnu size.jpg", "12345"), Pair("caf\xc3\xa9.jpg", "s")));
  EXPECT_EQ(content.others, 1);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FAULT(data, "is not a regular file", read_part(file, 512, 3))
      << "of one that took its place, and is not waited for";
}

TEST_F(ShardsTest, ClassesStandBesideThePicturesOrAreTheirFolders) {
  const fs::path first = write("a.tar", tar({{"x/0001.jpg", picture_},
                                             {"x/0001.cls", in_bytes("10\n")},
                                             {"x/0001.json", in_bytes(R"({"label": 10, "id": 3})")},
                                             {"x/0001.txt", in_bytes("a caption")},
                                             {"0002.json", in_bytes(R"({"label": 9})")},
                                             {"0002.png", picture_},
                                             {"0002.seg.png", picture_},
                                             {"0041.cls", in_bytes("9\t\xc2\xa0\r\n")},
                                             {"0041.json", in_bytes("{}")},
                                             {"y/0001.cls", in_bytes("10")},
                                             {"._0002.png", in_bytes("of a Mac")}}));
  const fs::path second =
      write("b.tar",
            tar({{"0001.jpeg", picture_}, {"0001.cls", in_bytes("\xef\xbb\xbf 10\xc2\xa0\n")}, {"9/7.JPG", picture_}}));
  const FolderScan scan = scan_shards({first, second});
  EXPECT_THAT(scan.classes, ElementsAre("9", "10")) << "numbers are in their order";
  EXPECT_THAT(names_of(scan), ElementsAre(ElementsAre("0002.png", "9/7.JPG"), ElementsAre("x/0001.jpg", "0001.jpeg")));
  EXPECT_EQ(scan.left_out.text(),
            "left out 2 .cls files without a picture, 1 .json files without a picture, 1 .seg.png files, 1 .txt files");
  EXPECT_EQ(scan.source.read(scan.pictures[1][1]), picture_);
  EXPECT_EQ(scan.source.path_of(scan.pictures[1][1]).string(), second.string() + ": 0001.jpeg");
  EXPECT_THAT(
      scan_shards({write("c.tar", tar({{"1.jpg", picture_}, {"1.json", in_bytes(R"({"class": "a cat"})")}}))}).classes,
      ElementsAre("a cat"));
  const Bytes large = in_bytes(R"({"label": 18446744073709551615})");
  EXPECT_THAT(scan_shards({write("d.tar", tar({{"1.jpg", picture_}, {"1.json", large}}))}).classes,
              ElementsAre("18446744073709551615"));
}

// As Kaggle's dogs and cats are named.
TEST_F(ShardsTest, ADotInANameEndsItOnlyBesideAClassFile) {
  const struct {
    const char *files, *found, *left_out;  // class files are of class x
  } kCases[] = {
      {"cat/cat.0.jpg cat/cat.1.jpg dog/dog.0.tiny.png", "cat: cat/cat.0.jpg cat/cat.1.jpg; dog: dog/dog.0.tiny.png",
       ""},
      {"a.0.jpg a.0.cls a.0.seg.png", "x: a.0.jpg", "left out 1 .seg.png files"},
      {"v/a.jpg v/a.cls v/a.left.jpg v/a.meta.json", "x: v/a.jpg", "left out 1 .left.jpg files, 1 .meta.json files"},
      {"v/a.jpg v/a.meta.json", "v: v/a.jpg", "left out 1 .json files without a picture"},
      {"v/a.tar.gz v/a.jpg v/b", "v: v/a.jpg", "left out 1 .gz files, 1 files without a suffix"},
      {"v1.2/a.jpg", "v1.2: v1.2/a.jpg", ""},
  };
  for (const auto& [files, expected, left_out] : kCases) {
    std::vector<Entry> entries;
    std::istringstream names(files);
    for (std::string name; names >> name;)
      entries.push_back({name, name.ends_with(".cls") ? in_bytes("x") : name.ends_with("g") ? picture_ : Bytes{}});
    const FolderScan scan = scan_shards({write("dots.tar", tar(entries))});
    std::string found;
    for (std::size_t c = 0; c < scan.classes.size(); ++c)
      found += fmt::format("{}{}: {}", c ? "; " : "", scan.classes[c], fmt::join(names_of(scan)[c], " "));
    EXPECT_EQ(found, expected);
    EXPECT_EQ(scan.left_out.text(), left_out);
  }
}

// Of `tar -cf x.tar .`, too; a folder counts a picture beside the class folders in the same way.
TEST_F(ShardsTest, LoosePicturesBesideClassFoldersAreLeftOut) {
  for (const std::string in : {"", "./", ".//./"}) {
    const FolderScan scan = scan_shards({write("loose.tar", tar({{in + "cat/1.png", picture_},
                                                                 {in + "loose.png", picture_},
                                                                 {in + "b/../dog/1.png", picture_},
                                                                 {in + "2.png", picture_},
                                                                 {in + "2.cls", in_bytes("dog")}}))});
    EXPECT_THAT(names_of(scan), ElementsAre(ElementsAre("cat/1.png"), ElementsAre("dog/1.png", "2.png"))) << in;
    EXPECT_EQ(scan.left_out.text(), "left out 1 files outside the class folders") << in;
    EXPECT_THAT(error(tar({{in + "loose.png", picture_}, {in + "1.png", picture_}, {in + "1.cls", in_bytes("a")}})),
                HasSubstr("bad.tar: loose.png: has no class"));
  }
  EXPECT_THAT(error(tar({{"a/1.png", picture_}, {"./a/1.png", picture_}})), HasSubstr("a/1.png: is there twice"));
}

TEST_F(ShardsTest, SparseFilesAreLeftOut) {
  const auto pax = [&](const std::string& record) { return tar_entry({"pax", in_bytes(record), 'x'}); };
  const Bytes good = tar({{"a/1.png", picture_}}), content = in_bytes("1\n0\n512\n");
  Bytes gnu = tar_entry({"a/2.png", Bytes(512, 'x'), 'S'});
  gnu[482] = 1;  // two blocks with further parts follow
  seal(gnu);
  Bytes further(1024);
  further[504] = 1;
  gnu.insert(gnu.begin() + 512, further.begin(), further.end());
  for (const Bytes& sparse : {pax("22 GNU.sparse.major=1\n27 GNU.sparse.name=a/2.png\n"), gnu}) {
    const Bytes file = sparse == gnu ? gnu : sparse + tar_entry({"GNUSparseFile.7/2.png", content});
    const FolderScan scan = scan_shards({write("sparse.tar", file + good)});
    EXPECT_THAT(names_of(scan), ElementsAre(ElementsAre("a/1.png")));
    EXPECT_EQ(scan.left_out.text(), "left out 1 entries that are no regular files");
  }
}

TEST_F(ShardsTest, DamagedArchivesAreRefusedInALine) {
  const Bytes good = tar({{"1.jpg", picture_}, {"1.cls", in_bytes("0")}});
  const auto with = [&](std::size_t at, std::uint8_t byte, bool sealed) {
    Bytes bad = good;
    bad[at] = byte;
    if (sealed) seal(bad);
    return bad;
  };
  const auto cut = [&](std::size_t bytes) {
    return Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes));
  };
  const auto zeroed = [&](std::size_t at, std::size_t bytes) {
    Bytes bad = good;
    std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(at), bytes, std::uint8_t{0});
    return bad;
  };
  const struct {
    Bytes archive;
    std::string expected;
  } kCases[] = {
      {with(3, 'x', false), "bad.tar at byte 0: is no tar archive; unpack it where it is compressed"},
      {gzip(good) + Bytes(512, 7), "is no tar archive"},
      {with(124, '7', true), "bad.tar at byte 0: is cut off: 1.jpg would have "},
      {with(130, 'x', true), "has a header with a damaged size"},
      {cut(600), "bad.tar at byte 0: is cut off"},
      {cut(good.size() - 1024), "ends without the empty block that archives end with: it is cut off"},
      {cut(100), "it is cut off"},
      {{}, "it is cut off"},
      {tar({}), "bad.tar: no .jpg, .png or .webp file in it; fetch it again, or take it away"},
      {Bytes(good.size()), "bad.tar: no .jpg, .png or .webp file in it"},
      {good + good, fmt::format("bad.tar at byte {}: goes on behind its end, the empty block at byte {}: a part is "
                                "zeroed, or archives were joined by cat; fetch it again",
                                good.size(), good.size() - 1024)},
      {zeroed(0, 512), "bad.tar at byte 512: goes on behind its end, the empty block at byte 0"},
      {zeroed(good.size() - 2048, 512), "goes on behind its end"},
      {good + Bytes(100000) + in_bytes("x"), "goes on behind its end"},
      {good + Bytes((1 << 20) + 1),
       fmt::format("bad.tar at byte {0}: ends in {1} zero bytes, more than programs of tar "
                   "pad with: its end is zeroed; fetch it again, or cut the zeros off with "
                   "`truncate -s {2}`",
                   good.size() - 1024, (1 << 20) + 1025, good.size())},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("0")}, {"x", in_bytes("10 size=1\n"), 'x'}}),
       "is empty where a file should follow its long name or other records; fetch it again"},
      {tar({{"1.jpg", picture_}}), "bad.tar: 1.jpg: has no class: neither NAME.cls nor NAME.json nor a folder"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes(" \n")}}), "bad.tar: 1.cls: holds no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("a\nb")}}), "1.cls: holds no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("-1")}}), "1.cls: holds -1, the number of no class; expected one"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("1.5\n")}}), "1.cls: holds 1.5, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("+2")}}), "1.cls: holds +2, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("1e3")}}), "1.cls: holds 1e3, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("1e999")}}), "1.cls: holds 1e999, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("0x1")}}), "1.cls: holds 0x1, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("-0XfF")}}), "1.cls: holds -0XfF, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.cls", in_bytes("nan")}}), "1.cls: holds nan, the number of no class"},
      {tar({{"1.jpg", picture_}, {"1.json", in_bytes("{\"label\": -1}")}}), "1.json: holds -1, the number of no"},
      {tar({{"1.jpg", picture_}, {"1.cls", Bytes(5000)}}), "1.cls: has 5000 bytes, at most 4096 are read"},
      {tar({{"1.jpg", picture_}, {"1.json", in_bytes("{\"label\": ")}}), "1.json: names no class"},
      {tar({{"1.jpg", picture_}, {"1.json", in_bytes("{\"label\": 1.5}")}}), "1.json: names no class"},
      {tar({{"a/1.jpg", picture_}, {"a/1.jpg", picture_}}), "a/1.jpg: is there twice"},
      {tar({{"a/1.jpg", picture_}, {"a/1.cls", in_bytes("3\n")}, {"a/1.json", in_bytes("{\"label\": 4}")}}),
       "bad.tar: a/1.jpg: its class is \"3\" in a/1.cls, \"4\" in a/1.json; make them equal, or leave one out"},
      {Bytes((1 << 20) + 1025), "its end is zeroed; fetch it again\n"},
      {tar({{"x", in_bytes("99 path=a\n"), 'x'}}), "at byte 512: has a damaged pax record"},
      {tar({{"x", in_bytes("10 size=x\n"), 'x'}}), "has a damaged pax record"},
      {tar({{"bad\nname.jpg", picture_}}), "bad.tar: bad\\nname.jpg: has no class"},
  };
  for (const auto& c : kCases) {
    const std::string line = error(c.archive);
    EXPECT_THAT(line + "\n", HasSubstr(c.expected));
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  for (const Bytes& padding : {Bytes{}, Bytes(10240 - 1024), Bytes(1 << 20)})  // of programs with larger records
    EXPECT_EQ(scan_shards({write("padded.tar", good + padding)}).pictures[0].size(), 1u) << padding.size();
  EXPECT_FAULT(data, "zeroed.tar: no .jpg, .png or .webp file in it",
               scan_shards({write("good.tar", good), write("zeroed.tar", Bytes(good.size()))}));
  EXPECT_FAULT(data, "/none.tar: cannot be read", scan_shards({"/none.tar"}));
}

// Whatever bytes change, an archive is read or refused; all that is read is inside the file.
TEST_F(ShardsTest, SurvivesMutants) {
  const Bytes good =
      tar({{"1.jpg", in_bytes("x")}, {"pax", in_bytes("13 path=a/b.c\n"), 'x'}, {"1.cls", in_bytes("0")}});
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Bytes bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<std::uint8_t>(random());
    for (std::size_t at = 0; at + 512 <= bad.size() && i % 2; at += 1024) seal(bad);
    const fs::path file = write("mutant.tar", bad);
    try {
      for (const TarFile& each : read_tar(file).files)
        EXPECT_LE(each.offset + each.bytes, static_cast<std::int64_t>(bad.size()));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(ShardsTest, StandForAFolder) {
  const auto shard = [&](int first) {
    std::vector<Entry> entries;
    for (int i = first; i < first + 6; ++i) {
      entries.push_back({fmt::format("{}.png", i), png(picture(8, 8, i))});
      entries.push_back({fmt::format("{}.cls", i), in_bytes(std::to_string(i % 2))});
    }
    return tar(entries);
  };
  write("set-train-0.tar", shard(0));
  write("set-train-1.tar", shard(6));
  write("set-val-0.tar", shard(12));
  write("README", in_bytes("hello"));
  ImageFolder options{.path = folder_.path(), .crop = 8, .resize = 8, .holdout = 0.25f};
  const Splits halves = options.open();
  EXPECT_EQ(halves.train->size(), 12);
  EXPECT_EQ(halves.test->size(), 6);
  EXPECT_THAT(halves.train->class_names(), ElementsAre("0", "1"));
  ASSERT_EQ(halves.notes.size(), 1u);
  EXPECT_THAT(halves.notes[0],
              testing::MatchesRegex(".*README is left out: training reads .*set-train-0.tar and 1 more, "
                                    "evaluation .*set-val-0.tar"));
  // The second sample is the first of the second class: picture 1.
  Bytes expected(192);
  EXPECT_EQ(sample_label(*halves.train, 1), 1);
  round_pixels(cut_window(picture(8, 8, 1), centre_window(picture(8, 8, 1), 8, 8, 8)), 3, expected);
  EXPECT_EQ(sample_bytes(*halves.train, 1), expected);

  options.path = folder_ / "set-train-0.tar";
  const Splits one = options.open();
  EXPECT_EQ(one.train->size() + one.test->size(), 6);
  EXPECT_EQ(one.test->size(), 2) << "a quarter of each class, rounded";

  // A shard that changes between two epochs, in whichever of its pictures.
  Bytes changed = read_file(options.path, 1 << 20);
  const TarFile first = read_tar(options.path).files.at(0);
  const auto epoch = [&] {
    for (const auto& half : {one.train, one.test})
      for (std::int64_t i = 0; i < half->size(); ++i) sample_bytes(*half, i);
  };
  EXPECT_EQ(error_of(Fault::data, epoch), "no error");
  changed[static_cast<std::size_t>(first.offset + first.bytes - 2)] ^= 1;
  write("set-train-0.tar", changed);
  EXPECT_EQ(error_of(Fault::data, epoch),
            options.path.string() +
                ": 0.png has changed since it was read first; put the old file back and resume, or begin a new run");

  // One that other files took the place of before any was read.
  write("set-train-0.tar", shard(0));
  const Splits unread = options.open();
  write("set-train-0.tar", shard(6));
  EXPECT_FAULT(
      data,
      testing::Eq(options.path.string() +
                  ": 0.png has changed since it was read first; put the old file back and resume, or begin a new run"),
      sample_bytes(*unread.train, 0));
  write("set-train-0.tar", shard(0));

  Bytes bad = tar({{"a/1.png", picture_}, {"a/2.png", Bytes(picture_.begin(), picture_.begin() + 60)}});
  options.path = write("damaged.tar", bad);
  options.damaged = "check";
  EXPECT_FAULT(data, "1 of 2 pictures are damaged, the first: " + options.path.string() + ": a/2.png: damaged PNG",
               options.open());
}

TEST_F(ShardsTest, ReadsRealSignDigitsAsTheyCame) {
  const fs::path file = fs::path(real_data()) / "sign-language-digits.tar";
  if (real_data().empty() || !fs::exists(file)) GTEST_SKIP() << "set NIXIE_TEST_DATA";
  const Splits halves = ImageFolder{.path = file, .crop = 64, .resize = 64, .holdout = 0.2f}.open();
  EXPECT_EQ(halves.train->size() + halves.test->size(), 2062);
  EXPECT_THAT(halves.train->class_names(), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(sample_label(*halves.test, i), i % 10);
}

}  // namespace
}  // namespace nixie
