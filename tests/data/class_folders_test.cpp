// Folders of pictures: which of those inside are classes, halves or neither.
#include "nixie/data/files/manifest.h"
#include "nixie/data/image_folder.h"
#include "nixie/data/preparation.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

/// A folder with two pictures in each of the folders.
class ClassFolders : public testing::Test {
 protected:
  Splits open(const std::vector<std::string>& folders) const {
    fs::remove_all(folder_ / "x");
    for (const std::string& each : folders)
      for (const char* name : {"0.png", "1.png"}) write_file(folder_ / "x" / each / name, png(picture(10, 12)));
    return ImageFolder{.path = (folder_ / "x").string(), .crop = 8, .resize = 8, .holdout = 0.25f}.open();
  }
  TempFolder folder_;
};

TEST_F(ClassFolders, ATestHalfAloneIsRefused) {
  for (const std::vector<std::string>& halves : std::vector<std::vector<std::string>>{
           {"val/a", "val/b", "test/a", "test/b"}, {"Test/a", "Test/b"}, {"val/a", "val/b", ".cache/x"}}) {
    EXPECT_FAULT(data,
                 HasParts(StartsWith((folder_ / "x").string() + "/"),
                          ": a test half, but no training half is beside it; name that folder train"),
                 open(halves));
  }
  EXPECT_EQ(open({"val", "test"}).train->classes(), 2);  // of pictures: classes
  EXPECT_EQ(open({"test/a", "cat/b"}).train->classes(), 2);
}

TEST_F(ClassFolders, ALevelDeeperAreTold) {
  const Splits data = open({"trains/a", "trains/b", "vals/a", "vals/b"});
  ASSERT_EQ(data.notes.size(), 1u);
  EXPECT_THAT(data.notes[0],
              HasSubstr("trains holds folders only, such as a and b: their pictures are of the one class trains"));
  EXPECT_TRUE(open({"a", "a/first", "a/second", "b/all"}).notes.empty());
}

TEST_F(ClassFolders, OfSystemsAreNoClasses) {
  const Splits data = open({"a", "b", "__MACOSX", "@eaDir", "#recycle", "lost+found", ".cache", "a/@eaDir", "b/.x/y"});
  EXPECT_EQ(data.train->classes(), 2);
  EXPECT_EQ(data.train->size() + data.test->size(), 4);
  EXPECT_TRUE(data.notes.empty());
}

// As torchvision's ImageFolder follows them, but for those that would not end.
TEST_F(ClassFolders, LinkedOnesAreFollowedAndLinksToNothingAndLoopsAreTold) {
  using fs::create_directory_symlink;
  open({"a", "b"});
  const fs::path x = folder_ / "x", other = folder_ / "other";
  write_file(other / "deep/2.png", png(picture(10, 12)));
  create_directory_symlink(other, x / "a/linked");
  create_directory_symlink("../../other", x / "b/.hidden");
  create_directory_symlink("other/deep", folder_ / "d");
  create_directory_symlink("../d", x / "c");
  struct Loop {
    fs::path link, target;
  };
  for (const auto& [link, target] :
       {Loop{x / "b/up", ".."}, Loop{x / "b/itself", "."}, Loop{x / "whole", "."}, Loop{x / "above", "../.."},
        Loop{other / "back", x / "a"}, Loop{other / "deep/around", ".."}})
    create_directory_symlink(target, link);
  create_directory_symlink("nowhere", x / "lost");
  create_directory_symlink("nowhere", x / "b/lost");
  create_directory_symlink("circle", x / "circle");
  const FolderScan scan = scan_folder(x);
  EXPECT_THAT(scan.classes, ElementsAre("a", "b", "c"));
  EXPECT_THAT(names_of(scan), ElementsAre(ElementsAre("a/0.png", "a/1.png", "a/linked/deep/2.png"),
                                          ElementsAre("b/0.png", "b/1.png"), ElementsAre("c/2.png")));
  EXPECT_THAT(class_names_of({x}), testing::ElementsAreArray(scan.classes));
  EXPECT_EQ(scan.left_out.text(),
            "left out 7 links that lead back to a folder they are in (the first: a/linked/back), "
            "3 links to nothing (the first: b/lost)");
  std::vector<std::string> notes;  // of predict
  EXPECT_EQ(find_pictures({x}, notes).size(), 5u) << "c and a/linked/deep are one folder";
  EXPECT_THAT(notes,
              ElementsAre(x.string() + ": took 5 pictures, left out 6 links that lead back to a folder they are in "
                                       "(the first: a/linked/back), 1 links to folders that are read already (the "
                                       "first: c), 3 links to nothing (the first: b/lost)"));
}

// Each of four links in a folder leads to the next one: 4^12 ways to the last.
TEST_F(ClassFolders, LinkedOnManyWaysAreReadOnce) {
  using fs::create_directory_symlink;
  open({"a", "b"});
  const fs::path x = folder_ / "x";
  constexpr int kLevels = 12;
  for (int level = 0; level <= kLevels; ++level) {
    const fs::path folder = folder_ / fmt::format("level{}", level);
    write_file(folder / "2.png", png(picture(10, 12)));
    for (const char* name : {"p", "q", "r", "s"})
      if (level < kLevels) create_directory_symlink(fmt::format("../level{}", level + 1), folder / name);
  }
  create_directory_symlink("../../level0", x / "a/all");
  write_file(x / "b/deep/3.png", png(picture(10, 12)));
  create_directory_symlink("deep", x / "b/another");  // comes first in the order of names
  const FolderScan scan = scan_folder(x);
  EXPECT_EQ(scan.pictures[0].size(), 2u + kLevels + 1);
  EXPECT_EQ(scan.pictures[0][3].name, "a/all/p/2.png");
  EXPECT_THAT(names_of(scan)[1], ElementsAre("b/0.png", "b/1.png", "b/deep/3.png"));
  EXPECT_EQ(scan.left_out.text(), fmt::format("left out {} links to folders that are read already (the first: {})",
                                              3 * kLevels + 1, "a/all/p/p/p/p/p/p/p/p/p/p/p/q"));
}

// A picture that the system does not let us read may be whole: it is neither left out nor called damaged.
TEST_F(ClassFolders, ThatTheSystemRefusesAreNoDamage) {
  using fs::permissions;
  using fs::perms;
  const perms all = perms::owner_all | perms::group_all | perms::others_all,
              listed = perms::owner_read | perms::group_read | perms::others_read;
  permissions(folder_.path(), all);
  struct Case {
    std::string refused, damaged, error;
  };
  const std::string why = ": cannot be read: Permission denied; check the path and its permissions";
  for (const Case& c : {Case{"b", "check", "b/0.png" + why}, Case{"b", "skip", "b/0.png" + why},
                        Case{"b", "error", "b/0.png" + why}, Case{"a/1.png", "skip", "a/1.png" + why}}) {
    open({"a", "b"});
    ImageFolder options{.path = (folder_ / "x").string(), .crop = 8, .resize = 8, .holdout = 0.25f};
    options.damaged = c.damaged;
    const fs::path refused = folder_ / "x" / c.refused;
    permissions(refused, fs::is_directory(refused) ? listed : perms::none);
    {
      const Unprivileged user;
      EXPECT_EQ(error_of(Fault::storage,
                         [&] {
                           const Splits data = options.open();
                           for (const auto& half : {data.train, data.test})
                             for (std::int64_t i = 0; i < half->size(); ++i) sample_bytes(*half, i);
                         }),
                (folder_ / "x" / c.error).string())
          << c.damaged;
    }
    permissions(refused, all);
  }
}

// The iterator's own error names nothing.
TEST_F(ClassFolders, ANestedOneThatMayNotBeReadIsNamed) {
  fs::permissions(folder_.path(), fs::perms::all);
  open({"a", "b"});
  const fs::path deep = folder_ / "x" / "a" / "deep";
  fs::create_directory(deep);
  fs::permissions(deep, fs::perms::none);
  {
    const Unprivileged user;
    EXPECT_EQ(error_of(Fault::storage, [&] { ImageFolder{.path = (folder_ / "x").string(), .crop = 8}.open(); }),
              deep.string() + ": cannot be read: Permission denied; check the path and its permissions");
  }
  fs::permissions(deep, fs::perms::all);
}

}  // namespace
}  // namespace nixie
