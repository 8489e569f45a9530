// Predictions of targets that are no single class: masks as files, numbers of a table.
#include "nixie/data/files/image.h"
#include "nixie/data/files/input_file.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

TEST(Predict, WritesMasks) {
  const Workplace folder;
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    write_file(folder / fmt::format("seg/{}.png", i), png(picture(8, 6, i)));
    Bytes classes;
    for (int p = 0; p < 48; ++p) classes.push_back(static_cast<std::uint8_t>((p / 8 + i) % 3));
    write_file(folder / fmt::format("seg/m{}.png", i), png(classes, 8, 6, PNG_FORMAT_GRAY));
    rows += fmt::format("{0}.png,m{0}.png\n", i);
  }
  folder.write("seg/train.csv", rows);
  folder.write("net.yaml", R"(
model: [{conv2d: {out: 2, kernel: 1}}]
data: {image_folder: {crop: 6, resize: 6, batch: 4}}
schedule: {constant: {rate: 0.01}}
epochs: 1
backend: cpu
)");
  const auto predict = [&](const std::string& arguments) { return folder.trainer("predict --run run " + arguments); };
  expect_ran(folder.trainer("--config net.yaml --data seg --run run"), 0);
  const Ran ran = expect_ran(predict("seg/3.png --topk 3 --masks masks"), 0);
  write_file(folder / "new/4.png", png(picture(8, 6, 4)));
  for (const char* name : {"5.tiff", "deep/6.gif", "deep/7.GIF", ".hidden"}) write_file(folder / "new" / name, {'x'});
  EXPECT_THAT(predict("new").output, HasSubstr("new: took 1 pictures, left out 2 .gif files, 1 .tiff files\n"));
  // The levels of the file are the classes whose shares are printed.
  const fs::path file = folder / "masks/3.png";
  const Mask mask = decode_mask(read_file(file, 1 << 20), file);
  ASSERT_EQ(mask.width, 6);
  ASSERT_EQ(mask.height, 6);
  std::map<int, int> counts;
  for (const auto level : mask.classes) ++counts[level];
  for (const auto& [level, count] : counts)
    EXPECT_THAT(ran.output, HasSubstr(fmt::format("  {:8.4f}  {}\n", count / 36.0, level)));
  expect_ran(predict("seg --masks seg/."), 2, "whose mask would take its place");
  EXPECT_EQ(read_file(folder / "seg/3.png", 1 << 20), png(picture(8, 6, 3)));
  // A picture is the same one under every name.
  fs::create_directories(folder / "some");
  fs::create_directories(folder / "hard");
  fs::create_symlink("../seg/3.png", folder / "some/3.png");
  fs::create_hard_link(folder / "seg/3.png", folder / "hard/3.png");
  for (const auto& [pictures, masks] : {std::pair("some", "seg"), {"some", "hard"}, {"hard", "seg"}, {"seg", "hard"}})
    for (const char* overwrite : {"", " --overwrite"}) {
      expect_ran(predict(fmt::format("{}/3.png --masks {}{}", pictures, masks, overwrite)), 2,
                 testing::Eq(fmt::format("{}/3.png is the same file as {}/3.png, which this command uses; name another "
                                         "folder with --masks\n",
                                         masks, pictures)));
    }
  expect_ran(predict("seg/3.png --masks some --overwrite"), 2);
  EXPECT_TRUE(fs::is_symlink(folder / "some/3.png"));
  EXPECT_EQ(read_file(folder / "seg/3.png", 1 << 20), png(picture(8, 6, 3)));
  const auto bytes = read_file(file, 1 << 20);
  write_file(file, {'m', 'i', 'n', 'e'});
  expect_ran(predict("seg/3.png --masks masks"), 2,
             "masks/3.png is there already; name another folder, or replace masks with --");
  EXPECT_EQ(read_file(file, 1 << 20), (Bytes{'m', 'i', 'n', 'e'}));
  expect_ran(predict("seg/3.png --masks masks --overwrite"), 0);
  EXPECT_EQ(read_file(file, 1 << 20), bytes);
  expect_ran(predict("seg/3.png seg/3.png --masks seg/out"), 2,
             "the masks of seg/3.png and seg/3.png would both be seg/out/3.png; predict them one by one with a folder "
             "of --masks for each");
}

TEST(Predict, NumbersOfATable) {
  const Workplace folder;
  std::string rows = "a,b,c\n";
  for (int i = 0; i < 80; ++i) {
    const double a = i % 9 - 4, b = i % 7 - 3;
    rows += fmt::format("{},{},{}\n", a, b, 0.5 * a - 0.25 * b + 1);
  }
  folder.write("t.csv", rows);
  folder.write("net.yaml", R"(
model: [flatten, {linear: {out: 7}}]
data: {glyphs: {batch: 16}}
loss: mean_squared
optimizer: adam
schedule: {cosine: {rate: 0.05}}
epochs: 60
backend: cpu
log_every: 1000
)");
  expect_ran(folder.trainer("--config net.yaml --data t.csv --run run"), 0);
  folder.write("new.csv", "a,b\n2,1\n-1,0\n");
  const Ran ran = expect_ran(folder.trainer("predict --csv --run run new.csv"), 0);
  for (const auto& [row, expected] : {std::pair(0, 1.75), {1, 0.5}}) {
    const std::string start = fmt::format("new.csv[{}],1,output 0,", row);
    const std::size_t at = ran.output.find(start);
    ASSERT_NE(at, std::string::npos) << ran.output;
    EXPECT_NEAR(std::stod(ran.output.substr(at + start.size())), expected, 0.05);
  }
  expect_ran(folder.trainer("predict --run run new.csv"), 0, ContainsRegex("new.csv.0.\n +[0-9.]+  output 0\n"));
}

// Weights may be finite and the outputs not.
TEST(Predict, OutputsThatAreNotFiniteAreNoResults) {
  const Workplace folder;
  for (int i = 0; i < 8; ++i) write_file(folder / fmt::format("data/{}/{}.png", i % 2, i), png(picture(8, 8, i)));
  folder.write("net.yaml", R"(
model: [flatten, {linear: {out: 2}}, {linear: {out: 2}}]
data: {image_folder: {path: data, crop: 8, resize: 8, batch: 2, holdout: 0.5}}
epochs: 1
backend: cpu
)");
  expect_ran(folder.trainer("--config net.yaml --run run"), 0);
  Checkpoint checkpoint = load_checkpoint(folder / "run/last.h5");
  for (auto& [name, array] : checkpoint.model)
    if (name.ends_with("weight"))
      array = Array::from(std::vector<float>(static_cast<std::size_t>(array.size()), 3e38f), array.shape());
  save_checkpoint(checkpoint, folder / "large.h5");
  expect_ran(folder.trainer("eval --checkpoint large.h5"), 7,
             "the loss is not finite; the first to be so is the output of 1 (linear); take another "
             "checkpoint\n");
  expect_ran(folder.trainer("predict --checkpoint large.h5 data/0/0.png"), 7,
             "0.png: the model's output is not finite; the first to be so is the output of 1 "
             "(linear); take another checkpoint\n");
}

// No checkpoint helps against a row that an embedding does not have, nor a smaller rate: every command names it.
TEST(Predict, ARowThatAnEmbeddingDoesNotHaveIsNamed) {
  const Workplace folder;
  const auto write = [&](const std::string& name, bool is_test, std::int64_t bad) {
    std::vector<std::int64_t> rows(20 * 3), labels(20);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i % 5);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 2);
    rows[18 * 3 + 1] = bad;
    const std::string half = is_test ? "test" : "train";
    write_file(folder / (name + "/x_" + half + ".npy"), npy("<i8", "(20, 3)", bytes_of_numbers(rows)));
    write_file(folder / (name + "/y_" + half + ".npy"), npy("<i8", "(20,)", bytes_of_numbers(labels)));
  };
  for (const char* name : {"good", "train", "test"})
    for (const bool is_test : {false, true})
      write(name, is_test, name == std::string(is_test ? "test" : "train") ? 5 : 2);
  std::ofstream(folder / "net.yaml") << R"(
model: [flatten, {embedding: {count: 5, size: 2}}, flatten, {linear: {out: 2}}]
data: {arrays: {path: good, batch: 4, normalize: false}}
epochs: 1
backend: cpu
)";
  std::ofstream(folder / "rows.csv") << "a,b,c\n0,1,4\n0,5,1\n";
  const std::string message = "its input names a row that is not there: rows are whole numbers from 0 to count - 1\n",
                    first = "is not finite; the first to be so is the output of 1 (embedding)";
  expect_ran(folder.trainer("--config net.yaml --run run"), 0);
  const struct {
    std::string arguments, begin;
  } kCases[] = {
      {"--config net.yaml --run a --set data.arrays.path=train",
       "; the first to be so is the output of 1 (embedding) for "
       "sample 18 of the training half ("},
      {"--config net.yaml --run b --set data.arrays.path=test",
       "the test loss is not finite at step 5; the first to be so is the output of 1 (embedding) for sample 18 of the "
       "test half ("},
      {"eval --run run --data test", "the loss " + first + " for sample 18 of the test half; "},
      {"predict --run run rows.csv", "rows.csv[1]: the model's output " + first + "; "},
  };
  for (const auto& [arguments, begin] : kCases) expect_ran(folder.trainer(arguments), 7, begin, EndsWith(message));
}

}  // namespace
}  // namespace nixie
