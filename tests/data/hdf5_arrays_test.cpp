// Arrays that HDF5 holds: as numpy's files, bools, files of other versions, neon's layout, and what cannot be read.
#include "nixie/core/files/hdf5.h"
#include "nixie/data/arrays.h"
#include "nixie/data/files/input_file.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

/// The error of opening it.
std::string error(const fs::path& file) {
  return error_of(Fault::data, [&] { Arrays{.path = file, .holdout = 0.5f}.open(); });
}

TEST(Hdf5Arrays, HoldWhatNumpysFilesHold) {
  const TempFolder folder;
  const std::vector<std::uint8_t> pixels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  {
    Hdf5File file(folder / "data.h5");
    file.dataset("images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {4, 1, 3}, pixels);
    file.dataset<std::int64_t>("labels", H5T_STD_I64BE, H5T_NATIVE_INT64, {4}, {3, 0, 1, 2});
  }
  const Splits data = Arrays{.path = folder / "data.h5", .normalize = false, .holdout = 0.5f}.open();
  EXPECT_EQ(data.train->sample_shape(), (Shape{1, 1, 3}));
  EXPECT_EQ(data.train->classes(), 4);
  const std::int32_t expected[] = {3, 0, 1, 2};
  EXPECT_EQ(sample_label(*data.train, 0), expected[sample_bytes(*data.train, 0)[0] / 3]);
}

// An enumeration of FALSE and TRUE, as h5py writes them.
TEST(Hdf5Arrays, HoldBools) {
  const TempFolder folder;
  const hdf5::Handle boolean = hdf5::file_type(Dtype::boolean);
  const auto write = [&](std::uint8_t last) {
    Hdf5File file(folder / "x.h5");
    file.dataset<std::uint8_t>("images", boolean, boolean, {2, 1, 3}, {1, 0, 1, 0, 1, last});
    file.dataset<std::uint8_t>("labels", boolean, boolean, {2}, {1, 0});
  };
  write(1);
  for (const double memory : {0, 4}) {
    const Splits data = Arrays{.path = folder / "x.h5", .normalize = false, .holdout = 0.5f, .memory = memory}.open();
    for (const auto& half : {data.train, data.test}) {
      const bool is_first = sample_label(*half, 0) == 1;
      EXPECT_THAT(sample_values(*half, 0), is_first ? ElementsAre(1, 0, 1) : ElementsAre(0, 1, 1));
    }
  }
  write(2);
  EXPECT_THAT(error(folder / "x.h5"), HasSubstr("/images holds a bool other than 0 and 1"));
}

TEST(Hdf5Arrays, ThatOtherVersionsWriteAreNotCalledDamaged) {
  const TempFolder folder;
  {
    Hdf5File file(folder / "old.h5");
    file.dataset<std::uint8_t>("images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 5, 7}, Bytes(70));
    file.dataset<std::uint8_t>("labels", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2}, {0, 1});
  }
  EXPECT_EQ(error(folder / "old.h5"), "no error");
  // The message that says where 70 bytes are: its version, 1 for `in one piece`, their address, their number.
  Bytes bytes = read_file(folder / "old.h5", 1 << 20);
  const auto is_layout = [&](std::size_t at) { return bytes[at] == 3 && bytes[at + 1] == 1 && bytes[at + 10] == 70; };
  std::size_t at = 0;
  while (at + 11 < bytes.size() && !is_layout(at)) ++at;
  ASSERT_LT(at + 11, bytes.size());
  bytes[at] = 99;
  write_file(folder / "new.h5", bytes);
  EXPECT_THAT(error(folder / "new.h5"),
              AllOf(HasSubstr("new.h5: /images is newer than HDF5 " + hdf5::version() + " reads, or damaged"),
                    HasSubstr("; write it with h5py.File(NAME, \"w\", libver=(\"earliest\", \"v110\"))")));
  // As a program leaves it that still writes, or that was ended.
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const hid_t open = H5Fcreate((folder / "open.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Fflush(open, H5F_SCOPE_GLOBAL);
  fs::copy(folder / "open.h5", folder / "copy.h5");
  H5Fclose(open);
  H5Pclose(access);
  EXPECT_THAT(error(folder / "copy.h5"),
              HasSubstr("copy.h5: is still open for writing in another program, or was when"));
}

TEST(Hdf5Arrays, TakeNeonsLayoutInTwoFiles) {
  const TempFolder folder;
  for (const char* name : {"train.h5", "val.h5"}) {
    Hdf5File file(folder / name);
    std::vector<float> values(5 * 12);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    file.dataset("input", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {5, 12}, values);
    file.attribute("input", "lshape", {3, 2, 2});
    file.dataset<float>("mean", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {3}, {1, 2, 3});
    file.dataset<double>("output", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {5, 1}, {0.5, 1, 2, 3, 4});
  }
  const Splits data = Arrays{.path = folder.path(), .normalize = false}.open();
  EXPECT_EQ(data.train->size(), 5);
  EXPECT_EQ(data.test->size(), 5);
  EXPECT_EQ(data.train->sample_shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(data.train->target(), (SampleTarget{Dtype::f32, {}}));
  EXPECT_EQ(sample_target<float>(*data.train, 0)[0], 0.5f);
  EXPECT_EQ(sample_values(*data.train, 1)[0], 12);
}

TEST(Hdf5Arrays, SayWhatTheyCannotRead) {
  const TempFolder folder;
  {
    Hdf5File file(folder / "a.h5");
    file.dataset<std::uint8_t>("images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 4}, std::vector<std::uint8_t>(8));
    file.attribute("images", "lshape", {3, 2, 2});
    file.dataset<std::uint8_t>("labels", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2}, {0, 1});
  }
  EXPECT_THAT(error(folder / "a.h5"), HasSubstr("images has 4 numbers for a sample, its lshape is [3, 2, 2]"));
  {
    Hdf5File file(folder / "b.h5");
    file.dataset<std::uint8_t>("other", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2}, {0, 1});
  }
  EXPECT_THAT(error(folder / "b.h5"), HasSubstr("b.h5: holds other, expected x_train"));
  write_file(folder / "c.h5", {1, 2, 3});
  EXPECT_THAT(error(folder / "c.h5"), HasSubstr("write it again"));
  EXPECT_THAT(error(folder / "none.h5"),
              HasSubstr("cannot be read: No such file or directory; check the path and its permissions"));
}

}  // namespace
}  // namespace nixie
