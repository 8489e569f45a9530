// trainer data show: one page of samples of each class and of augmentations, in the sizes and values of the net.
#include "nixie/apps/trainer/report/picture.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

class DataPage : public testing::Test {
 protected:
  DataPage() {
    for (int i = 0; i < 10; ++i)
      for (const char* name : {"c<t", "dog"})
        write_file(folder_ / fmt::format("pets/{}/{}.png", name, i), png(picture(24 + i, 20, i)));
    std::ofstream(folder_ / "net.yaml")
        << "model: [flatten, {linear: {out: 2}}]\nschedule: {constant: {rate: 0.1}}\nepochs: 1\nseed: 5\n"
           "data: {image_folder: {path: nowhere, crop: 12, resize: 16, flip: true, holdout: 0.2, "
           "augment: {scale: [0.3, 1], hue: 0.3}}}\n";
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Workplace folder_;
};

TEST_F(DataPage, HoldsWhatTheNetSees) {
  const Ran ran = folder_.trainer("data show pets pets.html --config net.yaml");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("pets.html: written; open it in a browser\n"));
  const std::string page = text_of(folder_ / "pets.html");
  EXPECT_THAT(
      page, HasParts("image_folder: 16 training and 4 test samples, each [3, 12, 12]; the target is class.", "c&lt;t"));
  for (const char* foreign : {"http:", "https:", "<script", "src=\"/"}) EXPECT_THAT(page, Not(HasSubstr(foreign)));
  // Six of each class, four times nine of augmentations, two of each class to test.
  EXPECT_EQ(count_of(page, "<img "), 2u * 6 + 4 * 9 + 2 * 2);
  const Splits data = ImageFolder{.path = folder_ / "pets",
                                  .crop = 12,
                                  .resize = 16,
                                  .flip = true,
                                  .augment = {.scale = {0.3f, 1}, .hue = 0.3f},
                                  .holdout = 0.2f}
                          .open();
  EXPECT_THAT(page, HasSubstr(data_uri(picture_of(*data.train, 0, 96))));
  for (std::int64_t epoch = 0; epoch < 8; ++epoch)
    EXPECT_THAT(page,
                HasSubstr(data_uri(picture_of(*data.train, 4, 96, {.seed = 5, .epoch = epoch, .training = true}))));
}

TEST_F(DataPage, LaysMasksOverTheirPictures) {
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    write_file(folder_ / fmt::format("seg/{}.png", i), png(picture(8, 6, i)));
    Bytes classes;
    for (int p = 0; p < 48; ++p) classes.push_back(static_cast<std::uint8_t>(p % 8 < 4 ? 0 : 1));
    write_file(folder_ / fmt::format("seg/m{}.png", i), png(classes, 8, 6, PNG_FORMAT_GRAY));
    rows += fmt::format("{0}.png,m{0}.png\n", i);
  }
  std::ofstream(folder_ / "seg/train.csv") << rows;
  const Ran ran = folder_.trainer("data show seg seg.html --side 6");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const Splits data = ImageFolder{.path = folder_ / "seg", .crop = 6, .resize = 6}.open();
  const PagePicture plain = picture_of(*data.train, 0, 96);
  const std::vector<std::int32_t> mask = sample_target<std::int32_t>(*data.train, 0);
  PagePicture both = overlaid(plain, mask, {6, 6});
  for (std::int64_t y = 0; y < 6; ++y)
    for (std::int64_t x = 0; x < 6; ++x)
      EXPECT_EQ(both.bytes[static_cast<std::size_t>((y * 6 + x) * 3)] ==
                    plain.bytes[static_cast<std::size_t>((y * 6 + x) * 3)],
                mask[static_cast<std::size_t>(y * 6 + x)] == 0)
          << y << " " << x;
  EXPECT_THAT(text_of(folder_ / "seg.html"), HasSubstr(data_uri(both)));
}

TEST_F(DataPage, ShowsRowsWithTheirNumbers) {
  std::ofstream(folder_ / "rows.csv") << "a,b,c\n1,2,0.5\n3,4,0.25\n5,6,0.75\n7,8,1.5\n";
  const Ran rows = folder_.trainer("data show rows.csv rows.html --set data.arrays.holdout=0.5");
  EXPECT_EQ(rows.code, 0) << rows.output;
  EXPECT_THAT(text_of(folder_ / "rows.html"), HasSubstr("the target is a number."));
}

TEST_F(DataPage, RefusesWhatIsNoPage) {
  const struct {
    std::string arguments;
    const char* expected;
  } cases[] = {{"show pets pets.txt", "pets.txt does not end in .html; name a page"},
               {"show nothing a.html", "no such folder"},
               {"inspect pets --config net.yaml", "--config is for data show"}};
  for (const auto& each : cases) {
    const Ran ran = folder_.trainer("data " + each.arguments);
    EXPECT_NE(ran.code, 0);
    EXPECT_THAT(ran.output, HasSubstr(each.expected));
    EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
  }
}

}  // namespace
}  // namespace nixie
