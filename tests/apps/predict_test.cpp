// Predictions of targets that are no single class: masks as files, numbers of a table.
#include "nixie/data/files/image.h"
#include "nixie/data/files/input_file.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

Ran trainer(const std::string& arguments) { return run_program("trainer " + arguments); }

TEST(Predict, WritesMasks) {
  const TempFolder folder;
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    write_file(folder / fmt::format("seg/{}.png", i), png(picture(8, 6, i)));
    Bytes classes;
    for (int p = 0; p < 48; ++p) classes.push_back(static_cast<std::uint8_t>((p / 8 + i) % 3));
    write_file(folder / fmt::format("seg/m{}.png", i), png(classes, 8, 6, PNG_FORMAT_GRAY));
    rows += fmt::format("{0}.png,m{0}.png\n", i);
  }
  std::ofstream(folder / "seg/train.csv") << rows;
  std::ofstream(folder / "net.yaml") << R"(
model: [{conv2d: {out: 2, kernel: 1}}]
data: {image_folder: {crop: 6, resize: 6, batch: 4}}
schedule: {constant: {rate: 0.01}}
epochs: 1
backend: cpu
)";
  const std::string run = (folder / "run").string(), seg = (folder / "seg").string();
  const Ran trained = trainer("--config " + (folder / "net.yaml").string() + " --data " + seg + " --run " + run);
  ASSERT_EQ(trained.code, 0) << trained.output;
  const Ran ran =
      trainer(fmt::format("predict --run {} {}/3.png --topk 3 --masks {}", run, seg, (folder / "masks").string()));
  ASSERT_EQ(ran.code, 0) << ran.output;
  write_file(folder / "new/4.png", png(picture(8, 6, 4)));
  for (const char* name : {"5.tiff", "deep/6.gif", "deep/7.GIF", ".hidden"}) write_file(folder / "new" / name, {'x'});
  EXPECT_THAT(trainer(fmt::format("predict --run {} {}", run, (folder / "new").string())).output,
              HasSubstr("/new: took 1 pictures, left out 2 .gif files, 1 .tiff files\n"));
  // The levels of the file are the classes whose shares are printed.
  const fs::path file = folder / "masks/3.png";
  const Mask mask = decode_mask(read_file(file, 1 << 20), file);
  ASSERT_EQ(mask.width, 6);
  ASSERT_EQ(mask.height, 6);
  std::map<int, int> counts;
  for (const auto level : mask.classes) ++counts[level];
  for (const auto& [level, count] : counts)
    EXPECT_THAT(ran.output, HasSubstr(fmt::format("  {:8.4f}  {}\n", count / 36.0, level)));
  const Ran same = trainer(fmt::format("predict --run {0} {1} --masks {1}/.", run, seg));
  EXPECT_EQ(same.code, 2);
  EXPECT_THAT(same.output, HasSubstr("whose mask would take its place"));
  EXPECT_EQ(read_file(folder / "seg/3.png", 1 << 20), png(picture(8, 6, 3)));
  // A picture is the same one under every name.
  namespace fs = std::filesystem;
  fs::create_directories(folder / "some");
  fs::create_directories(folder / "hard");
  fs::create_symlink("../seg/3.png", folder / "some/3.png");
  fs::create_hard_link(folder / "seg/3.png", folder / "hard/3.png");
  for (const auto& [pictures, masks] : {std::pair("some", "seg"), {"some", "hard"}, {"hard", "seg"}, {"seg", "hard"}})
    for (const char* overwrite : {"", " --overwrite"}) {
      const std::string picture = (folder / pictures / "3.png").string(), mask = (folder / masks / "3.png").string();
      expect_ran(
          trainer(fmt::format("predict --run {} {} --masks {}{}", run, picture, (folder / masks).string(), overwrite)),
          2,
          testing::Eq(fmt::format("{} is the same file as {}, which this command uses; name another folder with "
                                  "--masks\n",
                                  mask, picture)));
    }
  const Ran onto_link =
      trainer(fmt::format("predict --run {} {}/3.png --masks {} --overwrite", run, seg, (folder / "some").string()));
  EXPECT_EQ(onto_link.code, 2) << onto_link.output;
  EXPECT_TRUE(fs::is_symlink(folder / "some/3.png"));
  EXPECT_EQ(read_file(folder / "seg/3.png", 1 << 20), png(picture(8, 6, 3)));
  const std::string again = fmt::format("predict --run {} {}/3.png --masks {}", run, seg, (folder / "masks").string());
  const auto bytes = read_file(file, 1 << 20);
  write_file(file, {'m', 'i', 'n', 'e'});
  expect_ran(trainer(again), 2, "masks/3.png is there already; name another folder, or replace masks with --");
  EXPECT_EQ(read_file(file, 1 << 20), (Bytes{'m', 'i', 'n', 'e'}));
  EXPECT_EQ(trainer(again + " --overwrite").code, 0);
  EXPECT_EQ(read_file(file, 1 << 20), bytes);
  expect_ran(trainer(fmt::format("predict --run {0} {1}/3.png {1}/3.png --masks {1}/out", run, seg)), 2,
             fmt::format("the masks of {0}/3.png and {0}/3.png would both be {0}/out/3.png; "
                         "predict them one by one with a folder of --masks for each",
                         seg));
}

TEST(Predict, NumbersOfATable) {
  const TempFolder folder;
  std::string rows = "a,b,c\n";
  for (int i = 0; i < 80; ++i) {
    const double a = i % 9 - 4, b = i % 7 - 3;
    rows += fmt::format("{},{},{}\n", a, b, 0.5 * a - 0.25 * b + 1);
  }
  std::ofstream(folder / "t.csv") << rows;
  std::ofstream(folder / "net.yaml") << R"(
model: [flatten, {linear: {out: 7}}]
data: {glyphs: {batch: 16}}
loss: mean_squared
optimizer: adam
schedule: {cosine: {rate: 0.05}}
epochs: 60
backend: cpu
log_every: 1000
)";
  const std::string run = (folder / "run").string();
  const Ran trained = trainer(
      fmt::format("--config {} --data {} --run {}", (folder / "net.yaml").string(), (folder / "t.csv").string(), run));
  ASSERT_EQ(trained.code, 0) << trained.output;
  std::ofstream(folder / "new.csv") << "a,b\n2,1\n-1,0\n";
  const Ran ran = trainer("predict --csv --run " + run + " " + (folder / "new.csv").string());
  ASSERT_EQ(ran.code, 0) << ran.output;
  for (const auto& [row, expected] : {std::pair(0, 1.75), {1, 0.5}}) {
    const std::string start = fmt::format("new.csv[{}],1,output 0,", row);
    const std::size_t at = ran.output.find(start);
    ASSERT_NE(at, std::string::npos) << ran.output;
    EXPECT_NEAR(std::stod(ran.output.substr(at + start.size())), expected, 0.05);
  }
  const Ran lines = trainer("predict --run " + run + " " + (folder / "new.csv").string());
  EXPECT_THAT(lines.output, ContainsRegex("new.csv.0.\n +[0-9.]+  output 0\n"));
}

// Weights may be finite and the outputs not.
TEST(Predict, OutputsThatAreNotFiniteAreNoResults) {
  const TempFolder folder;
  for (int i = 0; i < 8; ++i) write_file(folder / fmt::format("data/{}/{}.png", i % 2, i), png(picture(8, 8, i)));
  std::ofstream(folder / "net.yaml") << R"(
model: [flatten, {linear: {out: 2}}, {linear: {out: 2}}]
data: {image_folder: {path: data, crop: 8, resize: 8, batch: 2, holdout: 0.5}}
epochs: 1
backend: cpu
)";
  const std::string run = (folder / "run").string(), large = (folder / "large.h5").string();
  const Ran trained = trainer("--config " + (folder / "net.yaml").string() + " --run " + run);
  ASSERT_EQ(trained.code, 0) << trained.output;
  Checkpoint checkpoint = load_checkpoint(folder / "run/last.h5");
  for (auto& [name, array] : checkpoint.model)
    if (name.ends_with("weight"))
      array = Array::from(std::vector<float>(static_cast<std::size_t>(array.size()), 3e38f), array.shape());
  save_checkpoint(checkpoint, large);
  expect_ran(trainer("eval --checkpoint " + large), 7,
             "the loss is not finite; the first to be so is the output of 1 (linear); take another "
             "checkpoint\n");
  expect_ran(trainer("predict --checkpoint " + large + " " + (folder / "data/0/0.png").string()), 7,
             "0.png: the model's output is not finite; the first to be so is the output of 1 "
             "(linear); take another checkpoint\n");
}

// No checkpoint helps against a row that an embedding does not have, nor a smaller rate: every command names it.
TEST(Predict, ARowThatAnEmbeddingDoesNotHaveIsNamed) {
  const TempFolder folder;
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
  const std::string here = "cd '" + folder.path().string() + "'; ",
                    message = "its input names a row that is not there: rows are whole numbers from 0 to count - 1\n",
                    first = "is not finite; the first to be so is the output of 1 (embedding)";
  ASSERT_EQ(run_program("trainer --config net.yaml --run run", here).code, 0);
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
  for (const auto& [arguments, begin] : kCases)
    expect_ran(run_program("trainer " + arguments, here), 7, begin, EndsWith(message));
}

}  // namespace
}  // namespace nixie
