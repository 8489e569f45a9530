// The words for a half in names of folders, tables, shards and arrays: one list, one order, and a line for the rest.
#include "nixie/data/files/half_sources.h"

#include "nixie/data/arrays.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

using testing::IsEmpty;

Bytes in_bytes(const std::string& text) { return {text.begin(), text.end()}; }

void write_pictures(const fs::path& folder, int samples) {
  for (int i = 0; i < samples; ++i) write_file(folder / "a" / fmt::format("{}.png", i), png(picture(8, 8, i)));
}

void write_shard(const fs::path& file, int samples) {
  const TempFolder folder;
  write_pictures(folder.path(), samples);
  ASSERT_EQ(std::system(fmt::format("tar -cf '{}' -C '{}' a", file.string(), folder.path().string()).c_str()), 0);
}

void write_table_of_pictures(const fs::path& file, int samples) {
  std::string rows;
  for (int i = 0; i < samples; ++i) rows += fmt::format("pictures/a/{}.png,a\n", i);
  write_pictures(file.parent_path() / "pictures", samples);
  write_file(file, in_bytes(rows));
}

void write_table_of_numbers(const fs::path& file, int samples) {
  std::string rows;
  for (int i = 0; i < samples; ++i) rows += fmt::format("{},0.5,{}\n", i, i % 2);
  write_file(file, in_bytes(rows));
}

void write_hdf5(const fs::path& file, int samples) {
  const auto count = static_cast<hsize_t>(samples);
  Hdf5File hdf5(file);
  hdf5.dataset("images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {count, 2, 2}, Bytes(4 * count, 7));
  hdf5.dataset("labels", H5T_STD_U8LE, H5T_NATIVE_UINT8, {count}, Bytes(count));
}

void write_npy(const fs::path& images, const fs::path& labels, int samples) {
  const auto count = static_cast<std::size_t>(samples);
  write_file(images, npy("|u1", fmt::format("({}, 2, 2)", samples), Bytes(4 * count, 7)));
  write_file(labels, npy("|u1", fmt::format("({},)", samples), Bytes(count)));
}

/// A way to store halves, each under a word in one folder.
struct Store {
  const char* name;
  bool has_pictures;
  std::string file;  ///< what holds a half, {} is the word
  std::function<void(const fs::path& root, const std::string& word, int samples)> write;

  std::string file_of(const std::string& word) const { return fmt::format(fmt::runtime(file), word); }
  Splits open(const fs::path& root) const {
    return has_pictures ? ImageFolder{.path = root, .crop = 8, .resize = 8, .holdout = 0.5f}.open()
                        : Arrays{.path = root, .holdout = 0.5f}.open();
  }
};

Store store(const char* name, bool has_pictures, const std::string& file, void (*write)(const fs::path&, int)) {
  return {name, has_pictures, file, [=](const fs::path& root, const std::string& word, int samples) {
            write(root / fmt::format(fmt::runtime(file), word), samples);
          }};
}

Store arrays(const char* name, const std::string& images, const std::string& labels) {
  return {name, false, images, [=](const fs::path& root, const std::string& word, int samples) {
            write_npy(root / fmt::format(fmt::runtime(images), word), root / fmt::format(fmt::runtime(labels), word),
                      samples);
          }};
}

const std::vector<Store> kStores = {store("folders", true, "{}", write_pictures),
                                    store("shards", true, "{}.tar", write_shard),
                                    store("shards in a folder", true, "p-{}-0.tar", write_shard),
                                    store("tables of pictures", true, "{}.csv", write_table_of_pictures),
                                    store("tables of numbers", false, "{}.csv", write_table_of_numbers),
                                    store("HDF5", false, "{}.h5", write_hdf5),
                                    arrays("x_train.npy", "x_{}.npy", "y_{}.npy"),
                                    arrays("train_images.npy", "{}_images.npy", "{}_labels.npy"),
                                    arrays("images_train.npy", "images_{}.npy", "labels_{}.npy")};

TEST(Halves, HaveTheSameNamesInEveryStore) {
  for (const Store& each : kStores)
    for (const char* train : {"train", "Training"})
      for (const char* test : {"val", "valid", "validation", "dev", "eval", "test", "testing", "Test", "VAL"}) {
        const TempFolder folder;
        each.write(folder.path(), train, 6);
        each.write(folder.path(), test, 2);
        const Splits data = each.open(folder.path());
        EXPECT_EQ(data.train->size(), 6) << each.name << ": " << train << ", " << test;
        EXPECT_EQ(data.test->size(), 2) << each.name << ": " << train << ", " << test;
        EXPECT_THAT(data.notes, IsEmpty()) << each.name << ": " << train << ", " << test;
      }
}

TEST(Halves, OfValidationAreTakenBeforeThoseOfATest) {
  for (const Store& each : kStores) {
    const TempFolder folder;
    each.write(folder.path(), "train", 6);
    each.write(folder.path(), "test", 2);
    each.write(folder.path(), "valid", 3);
    each.write(folder.path(), "extra", 2);
    const Splits data = each.open(folder.path());
    EXPECT_EQ(data.train->size(), 6) << each.name;
    EXPECT_EQ(data.test->size(), 3) << each.name;
    const bool is_array = each.file.ends_with(".npy");
    ASSERT_EQ(data.notes.size(), is_array ? 4u : 2u) << each.name;
    for (const char* word : {"extra", "test"})
      if (!is_array) {
        EXPECT_THAT(data.notes, testing::Contains(fmt::format("{}/{} is left out: training reads {}, evaluation {}",
                                                              folder.path().string(), each.file_of(word),
                                                              each.file_of("train"), each.file_of("valid"))));
      }
  }
}

TEST(Halves, AShardIsInOneOfThem) {
  const TempFolder folder;
  write_shard(folder / "dev-train-0.tar", 6);
  write_shard(folder / "dev-test-0.tar", 2);
  EXPECT_FAULT(data, "dev-train-0.tar: its name has words of both halves, train and dev; rename it",
               ImageFolder{.path = folder.path().string()}.open());
}

TEST(Halves, OfNoWordAreLeftOutWithALine) {
  for (const Store& each : kStores) {
    const TempFolder folder;
    each.write(folder.path(), "train", 6);
    each.write(folder.path(), "held", 2);
    const Splits data = each.open(folder.path());
    EXPECT_EQ(data.train->size(), 3) << each.name;
    EXPECT_THAT(data.notes, testing::Each(HasSubstr("held"))) << each.name;
    EXPECT_THAT(data.notes, testing::Each(HasSubstr(", evaluation a share held out of it"))) << each.name;
    EXPECT_THAT(data.notes, Not(IsEmpty())) << each.name;
  }
}

TEST(Halves, ThatAreLinksToNothingAreNamed) {
  for (const Store& each : kStores)
    for (const char* lost : {"val", "train"}) {
      const TempFolder folder;
      each.write(folder.path(), "train", 6);
      each.write(folder.path(), "val", 2);
      fs::remove_all(folder / each.file_of(lost));
      fs::create_symlink("/nowhere", folder / each.file_of(lost));
      EXPECT_FAULT(data,
                   StartsWith((folder / each.file_of(lost)).string() + ": cannot be read: No such file or directory"),
                   each.open(folder.path()))
          << each.name << ": " << lost;
    }
}

TEST(Halves, OfArraysSayWhatIsReadBesideThem) {
  const TempFolder folder;
  const std::string root = folder.path().string();
  write_npy(folder / "x_train.npy", folder / "y_train.npy", 6);
  write_npy(folder / "images.npy", folder / "labels.npy", 4);
  write_file(folder / "README", {'x'});
  write_file(folder / "._x_val.npy", {'x'});
  const std::string held = " is left out: training reads x_train and y_train, evaluation a share held out of it";
  EXPECT_THAT(Arrays{.path = root}.open().notes,
              ElementsAre(root + "/README" + held, root + ": images" + held, root + ": labels" + held));
  write_npy(folder / "X_Test.npy", folder / "Y_Test.npy", 2);
  EXPECT_EQ(Arrays{.path = root}.open().test->size(), 2);
  fs::remove(folder / "Y_Test.npy");
  EXPECT_FAULT(
      data,
      testing::Eq(root +
                  ": holds X_Test, images, labels, x_train, y_train, expected x_train and y_train with or without "
                  "x_val and y_val (x_test and y_test), or images and labels"),
      Arrays{.path = root}.open());
  // Whole arrays beside those of a test: the first are to train on.
  const TempFolder other;
  write_npy(other / "images.npy", other / "labels.npy", 5);
  write_npy(other / "images_test.npy", other / "labels_test.npy", 2);
  const Splits data = Arrays{.path = other.path()}.open();
  EXPECT_EQ(data.train->size(), 5);
  EXPECT_EQ(data.test->size(), 2);
  EXPECT_THAT(data.notes, IsEmpty());
}

// A table may name the pictures of a folder of the same word: which of both is read does not depend on the system.
TEST(Halves, OfATableAreTakenBeforeAFolder) {
  const TempFolder folder;
  for (const char* word : {"train", "val"}) {
    write_pictures(folder / word, 3);
    write_file(folder / fmt::format("{}.csv", word), in_bytes(fmt::format("{0}/a/0.png,b\n{0}/a/1.png,b\n", word)));
  }
  const Splits data = ImageFolder{.path = folder.path(), .crop = 8, .resize = 8}.open();
  EXPECT_THAT(data.train->class_names(), ElementsAre("b"));
  EXPECT_EQ(data.test->size(), 2);
  for (const char* word : {"train", "val"}) write_file(folder / fmt::format("{}.csv", word), in_bytes("8,8,a/0.png\n"));
  const Splits folders = ImageFolder{.path = folder.path(), .crop = 8, .resize = 8}.open();
  EXPECT_THAT(folders.train->class_names(), ElementsAre("a")) << "a table of numbers names no pictures";
  EXPECT_EQ(folders.test->size(), 3);
}

}  // namespace
}  // namespace nixie
