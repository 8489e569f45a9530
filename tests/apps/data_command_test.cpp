// trainer data: what it prints of a folder, which pictures it finds damaged, and that packed data are the same samples.
#include "nixie/apps/trainer/commands/data_scan.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/data/arrays.h"
#include "nixie/data/files/packed_file.h"
#include "nixie/data/image_folder.h"
#include "nixie/data/mnist.h"
#include "nixie/data/packed.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/apps/pets_folder.h"
#include "nixie/tests/data/samples.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

using DataCommandTest = PetsFolder;

TEST_F(DataCommandTest, InspectCountsAndMeasures) {
  const Ran ran = data("inspect pets");
  expect_ran(ran, 0, "pictures: 24 x 20 to 33 x 49 pixels, in the middle 30 x 40\n",
             "data image_folder: 18 training and 2 test samples of 2 classes, each [3, 30, 30] of bytes",
             "left out 1 .txt files", ContainsRegex("cat +9 +1\ndog +9 +1\n"));
  // The mean and deviation, from the samples themselves.
  const Splits splits = ImageFolder{.path = path("pets"), .crop = 30, .resize = 30}.open();
  double sum = 0, square = 0;
  for (std::int64_t i = 0; i < 18; ++i) {
    const Bytes bytes = sample_bytes(*splits.train, i);
    for (std::size_t k = 0; k < 900; ++k) sum += bytes[k] / 255.0, square += bytes[k] / 255.0 * bytes[k] / 255.0;
  }
  const double mean = sum / (18 * 900), deviation = std::sqrt(square / (18 * 900) - mean * mean);
  EXPECT_THAT(ran.output, ContainsRegex(fmt::format("mean .{:.4f}, .*deviation .{:.4f},", mean, deviation)));
}

TEST_F(DataCommandTest, VerifyNamesEveryDamagedPicture) {
  EXPECT_EQ(data("verify pets").output,
            path("pets") + ": took 20 pictures, left out 1 .txt files\n20 samples can be read, 0 cannot\n");
  std::ofstream(folder_ / "pets/cat/3.png") << "nothing";
  const Bytes whole = jpeg(picture(30, 40));
  write_file(folder_ / "pets/dog/5.jpg",
             Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2)));
  for (const char* action : {"verify ", "inspect "})
    expect_ran(data(action + path("pets")), 5, "cat/3.png: 7 bytes: neither JPEG nor PNG", "dog/5.jpg: damaged JPEG");
  EXPECT_THAT(data("verify pets").output, HasSubstr("18 samples can be read, 2 cannot\n"));
  // Nothing is packed of damaged data, unless the damage is left out.
  EXPECT_EQ(data("pack pets packed").code, 5);
  EXPECT_FALSE(fs::exists(folder_ / "packed/test.packed"));
  const Ran skipped = data("pack pets packed --set data.image_folder.damaged=skip");
  EXPECT_EQ(skipped.code, 0) << skipped.output;
  // Nor in the place of packed data, of which a run may go on.
  const std::string before = text_of(folder_ / "packed/train.packed");
  EXPECT_THAT(skipped.output, HasSubstr(fmt::format(", {} bytes\n", before.size())));
  expect_ran(data("pack pets packed --set data.image_folder.damaged=skip"), 2,
             "packed/train.packed is there already; name another folder, or remove");
  EXPECT_EQ(text_of(folder_ / "packed/train.packed"), before);
}

// It may be whole.
TEST_F(DataCommandTest, WhatTheSystemRefusesIsNoDamage) {
  const Splits splits = ImageFolder{.path = path("pets"), .crop = 8, .resize = 8}.open();
  fs::permissions(folder_.path(), fs::perms::all);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "pets/cat"))
    fs::permissions(entry.path(), fs::perms::none);
  const Unprivileged user;
  EXPECT_FAULT(storage, ".png: cannot be read: Permission denied; check the path and its permissions",
               scan_data(*splits.train));
}

// Numbers as they are in the file, not as training normalises them.
TEST_F(DataCommandTest, InspectMeasuresTargetsThatAreNumbers) {
  std::ofstream table(folder_ / "houses.csv");
  table << "rooms,price\n";
  for (int i = 0; i < 8; ++i) table << i << ',' << 10 * i + 0.5 << '\n';
  table.close();
  const Ran ran = data("inspect houses.csv --set data.arrays.holdout=0.25");
  expect_ran(ran, 0, "6 training and 2 test samples with a number, each [1, 1, 1] of floats\n");
  const Splits splits = Arrays{.path = path("houses.csv"), .normalize = false, .holdout = 0.25f}.open();
  double sum = 0, square = 0, least = 1e9, most = -1e9;
  for (std::int64_t i = 0; i < 6; ++i) {
    const float price = sample_target<float>(*splits.train, i)[0];
    sum += price, square += price * price, least = std::min<double>(least, price), most = std::max<double>(most, price);
  }
  const double mean = sum / 6, deviation = std::sqrt(square / 6 - mean * mean);
  EXPECT_THAT(ran.output, HasParts(ContainsRegex(fmt::format("target 0 +training +{:.6g} +{:.6g} +{:.6g} +{:.6g}\n",
                                                             mean, deviation, least, most)),
                                   fmt::format("values of the training half: mean [{:.4f}]", (mean - 0.5) / 10)));
}

// A block's checksum is checked once.
TEST_F(DataCommandTest, PackedDataThatAreWrittenToAfterThatAreRefused) {
  pack_pets(12);
  const auto train = Packed{.path = folder_ / "packed"}.open().train;
  const Bytes sample = sample_bytes(*train, 1);
  EXPECT_EQ(sample_bytes(*train, 1), sample);
  std::fstream file(folder_ / "packed/train.packed", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 3 * 12 * 12);
  file.put(static_cast<char>(sample[0] ^ 1));
  file.close();
  EXPECT_FAULT(data, "packed/train.packed has changed since it was read first; put the old file back and resume",
               sample_bytes(*train, 1));
}

TEST_F(DataCommandTest, ADamagedBlockOfPackedDataIsNamedOnce) {
  pack_pets(12);
  std::string bytes = text_of(folder_ / "packed/train.packed");
  bytes[4096 + 100] = static_cast<char>(bytes[4096 + 100] + 1);
  std::ofstream(folder_ / "packed/train.packed", std::ios::binary) << bytes;
  const Ran ran = data("verify packed");
  EXPECT_EQ(ran.code, 5) << ran.output;
  EXPECT_EQ(ran.output.find("is damaged between"), ran.output.rfind("is damaged between")) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("2 samples can be read, 18 cannot\n"));
}

TEST_F(DataCommandTest, PackedSamplesAreThoseOfTheSource) {
  const Ran ran = data("pack pets packed --side 24 --set data.image_folder.holdout=0.3");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("train.packed: 14 samples [3, 24, 24], "));
  const Splits source = ImageFolder{.path = path("pets"), .crop = 24, .resize = 24, .holdout = 0.3f}.open(),
               packed = Packed{.path = path("packed")}.open();
  EXPECT_EQ(packed.train->class_names(), (std::vector<std::string>{"cat", "dog"}));
  for (const auto& [from, to] : {std::pair{source.train, packed.train}, {source.test, packed.test}}) {
    ASSERT_EQ(from->size(), to->size());
    ASSERT_EQ(from->sample_shape(), to->sample_shape());
    for (std::int64_t i = 0; i < from->size(); ++i) {
      EXPECT_EQ(sample_label(*from, i), sample_label(*to, i));
      EXPECT_EQ(sample_bytes(*from, i), sample_bytes(*to, i)) << i;
    }
  }
  // Normalised by the training half's own numbers: of mean 0 and deviation 1.
  double sum = 0, square = 0;
  for (std::int64_t i = 0; i < packed.train->size(); ++i) {
    const std::vector<float> pixels = sample_values(*packed.train, i);
    for (std::size_t k = 0; k < 24 * 24; ++k) sum += pixels[k], square += pixels[k] * pixels[k];
  }
  const double count = static_cast<double>(packed.train->size()) * 24 * 24;
  EXPECT_NEAR(sum / count, 0, 1e-4);
  EXPECT_NEAR(square / count, 1, 1e-3);
  EXPECT_EQ(packed.train->preparation().short_side, 24);
}

// Training samples are any crop of the stored one, mirrored or not, or it moved by up to `pad` pixels.
TEST_F(DataCommandTest, PackedSamplesAreCutAndPadded) {
  pack_pets(12);
  const auto open = [&](const Packed& packed) { return packed.open().train; };
  const auto whole = open({.path = path("packed")}), cut = open({.path = path("packed"), .crop = 10, .flip = true}),
             padded = open({.path = path("packed"), .pad = 2, .flip = true});
  const Shape stored{3, 12, 12};
  EXPECT_EQ(cut->sample_shape(), (Shape{3, 10, 10}));
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(moves_of(*cut, i, sample_bytes(*whole, i), stored, {0, 0}, {2, 2}, 200).size(), 18u);
  EXPECT_EQ(moves_of(*padded, 0, sample_bytes(*whole, 0), stored, {-2, -2}, {2, 2}, 400).size(), 50u);
  // Evaluation: the centre, and the image itself.
  EXPECT_EQ(sample_bytes(*cut, 0), moved(sample_bytes(*whole, 0), stored, {3, 10, 10}, {1, 1}));
  EXPECT_EQ(sample_bytes(*padded, 0), sample_bytes(*whole, 0));
  EXPECT_FAULT(usage, "set one", Packed{.path = path("packed"), .pad = 2, .augment = {.scale = {0.5f, 1}}}.open());
}

TEST_F(DataCommandTest, ATrainingRunReadsThem) {
  pack_pets(12);
  std::ofstream(folder_ / "net.yaml") << "model: [flatten, {linear: {out: 2}}]\n"
                                         "data: {image_folder: {batch: 4, crop: 12, resize: 12}}\n"
                                         "schedule: {constant: {rate: 0.01}}\nepochs: 2\nbackend: cpu\n";
  expect_ran(
      folder_.trainer(
          "--config net.yaml --data packed --run run --set data.packed.augment='{scale: [0.5, 1], brightness: 0.2}'"),
      0, "data packed: 18 training and 2 test samples of 2 classes, 4 steps of 4");
  EXPECT_EQ(data("verify packed").output, "20 samples can be read, 0 cannot\n");
  EXPECT_THAT(data("inspect packed").output, HasSubstr("mean [0."));
  expect_ran(folder_.trainer("predict --run run pets/cat/1.png"), 0);
}

TEST_F(DataCommandTest, GreyDigitsArePackedToo) {
  const Bytes images = big_endian({0x803, 3, 2, 2}) + Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255},
              labels = big_endian({0x801, 3}) + Bytes{7, 0, 9};
  for (const char* half : {"train", "t10k"}) {
    write_file(folder_ / fmt::format("mnist/{}-images-idx3-ubyte", half), images);
    write_file(folder_ / fmt::format("mnist/{}-labels-idx1-ubyte", half), labels);
  }
  ASSERT_EQ(data("pack mnist packed").code, 0);
  const PackedFile file(folder_ / "packed/train.packed");
  EXPECT_THAT(file.labels(), ElementsAre(7, 0, 9));
  EXPECT_THAT(file.sample(2), ElementsAre(8, 9, 10, 255));
  EXPECT_THAT(data("pack mnist packed --side 9").output, HasSubstr("--side is for pictures"));
}

// Every byte counts: a change anywhere is refused when the file is opened or the sample is read.
TEST_F(DataCommandTest, DamagedPackedFilesAreRefused) {
  pack_pets(4);
  const std::string whole = text_of(folder_ / "packed/train.packed");
  const fs::path file = folder_ / "damaged.packed";
  const auto message_of = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    return error_of(Fault::data, [&] {
      const PackedFile packed(file);
      for (std::int64_t i = 0; i < packed.header().samples; ++i) packed.sample(i);
    });
  };
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_NO_THROW(PackedFile(file).sample(17));
  for (std::size_t at = 0; at < whole.size(); at += at < 400 || at > 4090 ? 7 : 397) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    EXPECT_THAT(message_of(changed), HasSubstr("damaged.packed: ")) << at;
  }
  for (const std::size_t size : {std::size_t{1}, std::size_t{15}, std::size_t{40}, whole.size() / 2, whole.size() - 1})
    EXPECT_THAT(message_of(whole.substr(0, size)), HasSubstr("pack the data again")) << size;
  EXPECT_THAT(message_of(whole + "x"), HasSubstr("its header announces"));
  std::string changed = whole;
  changed[4096 + 50] = static_cast<char>(changed[4096 + 50] ^ 1);
  EXPECT_THAT(message_of(changed), HasSubstr("is damaged between the bytes 4096 and 4960 (samples 0 to 17)"));
  EXPECT_THAT(message_of(""), HasSubstr("is empty"));
  EXPECT_FAULT(data, "none.packed: cannot be read: No such file or directory; make it with `trainer data pack`",
               PackedFile(folder_ / "none.packed"));
}

TEST_F(DataCommandTest, SaysWhatIsWrong) {
  fs::create_directories(folder_ / "empty");
  std::ofstream(folder_ / "shard.tar.gz") << "x";
  fs::create_directories(folder_ / "loops/one");
  fs::create_symlink("a.png", folder_ / "loops/one/a.png");
  fs::create_directories(folder_ / "other");
  fs::create_symlink("pets", folder_ / "link");
  expect_runs([&](const std::string& arguments) { return data(arguments); },
              {{"", 2, "ACTION is required"},
               {"mend x", 2, "inspect"},
               {"inspect none", 5, "none: no such folder, .csv, .tar, .npz or .h5 file; name one as SOURCE"},
               {"inspect shard.tar.gz", 5, "shard.tar.gz: is no folder, .csv, .tar"},
               {"inspect empty", 5, "neither folders of pictures per class nor"},
               {"inspect loops", 5, "(left out 1 links to nothing (the first: one/a.png))"},
               {"verify loops", 5, "(left out 1 links to nothing (the first: one/a.png))"},
               {"pack pets", 2, "name a folder behind the source"},
               {"pack pets pets/.", 2, "pets/. is the source or in it; name another folder"},
               {"pack pets pets/new/sub", 2, "pets/new/sub is the source or in it"},
               {"pack pets link/packed", 2, "link/packed is the source or in it"},
               {"pack pets/../pets other/../pets/cat", 2, "is the source or in it"},
               {"pack pets /proc/nixie", 8, "/proc/nixie: cannot be made"},
               {"pack pets packed --set data.image_folder.cropp=3", 2, "did you mean \"crop\"?"}});
}

// Commands with a batch say so themselves (with_batch_advice).
TEST(ExitCode, WantOfMemoryIsNoMatterOfABatch) {
  testing::internal::CaptureStderr();
  const int code = exit_code_of(Output::log, []() -> int { throw std::bad_alloc(); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "out of memory; end other programs, or take a machine with more memory\n");
  EXPECT_EQ(code, 4);
}

TEST(ExitCode, WhatTheSystemRefusesSaysWhatToDo) {
  for (const auto& [error, remedy] : {std::pair{EMFILE, "close other files, or raise `ulimit -n`"},
                                      {EACCES, "check the path and its permissions"},
                                      {ENAMETOOLONG, "check the path and its permissions"},
                                      {EIO, "check the disk"}}) {
    testing::internal::CaptureStderr();
    const std::error_code cause(error, std::generic_category());
    const int code = exit_code_of(Output::log, [&]() -> int { throw fs::filesystem_error("open", "er", cause); });
    EXPECT_EQ(testing::internal::GetCapturedStderr(), fmt::format("er: {}; {}\n", cause.message(), remedy));
    EXPECT_EQ(code, 8);
  }
}

}  // namespace
}  // namespace nixie
