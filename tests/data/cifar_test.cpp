// Cifar10 and Cifar100: records, names, augmentation, and files that do not hold what they should.
#include "nixie/data/cifar.h"

#include "nixie/tests/data/samples.h"
#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

constexpr std::size_t kPixels = 3072;

/// Records with labels first, first + 1, ... and pixels that tell sample and place.
Bytes records(int classes, int first, int count) {
  Bytes bytes;
  for (int i = first; i < first + count; ++i) {
    if (classes == 100) bytes.push_back(19);
    bytes.push_back(static_cast<std::uint8_t>(i % classes));
    for (std::size_t k = 0; k < kPixels; ++k)
      bytes.push_back(static_cast<std::uint8_t>(17 * static_cast<std::size_t>(i) + k / 5));
  }
  return bytes;
}

void write_cifar10(const TempFolder& folder) {
  for (int part = 0; part < 5; ++part)
    write_file(folder / ("data_batch_" + std::to_string(part + 1) + ".bin"), records(10, 3 * part, 3));
  write_file(folder / "test_batch.bin", records(10, 100, 4));
}

TEST(Cifar10, ReadsAllRecordsInOrder) {
  TempFolder folder;
  write_cifar10(folder);
  const Splits splits = Cifar10{.path = folder.path(), .normalize = false}.open();
  ASSERT_EQ(splits.train->size(), 15);
  ASSERT_EQ(splits.test->size(), 4);
  EXPECT_EQ(splits.train->sample_shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(splits.train->class_names()[7], "7");
  for (int i = 0; i < 15; ++i) {
    const std::vector<float> image = sample_values(*splits.train, i);
    EXPECT_EQ(sample_label(*splits.train, i), i % 10);
    for (std::size_t k = 0; k < kPixels; ++k)
      ASSERT_FLOAT_EQ(image[k],
                      static_cast<float>(static_cast<std::uint8_t>(17 * static_cast<std::size_t>(i) + k / 5)) / 255.0f);
  }
}

TEST(Cifar10, TakesTheNamesThatComeWithIt) {
  TempFolder folder;
  write_cifar10(folder);
  const std::string names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
  write_file(folder / "batches.meta.txt", Bytes(names.begin(), names.end()));
  EXPECT_EQ(Cifar10{.path = folder.path()}.open().test->class_names()[3], "cat");
  write_file(folder / "batches.meta.txt", {'o', 'n', 'e'});
  EXPECT_FAULT(data, "1 class names, expected 10", Cifar10{.path = folder.path()}.open());
}

TEST(Cifar10, NormalizesEachChannel) {
  TempFolder folder;
  write_cifar10(folder);
  const std::vector<float> image = sample_values(*Cifar10{.path = folder.path()}.open().train, 0);
  const double mean[] = {0.4914, 0.4822, 0.4465}, deviation[] = {0.2470, 0.2435, 0.2616};
  for (std::size_t k = 0; k < kPixels; ++k)
    EXPECT_NEAR(image[k], (static_cast<std::uint8_t>(k / 5) / 255.0 - mean[k / 1024]) / deviation[k / 1024], 1e-5);
}

TEST(Cifar10, AugmentsByShiftAndMirrorOnly) {
  TempFolder folder;
  write_cifar10(folder);
  const auto dataset = Cifar10{.path = folder.path(), .pad = 2}.open().train;
  const Bytes plain = sample_bytes(*dataset, 4, {.seed = 1, .epoch = 5, .training = false});
  EXPECT_EQ(moves_of(*dataset, 4, plain, {3, 32, 32}, {-2, -2}, {2, 2}, 400).size(), 50u)
      << "each shift and mirroring comes up";
}

TEST(Cifar100, ReadsTheFineLabel) {
  TempFolder folder;
  write_file(folder / "train.bin", records(100, 40, 70));
  write_file(folder / "test.bin", records(100, 0, 2));
  const Splits splits = Cifar100{.path = folder.path(), .limit = 65}.open();
  EXPECT_EQ(splits.train->size(), 65);
  EXPECT_EQ(splits.train->classes(), 100);
  for (int i = 0; i < 65; ++i) EXPECT_EQ(sample_label(*splits.train, i), (40 + i) % 100);
}

TEST(Cifar10, RefusesBadFilesInOneLine) {
  Bytes wrong_label = records(10, 0, 3);
  wrong_label[2 * (kPixels + 1)] = 10;
  Bytes cut = records(10, 0, 3);
  cut.pop_back();
  const struct {
    const char* title;
    Bytes content;
    const char* expected;
  } cases[] = {{"empty", {}, "data_batch_3.bin at byte 0: ends inside a record"},
               {"cut", cut, "data_batch_3.bin at byte 9218: ends inside a record, expected records of 3073 bytes"},
               {"CIFAR-100's", records(100, 0, 3), "ends inside a record"},
               {"label", wrong_label, "data_batch_3.bin at byte 6146: label 10 of sample 2 is not in [0, 9]"}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.title);
    TempFolder folder;
    write_cifar10(folder);
    write_file(folder / "data_batch_3.bin", each.content);
    EXPECT_FAULT(data, each.expected, Cifar10{.path = folder.path()}.open());
  }
  TempFolder folder;
  EXPECT_FAULT(data, "data_batch_1.bin: cannot be read: No such file", Cifar10{.path = folder.path()}.open());
}

void try_mutants(int count) {
  TempFolder folder;
  write_cifar10(folder);
  std::mt19937 random(2);
  const Bytes good = records(10, 0, 3);
  int refused = 0;
  for (int mutant = 0; mutant < count; ++mutant) {
    Bytes bytes = good;
    if (mutant % 2)
      bytes[random() % 3 * (kPixels + 1)] = static_cast<std::uint8_t>(random());
    else
      bytes.resize(random() % 20000);
    write_file(folder / "test_batch.bin", bytes);
    try {
      const auto test = Cifar10{.path = folder.path()}.open().test;
      for (std::int64_t i = 0; i < test->size(); ++i) EXPECT_LT(sample_label(*test, i), 10);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, count / 10 * 9);
}

TEST(Cifar10, SurvivesMutants) { try_mutants(1000); }
TEST(Cifar10, SurvivesMoreMutantsLong) { try_mutants(10000); }

}  // namespace
}  // namespace nixie
