// Pictures are refused by the key's limit and by the free memory; honest large pictures are read.
#include "nixie/data/pictures/refusal.h"

#include <sys/resource.h>

#include "nixie/core/base/free_memory.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

TEST(Refusal, LargePicturesThatCompressWellAreRead) {
  const Bytes mask = png_of_rows(5000, 5000, 8, PNG_COLOR_TYPE_GRAY, Bytes(5000 * 5001));
  EXPECT_LT(mask.size(), 150'000u);
  EXPECT_EQ(decode_mask(mask, "m.png").width, 5000);
  const Bytes night = jpeg({6000, 4000, Bytes(std::size_t{3} * 6000 * 4000)}, TJSAMP_420);
  EXPECT_EQ(decode_image(night, "night.jpg", {.least_side = 100}).height, 500);
  // Only the header of a phone's 108 million pixels is written: its size alone may not be the fault.
  const Bytes phone = png_of_rows(12000, 9000, 8, PNG_COLOR_TYPE_RGB, Bytes(100));
  EXPECT_FAULT(data, "damaged PNG: ", decode_image(phone, "phone.png"));
}

TEST(Refusal, NamesTheKeyThatReadsMore) {
  const Bytes files[] = {png(picture(50, 40)), jpeg(picture(50, 40))};
  for (const Bytes& file : files) {
    EXPECT_EQ(decode_image(file, "a", {.megapixels = 0.002}).width, 50);
    EXPECT_FAULT(data,
                 "50 x 40 pixels, at most 0.00199 million are read; scale the picture down, or raise "
                 "data.image_folder.megapixels",
                 decode_image(file, "a", {.megapixels = 0.00199}));
  }
  TempFolder folder;
  for (const char* half : {"train", "val"}) write_file(folder / half / "c/a.png", files[0]);
  ImageFolder options{.path = folder.path(), .crop = 20, .damaged = "check", .megapixels = 0.001};
  EXPECT_FAULT(data, "at most 0.001 million are read", options.open());
  options.megapixels = 0.002;
  EXPECT_EQ(options.open().train->size(), 1);
}

TEST(Refusal, LeavesHalfOfTheFreeMemory) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const Bytes file = png_of_rows(9000, 9000, 8, PNG_COLOR_TYPE_RGB, Bytes(100));  // 243 MB
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(used_address_bytes() + 400'000'000);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  const std::string line = error_of(Fault::memory, [&] { decode_image(file, "a.png"); });
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(line, HasParts("a.png: PNG: 9000 x 9000 pixels take 243 MB of memory, ",
                             "end other programs, or scale the picture down"));
}

}  // namespace
}  // namespace nixie
