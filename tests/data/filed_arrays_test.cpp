// Arrays that are larger than the memory they may take: read from their file by the sample, in pieces of bounded size.
#include "nixie/data/arrays.h"
#include "nixie/data/files/array_samples.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/loader.h"
#include "nixie/tests/data/arrays.h"

namespace nixie {
namespace {

constexpr hsize_t kSamples = 23, kHeight = 5, kWidth = 4, kChannels = 3;

/// Images in chunks that end within a row of chunks, channels last; whole numbers up to 200.
template <class T>
void write_arrays(const fs::path& path, hid_t type, hid_t native) {
  std::vector<T> pixels(kSamples * kHeight * kWidth * kChannels);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<T>(i * i % 201);
  std::vector<std::int32_t> labels(kSamples);
  std::iota(labels.begin(), labels.end(), 0);
  Hdf5File file(path);
  file.dataset("images", type, native, {kSamples, kHeight, kWidth, kChannels}, pixels, {4, 3, 4, 3});
  file.dataset("labels", H5T_STD_I32LE, H5T_NATIVE_INT32, {kSamples}, labels);
}

/// Writes images and alternating labels.
template <class T>
void write_hdf5(const fs::path& path, const std::vector<hsize_t>& shape, const std::vector<T>& pixels,
                const std::vector<hsize_t>& chunk = {}) {
  const bool are_bytes = std::is_same_v<T, std::uint8_t>;
  Bytes labels;
  for (hsize_t i = 0; i < shape[0]; ++i) labels.push_back(i % 2);
  Hdf5File file(path);
  file.dataset("images", are_bytes ? H5T_STD_U8LE : H5T_IEEE_F32LE, are_bytes ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT,
               shape, pixels, chunk);
  file.dataset("labels", H5T_STD_U8LE, H5T_NATIVE_UINT8, {shape[0]}, labels);
}

/// Every batch of an epoch: pixels, as they reach a step before normalisation, and labels.
std::vector<std::vector<float>> epoch_of(const std::shared_ptr<const Dataset>& dataset, int threads, bool training) {
  Loader loader(dataset, {.batch = 3, .threads = threads}, 7, training);
  std::vector<std::vector<float>> batches;
  while (const Batch* batch = loader.next()) {
    std::vector<float> values;
    if (batch->images.dtype() == Dtype::u8)
      for (const std::uint8_t x : batch->images.data<std::uint8_t>()) values.push_back(x);
    else
      for (const float x : batch->images.data<float>()) values.push_back(x);
    for (const std::int32_t label : batch->labels.data<std::int32_t>()) values.push_back(static_cast<float>(label));
    batches.push_back(std::move(values));
  }
  return batches;
}

TEST(FiledArrays, GiveTheSamplesThatMemoryGives) {
  const TempFolder folder;
  write_arrays<std::uint8_t>(folder / "bytes.h5", H5T_STD_U8LE, H5T_NATIVE_UINT8);
  write_arrays<double>(folder / "numbers.h5", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE);
  for (const char* name : {"bytes.h5", "numbers.h5"}) {
    Arrays options{.path = folder / name, .pad = 1, .flip = true, .holdout = 0.3f};
    const Splits held = options.open();
    options.memory = 0;
    const Splits filed = options.open();
    EXPECT_EQ(filed.train->sample_shape(), (Shape{3, 5, 4})) << name;
    EXPECT_EQ(filed.train->preparation().mean, held.train->preparation().mean) << name;
    EXPECT_EQ(filed.train->preparation().deviation, held.train->preparation().deviation) << name;
    EXPECT_EQ(epoch_of(filed.train, 4, true), epoch_of(held.train, 1, true)) << name;
    EXPECT_EQ(epoch_of(filed.test, 4, false), epoch_of(held.test, 1, false)) << name;
  }
}

TEST(FiledArrays, HaveAFingerprintOfTheirSamples) {
  const TempFolder folder;
  std::vector<std::uint8_t> pixels(6 * 2 * 2, 1);
  const auto fingerprint = [&](const char* name) {
    write_hdf5(folder / name, {6, 2, 2}, pixels, {2, 2, 2});
    const Splits data = Arrays{.path = folder / name, .normalize = false, .holdout = 0.5f, .memory = 0}.open();
    return std::pair(data.train->fingerprint(), data.test->fingerprint());
  };
  const auto first = fingerprint("a.h5");
  EXPECT_EQ(fingerprint("b.h5"), first);
  pixels[5 * 4] = 2;
  EXPECT_NE(fingerprint("c.h5"), first);
}

TEST(FiledArrays, ThatAreWrittenToWhileTheyAreReadAreRefused) {
  const TempFolder folder;
  constexpr std::size_t kSide = 300;  // images that HDF5 does not keep
  Bytes pixels;
  for (std::uint8_t i = 1; i <= 6; ++i) pixels.insert(pixels.end(), kSide * kSide, i);
  write_hdf5(folder / "x.h5", {6, kSide, kSide}, pixels);
  const auto data = Arrays{.path = folder / "x.h5", .normalize = false, .holdout = 0.5f, .memory = 0}.open().train;
  const auto first = epoch_of(data, 1, false);
  EXPECT_EQ(epoch_of(data, 2, false), first);
  const Bytes bytes = read_file(folder / "x.h5", 1 << 20), pattern(100, static_cast<std::uint8_t>(first[0][0]));
  const auto sample = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  ASSERT_NE(sample, bytes.end());
  std::fstream file(folder / "x.h5", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(sample - bytes.begin());
  file.put('\x7f');
  file.close();
  EXPECT_FAULT(
      data,
      testing::Eq((folder / "x.h5").string() +
                  ": images has changed since it was read first; put the old file back and resume, or begin a new run"),
      epoch_of(data, 1, false));
}

/// Images of a number each that count what is asked for.
struct CountedRows final : ArrayRows {
  NumberArray form_{.type = "u1", .shape = {64, 512, 512}};
  mutable std::int64_t most = 0, all = 0;

  const NumberArray& form() const override { return form_; }
  NumberArray read(std::int64_t first, std::int64_t count) const override {
    most = std::max(most, count);
    all += count;
    NumberArray rows{.type = "u1", .shape = {count, 512, 512}};
    for (std::int64_t i = first; i < first + count; ++i)
      rows.bytes.insert(rows.bytes.end(), 512 * 512, static_cast<std::uint8_t>(i));
    return rows;
  }
};
struct CountedSource final : ArraySource {
  CountedSource() : ArraySource("counted") {}
  std::shared_ptr<CountedRows> counted = std::make_shared<CountedRows>();

  std::vector<std::string> names() const override { return {"images"}; }
  NumberArray array(const std::string&) const override { throw std::logic_error("read whole"); }
  std::shared_ptr<const ArrayRows> rows(const std::string&) const override { return counted; }
};

TEST(FiledArrays, AreMeasuredAPieceAtATime) {
  const CountedSource source;
  const ArrayImages images = images_of(source, "images", "auto", "x.h5", 1e6);
  ASSERT_TRUE(images.filed);
  const std::vector<std::size_t> odd = {1, 3, 5, 33, 61, 63};
  std::vector<float> mean, deviation;
  const ArrayImages part = part_of(images, odd);
  measure_images(part, mean, deviation);
  EXPECT_THAT(mean, ElementsAre(testing::FloatNear((1 + 3 + 5 + 33 + 61 + 63) / 6.0f / 255, 1e-6f)));
  EXPECT_LE(source.counted->most * 512 * 512, 4 << 20) << "elements read at once";
  EXPECT_EQ(part.filed->read<std::uint8_t>(3, 2).size(), 2u * 512 * 512);
  EXPECT_EQ(part.filed->read<std::uint8_t>(4, 1).front(), 61);
  EXPECT_EQ(images_of(source, "images", "auto", "x.h5", 1e6).filed->chosen.size(), 64u);
}

TEST(FiledArrays, SayWhatIsWrongWithASample) {
  const TempFolder folder;
  std::vector<float> pixels(6 * 2 * 2, 1);
  pixels[4 * 4 + 1] = std::numeric_limits<float>::infinity();
  write_hdf5(folder / "x.h5", {6, 2, 2}, pixels, {2, 2, 2});
  const Splits data =
      Arrays{.path = folder / "x.h5", .normalize = false, .holdout = 0.5f, .memory = 0}.open();  // nothing is read yet
  std::string found;
  std::vector<float> sample(4);
  for (const auto& half : {data.train, data.test})
    for (std::int64_t i = 0; i < half->size(); ++i) {
      const std::string error = error_of(Fault::data, [&] { half->load(i, {}, sample); });
      if (error != "no error") found += error;
    }
  EXPECT_THAT(found, HasSubstr("x.h5: images: sample 4 holds inf, expected numbers that are finite"));
}

// HDF5 would give zeros for an array that is not stored in chunks.
TEST(FiledArrays, AFileThatIsCutOffMeanwhileIsTold) {
  const TempFolder folder;
  write_hdf5(folder / "x.h5", {60, 20, 20}, std::vector<float>(60 * 400, 1));
  const Splits data = Arrays{.path = folder / "x.h5", .normalize = false, .memory = 0}.open();
  std::vector<float> sample(400);
  data.train->load(0, {}, sample);
  fs::resize_file(folder / "x.h5", 20000);
  EXPECT_FAULT(data, "is cut off: the file has 20000 bytes, and had ", data.train->load(50, {}, sample));
}

}  // namespace
}  // namespace nixie
