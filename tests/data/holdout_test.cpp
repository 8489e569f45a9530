// holdout: 0 leaves everything for training, unless the data have a half of their own to test on.
#include "nixie/data/arrays.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

TEST(Holdout, OfNothingTrainsOnEverything) {
  const TempFolder folder;
  for (const char* name : {"cat", "dog"})
    for (int i = 0; i < 6; ++i) write_file(folder / "flat" / name / fmt::format("{}.png", i), png(picture(8, 8, i)));
  for (const char* half : {"train", "val"})
    for (const char* name : {"cat", "dog"})
      for (int i = 0; i < 3; ++i)
        write_file(folder / "halves" / half / name / fmt::format("{}.png", i), png(picture(8, 8, i)));
  write_file(folder / "one" / "only" / "0.png", png(picture(8, 8)));
  Bytes pixels(10 * 4), labels;
  for (std::uint8_t i = 0; i < 10; ++i) labels.push_back(i % 3);
  for (const char* part : {"arrays", "both"}) {
    write_file(folder / part / "x_train.npy", npy("|u1", "(10, 2, 2)", pixels));
    write_file(folder / part / "y_train.npy", npy("|u1", "(10,)", labels));
  }
  write_file(folder / "both" / "x_test.npy", npy("|u1", "(10, 2, 2)", pixels));
  write_file(folder / "both" / "y_test.npy", npy("|u1", "(10,)", labels));
  std::ofstream(folder / "rows.csv") << "1,2,a\n3,4,b\n5,6,a\n7,8,b\n";
  const auto pictures = [&](const char* name) {
    return ImageFolder{.path = folder / name, .crop = 8, .resize = 8, .holdout = 0}.open();
  };
  const auto arrays = [&](const char* name) { return Arrays{.path = folder / name, .holdout = 0}.open(); };
  const struct {
    Splits data;
    std::int64_t train, test, classes;
  } kCases[] = {{pictures("flat"), 12, 0, 2}, {pictures("halves"), 6, 6, 2}, {pictures("one"), 1, 0, 1},
                {arrays("arrays"), 10, 0, 3}, {arrays("both"), 10, 10, 3},   {arrays("rows.csv"), 4, 0, 2}};
  for (const auto& [data, train, test, classes] : kCases) {
    EXPECT_EQ(data.train->size(), train);
    EXPECT_EQ(data.test ? data.test->size() : 0, test);
    EXPECT_EQ(data.holds_out, test > 0);
    EXPECT_EQ(data.test_or_train()->classes(), classes);
    EXPECT_NO_THROW(check_halves(data));
  }
  EXPECT_FAULT(data, "holdout: 0", ImageFolder{.path = folder / "one", .crop = 8, .resize = 8}.open());
}

}  // namespace
}  // namespace nixie
