// --data FOLDER: the dataset and the number of classes that a folder gives.
#include "nixie/apps/trainer/commands/data_folder.h"

#include "nixie/tests/apps/colour_run.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

class DataFolder : public ColourRun {};

TEST_F(DataFolder, AFolderChoosesTheDataset) {
  TrainConfig config = small_config();  // glyphs, batch 20
  EXPECT_THAT(data_assignments(config, *folder_ / "colours"),
              ElementsAre("data.image_folder.path=\"" + path("colours") + "\"", "data.image_folder.batch=20",
                          "data.image_folder.channels=1", "data.image_folder.crop=28", "data.image_folder.resize=28"));
  config.data = ImageFolder{};
  EXPECT_THAT(data_assignments(config, *folder_ / "colours"),
              ElementsAre("data.image_folder.path=\"" + path("colours") + "\""));
  config.data = Packed{.path = path("none"), .batch = 4};  // whose size is not known
  EXPECT_THAT(data_assignments(config, *folder_ / "colours"),
              ElementsAre("data.image_folder.path=\"" + path("colours") + "\"", "data.image_folder.batch=4",
                          "data.image_folder.channels=3", "data.image_folder.crop=14", "data.image_folder.resize=14"));
  config.data = ImageFolder{};
  std::ofstream(*folder_ / "run/train-images-idx3-ubyte");
  EXPECT_THAT(data_assignments(config, *folder_ / "run"),
              ElementsAre("data.mnist.path=\"" + path("run") + "\"", "data.mnist.batch=128"));
  for (const char* name :
       {"train.h5", "Training.hdf5", "x_train.npy", "train_images.npy", "Images_Train.npy", "x.npy"}) {
    write_file(*folder_ / "arrays" / name, {'x'});
    EXPECT_THAT(data_assignments(config, *folder_ / "arrays")[0], StartsWith("data.arrays.path=")) << name;
    fs::remove_all(*folder_ / "arrays");
  }
  fs::create_directory(*folder_ / "empty");
  EXPECT_FAULT(data, "neither folders of pictures per class nor", data_assignments(config, *folder_ / "empty"));
}

// The path that needs no name of a dataset is that of --data, wherever both can be written; the last one counts.
TEST_F(DataFolder, APathOfTheDataIsAFolder) {
  const std::string net = " --config net.yaml", colours = path("colours");
  const Ran data = trainer("config" + net + " --data " + colours);
  EXPECT_THAT(data.output, HasSubstr("path: \"" + colours + "\""));
  for (const std::string& set : {" --set data.path=" + colours, " --set 'data.path=\"" + colours + "\"'",
                                 " --data none --set data.path=none --set data.path=" + colours}) {
    const Ran ran = trainer("config" + net + set);
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_EQ(ran.output, data.output) << set;
  }
  const std::string checkpoint = "eval --checkpoint run/last.h5";
  EXPECT_EQ(trainer(checkpoint + " --set data.path=" + colours).output,
            trainer(checkpoint + " --data " + colours).output);
  EXPECT_THAT(trainer(checkpoint + " --set data.path=none").output, HasSubstr("none: no such folder"));
  EXPECT_THAT(trainer("config" + net + " --set data.path=[]").output, HasSubstr("the path is with the dataset"));
}

// Keys beside it follow from the run's own configuration; the model stays, whatever the data have.
TEST_F(DataFolder, AResumedRunTakesAPathOfOtherData) {
  const TempFolder folder;
  std::ofstream(folder / "net.yaml")
      << "model: [flatten, {linear: {out: 3}}]\ndata: {arrays: {path: a.csv, batch: 4}}\n"
         "epochs: 1\nbackend: cpu\n";
  const auto write = [&](const char* name, int classes, int other) {
    std::ofstream rows(folder / name);
    for (int i = 0; i < 24; ++i) rows << i << "," << i % 5 << "," << (i == 7 ? other : i) % classes << "\n";
  };
  write("a.csv", 3, 7), write("b.csv", 3, 9), write("c.csv", 4, 7);
  const std::string run = (folder / "run").string(), b = (folder / "b.csv").string();
  ASSERT_EQ(trainer("--config " + (folder / "net.yaml").string() + " --run " + run).code, 0);
  EXPECT_THAT(trainer("--resume " + run + " --data " + (folder / "c.csv").string()).output,
              HasSubstr("the model has 3 outputs, the data 4 classes"));
  for (const std::string& with :
       {" --data " + b, " --set data.path=" + b, " --data " + b + " --config configs/mnist.yaml"}) {
    const TempFolder copy;
    fs::copy(run, copy / "run");
    expect_ran(trainer("--resume " + (copy / "run").string() + " --set epochs=2" + with), 0);
    EXPECT_THAT(text_of(copy / "run/config.yaml"), HasSubstr("path: \"" + b + "\""));
  }
}

TEST_F(DataFolder, ArchivesAndAddressesAreToBeUnpackedAndDownloaded) {
  std::ofstream(*folder_ / "a b.zip") << "packed";
  const struct {
    std::string source, expected;
  } kCases[] = {
      {path("a b.zip"), ": is no folder, .csv, .tar, .npz or .h5 file; unpack it first: unzip '" + path("a b.zip") +
                            "' -d '" + path("a b") + "', and name '" + path("a b") + "'"},
      {"x/photos.tar.gz",
       "; unpack it first: mkdir x/photos && tar -xzf x/photos.tar.gz -C x/photos, and name x/photos"},
      {"photos.TGZ", "; unpack it first: mkdir photos && tar -xzf photos.TGZ -C photos, and name photos"},
      {"photos.tar.xz", "tar -xJf photos.tar.xz -C photos"},
      {"photos.7z", "7z x photos.7z -ophotos"},
      {"https://host/photos.zip", "; nothing is downloaded: curl -LO https://host/photos.zip, unpack it"},
      {"s3://bucket/photos", "; nothing is downloaded: copy it here first, and name that"},
      {"photos", ": no such folder, .csv, .tar, .npz or .h5 file; name one with --data"},
  };
  for (const auto& [source, expected] : kCases) EXPECT_FAULT(data, expected, data_assignments(small_config(), source));
}

// Not the folder that they are in.
TEST_F(DataFolder, LinksToNothingAreNamed) {
  const fs::path root = *folder_ / "lost";
  fs::create_directories(root);
  fs::copy(*folder_ / "colours", root / "train", fs::copy_options::recursive);
  for (const char* name : {"val", "train/gone"}) fs::create_symlink("/nowhere", root / name);
  EXPECT_THAT(trainer("data inspect lost").output,
              HasSubstr("lost/val: cannot be read: No such file or directory; check the path"));
  EXPECT_THAT(trainer("data inspect lost/train").output,
              HasSubstr("pictures, left out 1 links to nothing (the first: gone)"));
  EXPECT_THAT(class_assignments(small_config(), root, ImageFolder{.path = root}), ElementsAre("model.5.linear.out=3"));
}

TEST_F(DataFolder, AFolderSetsTheNumberOfClasses) {
  TrainConfig config = small_config();
  EXPECT_THAT(class_assignments(config, *folder_ / "colours", config.data), ElementsAre("model.5.linear.out=3"));
  config.model = Mlp{.classes = 10};
  EXPECT_THAT(class_assignments(config, *folder_ / "colours", config.data), ElementsAre("model.mlp.classes=3"));
  config.model = Mlp{.classes = 3};
  EXPECT_THAT(class_assignments(config, *folder_ / "colours", config.data), ElementsAre());
  const Ran ran =
      trainer("config --config net.yaml --data colours --set model.5.linear.out=7");  // what is typed counts
  EXPECT_THAT(ran.output, HasSubstr("out: 7"));
  std::ofstream rows(*folder_ / "rows.csv");
  for (int i = 0; i < 20; ++i) rows << "1,2," << i % 4 << std::endl;  // as classes, or as numbers
  for (const auto& [set, outputs] : {std::pair{"", "out: 4"}, {" --set data.arrays.target=numbers", "out: 1"}})
    EXPECT_THAT(trainer(std::string("config --config net.yaml --data rows.csv") + set).output,
                HasSubstr(std::string("  - linear:\n      ") + outputs));
  std::ofstream table(*folder_ / "table.csv");
  for (int i = 0; i < 40; ++i) table << "colours/red/0.png," << i % 4 - 1 << std::endl;  // as names, or as numbers
  for (const auto& [target, outputs] : {std::pair{"class", "out: 4"}, {"numbers", "out: 1"}}) {
    const std::string options = fmt::format(" --set data.image_folder.target={}", target);
    EXPECT_THAT(trainer("config --config net.yaml --data table.csv" + options).output,
                HasSubstr(std::string("  - linear:\n      ") + outputs));
    EXPECT_THAT(trainer("data verify table.csv" + options).output, HasSubstr("40 samples can be read"));
  }
}

}  // namespace
}  // namespace nixie
