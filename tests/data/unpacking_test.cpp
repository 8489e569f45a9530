// Content that unpacks to far more than its file: read within one limit, refused before memory is taken beyond it.
#include "nixie/core/files/unpacking.h"

#include "nixie/core/base/free_memory.h"
#include "nixie/data/arrays.h"
#include "nixie/data/files/array_source.h"
#include "nixie/data/files/input_file.h"
#include "nixie/tests/data/arrays.h"

namespace nixie {
namespace {

constexpr hsize_t kSprites = 72, kSide = 1000;  // 72 MB of nothing in some 72 KB

TEST(UnpackingLimit, IsWhatWasSetOrAQuarterOfTheFreeMemory) {
  EXPECT_EQ(unpacking_limit(0.5, "").bytes, 0x1p29);
  const double free = static_cast<double>(free_memory_bytes()), limit = unpacking_limit(0, "").bytes;
  EXPECT_GE(limit, 0x1p26);
  EXPECT_LE(limit, std::max(0x1p26, free / 2)) << "others may free memory meanwhile";
  const UnpackingLimit small{10, "as always", "pack less"};
  EXPECT_EQ(small.excess_text(10), "");
  EXPECT_EQ(small.excess_text(11),
            "unpacks to 11 bytes more than the file stores, expected at most 10, as always; pack less");
}

class Unpacking : public testing::Test {
 protected:
  /// The error of reading the array with a limit in GiB, 0 for the memory's.
  std::string error(const std::string& name, double unpack) const {
    return error_of(Fault::data, [&] {
      const NumberArray images = open_arrays(folder_ / name, 1, nullptr, unpack)->array("images");
      EXPECT_EQ(images.bytes.size(), kSprites * kSide * kSide);
    });
  }
  TempFolder folder_;
};

TEST_F(Unpacking, HasOneRuleForNumpyAndHdf5) {
  const Bytes sprites(kSprites * kSide * kSide);
  Hdf5File(folder_ / "x.h5")
      .dataset("images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {kSprites, kSide, kSide}, sprites, {1, kSide, kSide});
  write_file(folder_ / "x.npz", npz({{"images", npy("|u1", "(72, 1000, 1000)", sprites)}}));
  for (const char* name : {"x.h5", "x.npz"}) {
    ASSERT_LT(fs::file_size(folder_ / name), 1'000'000u) << name;
    EXPECT_EQ(error(name, 0), "no error") << name;
    EXPECT_EQ(error(name, 0.1), "no error") << name;
    EXPECT_THAT(error(name, 0.01), AllOf(HasSubstr(name), HasSubstr("images"), HasSubstr("unpacks to 71"),
                                         HasSubstr("expected at most 10737418, the limit that was set; set "
                                                   "data.arrays.unpack to the GiB that it needs, or ")))
        << name;
  }
  EXPECT_FAULT(data, "holds images, expected x_train", Arrays{.path = folder_ / "x.npz", .unpack = 0.01}.open());
}

TEST_F(Unpacking, TheKeyReachesBothHalves) {
  const Bytes pixels(4 << 20), labels = {0, 1, 0, 1};
  write_file(folder_ / "x.npz", npz({{"x_train", npy("|u1", "(4, 1024, 1024)", pixels)},
                                     {"y_train", npy("|u1", "(4,)", labels)},
                                     {"x_test", npy("|u1", "(4, 1024, 1024)", pixels)},
                                     {"y_test", npy("|u1", "(4,)", labels)}}));
  EXPECT_FAULT(data, "x_train: unpacks to 41", Arrays{.path = folder_ / "x.npz", .unpack = 0.001}.open());
  EXPECT_EQ(Arrays({.path = folder_ / "x.npz", .unpack = 0.01}).open().test->size(), 4);
}

// Before the memory is taken: the array that is announced does not exist.
TEST_F(Unpacking, ABombIsRefusedByWhatItAnnounces) {
  Bytes bomb = npz({{"images", npy("|u1", "(1,)", Bytes(4 << 20))}});
  const auto announce = [&](std::uint32_t bytes) {
    for (const std::uint32_t at : {22u, static_cast<std::uint32_t>(bomb.size()) - 22 - 46 - 10 + 24})
      for (int i = 0; i < 4; ++i) bomb[at + static_cast<std::uint32_t>(i)] = static_cast<std::uint8_t>(bytes >> 8 * i);
    write_file(folder_ / "bomb.npz", bomb);
  };
  announce(4'000'000);
  EXPECT_THAT(error("bomb.npz", 0.001), HasSubstr("bomb.npz: images: unpacks to 39"));
  announce(0xfffffffe);
  EXPECT_THAT(error("bomb.npz", 0), HasSubstr("bomb.npz: images: claims 4294967294 bytes out of "));
}

TEST_F(Unpacking, GzipFilesHaveTheSameRule) {
  write_file(folder_ / "x.gz", gzip(Bytes(20 << 20)));
  EXPECT_EQ(InputFile(folder_ / "x.gz").read(20 << 20, "the pixels").size(), 20u << 20);
  EXPECT_FAULT(data,
               AllOf(HasSubstr("x.gz at byte 0: the pixels: unpacks to 20"),
                     HasSubstr("bytes more than the file stores, expected at most 10737418, the limit that was set; "
                               "unpack it")),
               InputFile(folder_ / "x.gz", unpacking_limit(0.01, "unpack it")).read(20 << 20, "the pixels"));
  EXPECT_FAULT(data, "the pixels would take 1073741824 bytes, but the file holds ",
               InputFile(folder_ / "x.gz").read(1 << 30, "the pixels"))
      << "more than deflate can pack";
}

}  // namespace
}  // namespace nixie
