// numpy's files: two that numpy 2.4 wrote, others built by hand, and damaged copies of them.
//   numpy.savez(images=arange(12, uint8).reshape(2, 2, 3), labels=[0, 1])
//   numpy.savez_compressed(x_train=arange(36, uint8).reshape(3, 2, 2, 3), y_train=[2, 0, 1], x_test=..., y_test=[1])
#include "nixie/data/arrays.h"

#include "nixie/data/files/input_file.h"
#include "nixie/data/files/npy_file.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

const fs::path kFixtures = fs::path(NIXIE_SOURCE_DIR) / "tests/data/fixtures";

TEST(NpyFile, ReadsWhatNumpyWrites) {
  const NpyFile stored(kFixtures / "numpy_stored.npz"), deflated(kFixtures / "numpy_deflated.npz");
  EXPECT_THAT(stored.names(), ElementsAre("images", "labels"));
  const NumberArray images = stored.array("images");
  EXPECT_EQ(images.type, "u1");
  EXPECT_THAT(images.shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(images.bytes, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(*integers_of(stored.array("labels")), ElementsAre(0, 1));
  EXPECT_THAT(*integers_of(deflated.array("y_train")), ElementsAre(2, 0, 1));
  EXPECT_EQ(deflated.array("x_train").bytes.size(), 36u);
  EXPECT_EQ(deflated.array("x_train").bytes.back(), 35);
}

// From 65,535 arrays on their number is in a record of zip64.
TEST(NpyFile, HasAsManyArraysAsItsDirectory) {
  const TempFolder folder;
  const Bytes one = npy("|b1", "(1,)", {1});
  const std::vector<std::pair<std::string, Bytes>> arrays = {{"a", one}, {"b", one}, {"c", one}};
  write_file(folder / "x.npz", npz(arrays));
  EXPECT_THAT(NpyFile(folder / "x.npz").names(), ElementsAre("a", "b", "c"));
  write_file(folder / "x.npz", npz(arrays, 0xffff));
  EXPECT_THAT(NpyFile(folder / "x.npz").names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(*integers_of(NpyFile(folder / "x.npz").array("c")), ElementsAre(1));
  write_file(folder / "x.npz", npz(arrays, 2));
  EXPECT_FAULT(data, "x.npz: has more entries than the 2 of its directory", NpyFile(folder / "x.npz"));
  write_file(folder / "x.npz", npz(arrays, 4));
  EXPECT_FAULT(data, "has a damaged directory", NpyFile(folder / "x.npz"));
  Bytes lost = npz(arrays, 0xffff);
  lost[lost.size() - 22 - 20 + 15] = 0xff;  // the offset of zip64's end
  write_file(folder / "x.npz", lost);
  EXPECT_FAULT(data, "is cut off", NpyFile(folder / "x.npz"));
}

TEST(NpyFile, EveryDamagedByteIsRefusedOrHarmless) {
  const TempFolder folder;
  for (const char* name : {"numpy_stored.npz", "numpy_deflated.npz"}) {
    const Bytes whole = read_file(kFixtures / name, 1 << 20);
    const NpyFile good(kFixtures / name);
    const auto expect_refused_or_same = [&](const Bytes& bytes) {
      write_file(folder / "x.npz", bytes);
      try {
        const NpyFile file(folder / "x.npz");
        for (const std::string& array : good.names())
          if (const auto names = file.names(); std::ranges::find(names, array) != names.end()) {
            EXPECT_EQ(file.array(array).bytes, good.array(array).bytes);
          }
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::data);
        EXPECT_THAT(error.what(), HasSubstr("x.npz: "));
      }
    };
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const int flip : {1, 0x80, 0xff}) {
        Bytes changed = whole;
        changed[at] = static_cast<std::uint8_t>(changed[at] ^ flip);
        expect_refused_or_same(changed);
      }
    for (std::size_t size = 0; size < whole.size(); size += 7)
      expect_refused_or_same(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

TEST(NpyFile, SaysWhatItCannotRead) {
  const TempFolder folder;
  const auto error_with = [&](const Bytes& bytes) {
    write_file(folder / "a/images.npy", bytes);
    return error_of(Fault::data, [&] { NpyFile(folder / "a").array("images"); });
  };
  const Bytes six = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(error_with(npy(">f4", "(2, 3)", six)), HasSubstr("has the type '>f4', expected little-endian"));
  EXPECT_THAT(error_with(npy("|u1", "(2, 3)", six, "True")), HasSubstr("a: images: is in Fortran's order"));
  EXPECT_THAT(error_with(npy(">i2", "(3,)", six)), HasSubstr("expected little-endian numbers"));
  const auto error_of_type = [&](const std::string& descr) {
    const Bytes bytes = npy("|u1", "(3,)", six);
    std::string text(bytes.begin(), bytes.end());
    const std::string::size_type at = text.find("'|u1'");
    text.replace(at, 5, descr);
    text[8] = static_cast<char>(text[8] + static_cast<int>(descr.size()) - 5);  // the header's length
    return error_with({text.begin(), text.end()});
  };
  const std::string classes = "for classes those of numpy.unique(images, return_inverse=True)[1]; save it again";
  const struct {
    std::string descr, words;
  } kTypes[] = {{"'|O'", "has the type '|O', which holds Python objects, expected numbers, " + classes},
                {"'|O8'", "has the type '|O8', which holds Python objects, expected numbers"},
                {"'<U12'", "has the type '<U12', which holds text, expected numbers, " + classes},
                {"'|S1'", "has the type '|S1', which holds text, expected numbers, " + classes},
                {"[('a', '<i4'), (\"b]'\", '<f4')]",
                 "has the type [('a', '<i4'), (\"b]'\", '<f4')], which holds records, expected numbers, such as one of "
                 "their fields"},
                {"[('a', [('b', '<i4')])]", "has the type [('a', [('b', '<i4')])], which holds records"},
                {"'<M8[D]'", "has the type '<M8[D]', expected little-endian numbers, as of astype(\"<f4\")"},
                {"'<c16'", "has the type '<c16', expected little-endian numbers"},
                {"'<f16'", "has the type '<f16', expected little-endian numbers"},
                {"[('a', '<i4')", "has a damaged header"},
                {"'<b4'", "has the type '<b4', expected little-endian numbers"},
                {"'<f1'", "has the type '<f1', expected little-endian numbers"},
                {"'|u4'", "has the type '|u4', expected little-endian numbers"},
                {"'xu1'", "has the type 'xu1', expected little-endian numbers"},
                {"''", "has the type '', expected little-endian numbers"},
                {"<f4", "has a damaged header"}};
  for (const auto& [descr, words] : kTypes)
    EXPECT_THAT(error_of_type(descr), StartsWith((folder / "a").string() + ": images: " + words)) << descr;
  EXPECT_THAT(error_with(npy("|u1", "(7,)", six)), HasSubstr("is cut off"));
  EXPECT_THAT(error_with(npy("|u1", "(5,)", six)), HasSubstr("has 6 bytes of elements, its shape needs 5"));
  EXPECT_THAT(error_with(npy("<u8", "(4294967296, 4294967296, 4294967296)", six)), HasSubstr("is cut off"));
  EXPECT_THAT(error_with(npy("|u1", "(-1,)", six)), HasSubstr("has a damaged header"));
  EXPECT_THAT(error_with({1, 2, 3}), HasSubstr("is no array"));
  EXPECT_THAT(error_with(npy("|u1", "(2, 3), 'shape': (3, 2)", six)), HasSubstr("has a damaged header"));
  EXPECT_THAT(error_with(npy("|u1", "(2, 3)", six, "1")), HasSubstr("has a damaged header"));
  EXPECT_THAT(error_with(npy(
                  "|u1",
                  "(6" +
                      [] {
                        std::string ones;
                        for (int i = 0; i < 64; ++i) ones += ", 1";
                        return ones;
                      }() +
                      ")",
                  six)),
              HasSubstr("has a damaged header"));
  Bytes later = npy("|u1", "(2, 3)", six);
  later[6] = 9;
  EXPECT_THAT(error_with(later), HasSubstr("is of version 9, expected 1 to 3"));
  // Saving such an array again would not change it: the message says what would.
  EXPECT_THAT(error_with(npy("|u1", "(2, 3)", six, "True")), HasSubstr("numpy.ascontiguousarray"));
  write_file(folder / "a/images.npy", npy("<i2", "(0, 7)", {}));
  EXPECT_THAT(NpyFile(folder / "a").array("images").shape, ElementsAre(0, 7));
  write_file(folder / "a/images.npy", npy("<i2", "(3,)", {255, 255, 0, 1, 2, 0}));
  EXPECT_THAT(*integers_of(NpyFile(folder / "a").array("images")), ElementsAre(-1, 256, 2));
  EXPECT_FAULT(data, "the arrays are images", NpyFile(folder / "a").array("none"));
  fs::create_directory(folder / "empty");
  EXPECT_FAULT(data, "holds no .npy file", NpyFile(folder / "empty"));
}

TEST(Arrays, ChannelsComeFirst) {
  const Splits last = Arrays{.path = kFixtures / "numpy_deflated.npz", .normalize = false}.open();
  EXPECT_EQ(last.train->sample_shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(last.train->size(), 3);
  EXPECT_EQ(last.test->size(), 1);
  EXPECT_EQ(last.train->classes(), 3);
  EXPECT_EQ(sample_label(*last.train, 1), 0);
  EXPECT_THAT(sample_bytes(*last.train, 1), ElementsAre(12, 15, 18, 21, 13, 16, 19, 22, 14, 17, 20, 23));
  EXPECT_EQ(sample_label(*last.test, 0), 1);

  const TempFolder folder;
  write_file(folder / "images.npy", npy("|u1", "(2, 3, 1, 2)", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  write_file(folder / "labels.npy", npy("|u1", "(2,)", {4, 0}));
  const Splits first = Arrays{.path = folder.path(), .holdout = 0.5f}.open();
  EXPECT_EQ(first.train->sample_shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(first.train->size() + first.test->size(), 2);
  EXPECT_EQ(first.train->classes(), 5);
  const std::vector<float> pixels = sample_values(*first.train, 0);  // each channel of mean 0 and deviation 1
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(pixels[i], i % 2 == 0 ? -1 : 1, 1e-3);
}

TEST(Arrays, TakesAnyNumberOfChannels) {
  struct Case {
    const char *what, *shape, *layout;
    Shape sample;
  };
  // 2 x 30 bytes each; the axis of channels is 1 or 3, else the shorter one, unless layout says which.
  for (const Case& c : {Case{"last", "(2, 3, 2, 5)", "last", {5, 3, 2}},
                        {"first", "(2, 5, 3, 2)", "first", {5, 3, 2}},
                        {"shorter is first", "(2, 2, 3, 5)", "auto", {2, 3, 5}},
                        {"shorter is last", "(2, 5, 3, 2)", "auto", {2, 5, 3}},
                        {"3 is last", "(2, 2, 5, 3)", "auto", {3, 2, 5}},
                        {"3 is first", "(2, 3, 5, 2)", "auto", {3, 5, 2}},
                        {"not the usual", "(2, 3, 5, 2)", "last", {2, 3, 5}}}) {
    const TempFolder folder;
    Bytes pixels(60);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
    write_file(folder / "images.npy", npy("|u1", c.shape, pixels));
    write_file(folder / "labels.npy", npy("|u1", "(2,)", {1, 0}));
    const Splits data = Arrays{.path = folder.path(), .layout = c.layout, .holdout = 0.5f}.open();
    EXPECT_EQ(data.train->sample_shape(), c.sample) << c.what;
    EXPECT_EQ(data.train->bytes()->normalization().mean().size(), static_cast<std::size_t>(c.sample[0])) << c.what;
    const bool is_last = std::string(c.what).find("last") != std::string::npos || c.layout == std::string("last");
    const Bytes bytes = sample_bytes(*data.train, 0);
    EXPECT_EQ(bytes[1] - bytes[0], is_last ? c.sample[0] : 1) << c.what;
  }
  const TempFolder folder;
  write_file(folder / "images.npy", npy("|u1", "(1, 2, 3, 2)", Bytes(12)));
  write_file(folder / "labels.npy", npy("|u1", "(1,)", {0}));
  EXPECT_FAULT(data, "images has the shape [1, 2, 3, 2]: either axis may be the channels; set layout",
               Arrays{.path = folder.path()}.open());
}

TEST(Arrays, SaysWhatDoesNotFit) {
  const TempFolder folder;
  const auto error_with = [&](const Bytes& images, const Bytes& labels) {
    write_file(folder / "images.npy", images);
    write_file(folder / "labels.npy", labels);
    return error_of(Fault::data, [&] { Arrays{.path = folder.path(), .holdout = 0.5f}.open(); });
  };
  const Bytes two = npy("|u1", "(2, 1, 2)", {1, 2, 3, 4}), labels = npy("|u1", "(2,)", {0, 1});
  EXPECT_EQ(error_with(two, labels), "no error");
  EXPECT_THAT(error_with(npy("<f4", "(2, 1, 1)", {0, 0, 0x80, 0x7f, 0, 0, 0, 0}), labels),
              HasSubstr("images: sample 0 holds inf, expected numbers that are finite"));
  EXPECT_THAT(error_with(two, npy("|b1", "(2,)", {0, 7})), HasSubstr("labels: holds a bool other than 0 and 1"));
  EXPECT_THAT(error_with(npy("<f8", "(2, 1, 1)", bytes_of_numbers<double>({0, 1e39})), labels),
              HasSubstr("images: sample 1 holds 1e+39, expected numbers that are finite in f32"));
  EXPECT_THAT(error_with(npy("|u1", "(4,)", {1, 2, 3, 4}), labels), HasSubstr("images has the shape [4], expected"));
  EXPECT_THAT(error_with(npy("|u1", "(0, 8, 8)", {}), npy("|u1", "(0,)", {})),
              HasSubstr("images has the shape [0, 8, 8], so no sample; save it with at least one"));
  EXPECT_THAT(error_with(npy("|u1", "(2, 0, 8)", {}), labels),
              HasSubstr("images has the shape [2, 0, 8], so no number in a sample; save it with at least one"));
  EXPECT_THAT(error_with(two, npy("|u1", "(3,)", {0, 1, 2})), HasSubstr("labels has 3 targets for 2 images"));
  EXPECT_THAT(error_with(two, npy("|i1", "(2,)", {0, 255})),
              HasSubstr("labels[1] has the target -1, expected classes from 0 on"));
  EXPECT_THAT(error_with(two, npy("<f4", "(2,)", {0, 0, 0, 0, 0, 0, 0x80, 0x7f})),
              HasSubstr("labels[1] has the target inf, expected numbers that are finite in f32"));
  fs::remove(folder / "labels.npy");
  EXPECT_FAULT(data, "holds images, expected x_train", Arrays{.path = folder.path()}.open());
}

}  // namespace
}  // namespace nixie
