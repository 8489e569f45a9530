// The preparation of inputs in a checkpoint: orientation of pictures, layout of arrays, limits of size.
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/data/arrays.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/exif.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

TrainConfig config_of(const std::string& data) {
  return config_in("model: [flatten, {linear: {out: 2}}]\ndata: " + data +
                   "\nschedule: {constant: {rate: 0.01}}\nsteps: 2\nepochs: 8\nbackend: cpu\n");
}

std::vector<float> numbers_of(const Array& array) { return array.to_vector<float>(); }

class UprightRun : public testing::Test {
 protected:
  UprightRun() {
    const Bytes plain = jpeg(picture(16, 12)), marked = with_exif_in_jpeg(plain, exif(6));
    for (const char* half : {"train", "val"})
      for (const char* name : {"a", "b"}) write_file(folder_ / half / (std::string(name) + "/1.jpg"), marked);
    write_file(folder_ / "marked.jpg", marked);
    write_file(folder_ / "plain.jpg", plain);
  }
  TrainConfig config(const std::string& more = "") const {
    return config_of("{image_folder: {path: \"" + folder_.path().string() + "\", crop: 8, resize: 8, batch: 2" + more +
                     "}}");
  }
  /// As a nixie that knew neither the key nor the attribute wrote it.
  static void make_old(const fs::path& file) {
    Checkpoint old = load_checkpoint(file);
    old.upright = false;
    for (const char* key : {"upright: ", "megapixels: "}) {
      const std::size_t at = old.config.find(key), begin = old.config.rfind('\n', at);
      ASSERT_NE(at, std::string::npos) << old.config;
      old.config.erase(begin, old.config.find('\n', at) - begin);
    }
    save_checkpoint(old, file);
  }
  std::vector<float> prepared(const char* name, const TrainedModel& trained) const {
    return numbers_of(prepare_picture(folder_ / name, trained.preparation));
  }
  Workplace folder_;
};

TEST_F(UprightRun, NewRunsTurnPictures) {
  train_all(folder_ / "run", config());
  const TrainedModel trained = load_trained(folder_ / "run/last.h5");
  EXPECT_TRUE(trained.preparation.upright);
  EXPECT_NE(prepared("marked.jpg", trained), prepared("plain.jpg", trained));
  train_all(folder_ / "stored", config(", upright: false"));
  const TrainedModel stored = load_trained(folder_ / "stored/last.h5");
  EXPECT_FALSE(stored.preparation.upright);
  EXPECT_EQ(prepared("marked.jpg", stored), prepared("plain.jpg", stored));
}

TEST_F(UprightRun, OldCheckpointsReadPicturesAsTheyAreStored) {
  train_all(folder_ / "run", config());
  for (const char* name : {"run/last.h5", "run/best.h5"}) make_old(folder_ / name);
  const TrainedModel old = load_trained(folder_ / "run/last.h5");
  EXPECT_FALSE(old.preparation.upright);
  EXPECT_THAT(old.config.data.text(), HasSubstr("upright: false"));
  EXPECT_EQ(prepared("marked.jpg", old), prepared("plain.jpg", old));
  EXPECT_THAT(load_trained(folder_ / "run/last.h5", {"epochs=3"}).config.data.text(), HasSubstr("upright: false"));
  expect_ran(folder_.trainer("--resume run --set steps=4"), 0);
  EXPECT_FALSE(load_checkpoint(folder_ / "run/last.h5").upright);
  EXPECT_EQ(saved(folder_ / "run/last.h5"), 4);
}

TEST_F(UprightRun, EvaluationOfOtherDataDoesAsTheRun) {
  train_all(folder_ / "run", config());
  make_old(folder_ / "run/best.h5");
  const std::string own = "eval --run run";
  const auto last_line = [&](const std::string& arguments) {
    const Ran ran = expect_ran(folder_.trainer(arguments), 0);
    return ran.output.substr(ran.output.rfind("\n", ran.output.size() - 2));
  };
  const std::string expected = last_line(own);
  EXPECT_EQ(last_line(own + " --data ."), expected);
  EXPECT_EQ(last_line(own + " --set data.image_folder.upright=false"), expected);
  EXPECT_NE(last_line(own + " --set data.image_folder.upright=true"), expected);
}

// Both layouts fit a cube, so only the run tells which one it was.
TEST(ArrayLayout, IsThatOfTheRun) {
  const struct {
    const char* layout;
    std::vector<hsize_t> shape;
  } cases[] = {{"auto", {8, 3, 3, 3}},  {"auto", {8, 1, 1, 1}}, {"first", {8, 3, 3, 3}}, {"last", {8, 6, 6, 6}},
               {"first", {8, 6, 6, 6}}, {"last", {8, 4, 5, 3}}, {"auto", {8, 4, 5, 3}},  {"auto", {8, 3, 4, 5}}};
  for (const auto& [layout, shape] : cases) {
    SCOPED_TRACE(fmt::format("{} [{}]", layout, fmt::join(shape, ", ")));
    std::vector<float> numbers(shape[0] * shape[1] * shape[2] * shape[3]);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * i % 9973);
    const TempFolder folder;
    {
      Hdf5File file(folder / "data.h5");
      file.dataset("images", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, shape, numbers);
      file.dataset<std::int64_t>("labels", H5T_STD_I64LE, H5T_NATIVE_INT64, {8}, {0, 1, 0, 1, 0, 1, 0, 1});
    }
    const TrainConfig config = config_of(fmt::format(
        "{{arrays: {{path: \"{}\", layout: {}, batch: 2, holdout: 0.25}}}}", (folder / "data.h5").string(), layout));
    train_all(folder / "run", config);
    const std::vector<Array> predicted =
        prepare_arrays(folder / "data.h5", load_trained(folder / "run/last.h5").preparation);
    ASSERT_EQ(predicted.size(), 8u);
    const Splits splits = config.data.open();
    int found = 0;  // each sample is in one of the halves
    for (const auto& half : {splits.train, splits.test})
      for (std::int64_t i = 0; i < half->size(); ++i) {
        const std::vector<float> expected = sample_values(*half, i);
        found += std::ranges::any_of(predicted, [&](const Array& sample) { return numbers_of(sample) == expected; });
      }
    EXPECT_EQ(found, 8);
  }
}

}  // namespace
}  // namespace nixie
