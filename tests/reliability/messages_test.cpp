// The trainer's messages about mistakes: each points at its place, is one line, and says what to do.
#include <sys/stat.h>

#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/arrays.h"

namespace nixie {
namespace {

class Messages : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  TempFolder folder_;
};

const std::string kEnd = "data: {glyphs: {train: 40, test: 20, batch: 20}}\nsteps: 1\nbackend: cpu\n";

TEST_F(Messages, PointAtTheLineOfTheMistake) {
  const struct {
    std::string yaml, expected;
  } kCases[] = {
      {"model: [flatten, {linear: {out: 16}\n" + kEnd, "net.yaml:1:18: this { is never closed"},
      {"model: mlp\noptimizer: {sgd: {momentum: 0.9}\n" + kEnd, "net.yaml:2:12: this { is never closed"},
      {"model: {mlp: {hidden: [3}\n" + kEnd, "net.yaml:1:25: } where ] is expected"},
      {"model: mlp\nloader:\n\tthreads: 1\n" + kEnd, "net.yaml:3:1: a tab in the indentation"},
      {"model: mlp\nseed:3\n" + kEnd, "net.yaml:2:1: no `: ` in this line"},
      {"model: mlp\n\nseed = 3\n\n" + kEnd, "net.yaml:3:1: no `: ` in this line"},
      {"model: mlp\nloader:\n  threads 1\n  prefetch: 2\n" + kEnd, "net.yaml:3:3: no `: ` in this line"},
      {"model:\n- flatten\n- relu\nseed 3\nema 0\n" + kEnd, "net.yaml:4:1: no `: ` in this line"},
      {"model: mlp\n seed: 3\n" + kEnd, "net.yaml:2:2: this line is indented by 1"},
      {"model:\n  mlp:\n    classes: 10\n    hidden [32]\nseed: 3\n" + kEnd,
       "net.yaml:4:12: no `: ` in front of this ["},
      {"loader:\n  threads: 1\n\n  prefetch 2\nmodel: mlp\n" + kEnd, "net.yaml:4:3: no `: ` in this line"},
      {"model:\n  - relu\n# a\nseed 3  # b: c\n# d\n" + kEnd, "net.yaml:4:1: no `: ` in this line"},
      {"loader:\n  threads: 1\n  # a\n  prefetch 2  # b\n  # c\nmodel: mlp\n" + kEnd, "net.yaml:4:3: no `: ` in"},
      {"# a\nseed 3\n# b\nmodel: mlp\n" + kEnd, "net.yaml:2:1: no `: ` in this line"},
      {"model: mlp\n" + kEnd + "# a\n\nseed 3  # b\n\n# c\n", "net.yaml:7:1: no `: ` in this line"},
      {"model: mlp\n" + kEnd + "---\nseed: 3\n", "net.yaml:5:1: something follows the document"},
      {"model:\n  - flatten\n  - conv2d: {out: 5, kernel: 3}\n" + kEnd, "net.yaml:3:5: 1 (conv2d): input is [20, 784]"},
      {"model:\n  - conv2d: {out: 5, kernel: 300}\n" + kEnd, "net.yaml:2:5: 0 (conv2d): conv: a window of 300"},
      {"model:\n  - conv2d: {out: 5, kernel: 3}\n  - linear: {out: 10}\n" + kEnd, "net.yaml:3:5: 1 (linear): input is"},
      {"model: mlp\n\"a\\nb\": 3\n" + kEnd, "net.yaml:2:1: unknown key \"a\\nb\""},
      {"model: mlp\n\"a\\0b\": 3\n" + kEnd, "net.yaml:2:1: unknown key \"a\\x00b\""},
      {"model: mlp\n" + kEnd + "x" + std::string(1, '\0') + "y: 3\n", "net.yaml:5:2: a control character (0x00)"},
      {"model: mlp\noptimizer: {adamw: {beta2: 1}}\n" + kEnd,
       "net.yaml:2:12: optimizer (adamw): beta1 is 0.9 and beta2 1"},
      {"model: mlp\n" + kEnd + "\x04\noptimizer: adam\n", "net.yaml:5:1: a control character (0x04)"},
      {"model: mlp\n\xc2\x9b\xe2\x80\xae\xff: 3\n" + kEnd, "net.yaml:2:1: unknown key \"\\u009b\\u202e\\xff\""},
      {"model: !!binary aGVsbG8=\n" + kEnd, "net.yaml:1:8: tag tag:yaml.org,2002:binary"},
      {"model: mlp\nema: 1\n" + kEnd, "net.yaml:2:6: ema is 1, with which the average never changes"},
      {"model: mlp\nloss_scale: 1e-40\n" + kEnd,
       "net.yaml:2:13: loss_scale is 1e-40, expected 0 (dynamic) or a number from 1e-37 to 1e+37"},
      {"model: &a [*a]\n" + kEnd, "net.yaml:1:12: the alias is inside the value it repeats"},
      {"model: mlp\nmodel: lenet\n" + kEnd, "net.yaml:2:1: key \"model\" again"},
      {"- model\n- mlp\n", "net.yaml:1:1: the document is no map"},
      {"model: " + std::string(100'000, '[') + "\n", "more than 64 levels"},
      {"model: [flatten]\n" + kEnd, "the model has no parameters"},
      // rules among keys, and between keys and data
      {"model: mlp\nsteps: 1\ndata:\n  image_folder: {path: x, target: word}\n",
       "net.yaml:4:35: unknown data.image_folder.target \"word\", expected one of auto, class, numbers, mask"},
      {"model: mlp\nmetrics: [recall, {top_k: {k: 2}}, {top_k: {k: 3}}, recall]\n" + kEnd,
       "net.yaml:2:53: metrics.3 is recall again, expected each metric once"},
      {"model: mlp\nsteps: 1\ndata: {arrays: {layout: none}}\n", "net.yaml:3:25: unknown data.arrays.layout \"none\""},
      {"model: [{pad: {mode: mirror}}, flatten, {linear: {out: 10}}]\n" + kEnd,
       "net.yaml:1:22: unknown model.0.pad.mode \"mirror\", expected one of zero, reflect"},
      {"model: mlp\ndata: glyphs\nsteps: 1\nbackend: \"null\"\n", "net.yaml:4:10: unknown backend \"null\""},
      {"model: [flatten, {linear: {out: 10}, name: a b}]\n" + kEnd,
       "net.yaml:1:44: model.1.name is \"a b\", expected printable ASCII without / or spaces"},
      {"model: [flatten, {linear: {out: 10}, name: x/y}]\n" + kEnd, "net.yaml:1:44: model.1.name is \"x/y\""},
      {"model: [flatten, {linear: {out: 10}, name: \"a\\nb\"}]\n" + kEnd, "net.yaml:1:44: model.1.name is \"a\\nb\""},
      {"model: mlp\noptimizer: {rmsprop: {alpha: 1}}\n" + kEnd, "net.yaml:2:12: optimizer (rmsprop): alpha is 1"},
      {"model: mlp\noptimizer: {adadelta: {rho: 1}}\n" + kEnd, "net.yaml:2:12: optimizer (adadelta): rho is 1"},
      {"model: [flatten, {linear: {out: 10, init: {uniform: {low: 1, high: -1}}}}]\n" + kEnd,
       "uniform: low is 1 and high -1"},
      {"model: mlp\nschedule: {multistep: {milestones: [1, 2], factors: [1]}}\n" + kEnd, "net.yaml:2:11: schedule"},
      {"model: {mlp: {classes: 2}}\n" + kEnd, "net.yaml:1:8: the model has 2 outputs"},
  };
  for (const auto& c : kCases)
    expect_ran(run_program("trainer --dry-run --config " + write("net.yaml", c.yaml)), 2, c.expected);
}

// A configuration with every default, as a run's, has more places that a message could name.
TEST_F(Messages, NameOnePlace) {
  expect_ran(run_program("trainer --dry-run --config " +
                         write("net.yaml", "model: {mlp: {classes: 2}}\nmixing: {mixup: 0}\n" + kEnd)),
             2, "net.yaml:1:8: the model has 2 outputs", Not(HasSubstr("net.yaml:2")));
}

// A name that cannot be saved is an error before the run, not at its first checkpoint.
TEST_F(Messages, TooLongAClassIsToldBeforeTheRun) {
  std::string rows;
  for (int i = 0; i < 12; ++i) rows += "1,2," + (i % 2 ? "cat" : std::string(1'100'000, 'x')) + "\n";
  const std::string table = write("long.csv", rows);
  const std::string config = write("net.yaml", "model: [flatten, {linear: {out: 2}}]\n" + kEnd);
  expect_ran(run_program("trainer --dry-run --config " + config + " --data " + table +
                         " --set data.arrays.batch=2 --set data.arrays.holdout=0.5"),
             2, "class name has 1100000 bytes, expected at most 1048576");
}

// Pixels of no class have one rule, whatever holds the masks.
TEST_F(Messages, MasksMayHaveALabelThatTheLossIgnores) {
  const struct {
    int label;
    std::string loss, expected;
  } kCases[] = {
      {255, "{cross_entropy: {ignore_index: 255}}", ""},
      {-100, "{focal: {ignore_index: -100}}", ""},
      {255, "{dice: {ignore_index: 255}}", ""},
      {255, "{loss_sum: {losses: [{loss: {dice: {ignore_index: 255}}}, {loss: {focal: {ignore_index: 255}}}]}}", ""},
      {255, "dice", "ignores none; set loss: {dice: {ignore_index: 255}}, or number"},
      {255, "{loss_sum: {losses: [{loss: dice}, {loss: cross_entropy}]}}",
       "ignores none; set ignore_index: 255 in each of its losses, or number"},
      {255, "mean_squared", "ignores none; set a loss that may: cross_entropy, focal or dice, or number"},
      {255, "cross_entropy",
       "net.yaml:3:7: the masks hold 255, which is no class, but the loss ignores none; set loss: {cross_entropy: "
       "{ignore_index: 255}}, or number the classes from 0 on\n"},
      {-100, "{focal: {ignore_index: 255}}",
       "which is no class, but the loss ignores 255; set loss: {focal: {ignore_index: -100}}"},
      {-1, "cross_entropy", "labels[1, 0, 1] has the target -1, expected classes from 0 on"},
  };
  write_file(folder_ / "arrays/images.npy", npy("|u1", "(8, 2, 2)", Bytes(8 * 4)));
  for (const auto& c : kCases) {
    std::vector<std::int32_t> labels(8 * 4);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 3);
    labels[5] = c.label;
    write_file(folder_ / "arrays/labels.npy", npy("<i4", "(8, 2, 2)", bytes_of_numbers(labels)));
    const Ran ran = run_program(
        "trainer --run " + path("run") + " --config " +
        write("net.yaml", "model: [{conv2d: {out: 3, kernel: 1}}]\ndata: {arrays: {path: arrays, batch: 2}}\nloss: " +
                              c.loss + "\nsteps: 4\nbackend: cpu\n"));
    EXPECT_EQ(ran.code == 0, c.expected.empty()) << c.loss << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(c.expected));
    EXPECT_THAT(ran.output, Not(HasSubstr("nan")));
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(Messages, SuggestTheWordThatIsMeant) {
  const struct {
    std::string assignment, expected;
  } kCases[] = {
      {"backend=gpu", "did you mean \"cuda\"?"},
      {"optimizer=SGD", "did you mean \"sgd\"?"},
      {"optimizer.sgd.lr=1", "the learning rate is under schedule"},
      {"lr=1", "the learning rate is under schedule"},
      {"batch=1", "the batch is with the dataset"},
      {"model='[flatten, {dense: {out: 10}}]'", "did you mean \"linear\"?"},
      {"model='[{conv2d: {filters: 3, kernel: 3}}]'", "did you mean \"out\"?"},
      {"non_finite=rollback", "did you mean \"roll_back\"?"},
      {"loss=mse", "did you mean \"mean_squared\"?"},
  };
  const std::string command = "trainer --dry-run --config " + write("net.yaml", "model: mlp\n" + kEnd) + " --set ";
  for (const auto& c : kCases) expect_ran(run_program(command + c.assignment), 2, c.expected);
  for (const char* layer : {"leaky_relu", "silu"})
    EXPECT_EQ(run_program(command + "model='[flatten, {linear: {out: 10}}, " + layer + "]'").code, 0) << layer;
}

TEST_F(Messages, SayWhatToTypeInstead) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd);
  const struct {
    std::string arguments, expected;
  } kCases[] = {
      {"--epochs 3", "to change the configuration write --set epochs=3\n"},
      {"--config " + net + " --lr 0.1", "write --set schedule.constant.rate=0.1\n"},
      {"--config " + net + " --batch-size=64", "write --set data.glyphs.batch=64\n"},
      {"--config " + net + " --gpu", "write --set backend=cuda\n"},
      {"--config " + net + " --log-every 3", "write --set log_every=3\n"},
      {"--config " + net + " --set epochs 3", "not expected: 3; write --set epochs=3\n"},
      {"--config " + net + " --set a.b=1 --set epochs -3", "write --set epochs=-3\n"},
      {"eval --set data.glyphs.batch '3 4'", "write --set 'data.glyphs.batch=3 4'\n"},
      {"--config " + net + " -e 3", "write --set epochs=3\n"},
      {"--config " + net + " --gpus 2",
       "mpirun -np N trainer (docs/scaling.md); to change the configuration write --set backend=cuda\n"},
      {"--config " + net + " --out x", "; write --run x\n"},
      {"-c " + net, "; write --config " + net + "\n"},
      {"--confg " + net, "did you mean \"--config\"?\n"},
      {net, "write --config " + net + "\n"},
      {"train " + net, "write --config " + net + "\n"},
      {"evl", "did you mean \"eval\"?\n"},
      {"--config " + net + " --data.glyphs.batch=3", "write --set data.glyphs.batch=3\n"},
      {"'my net.yaml'", "write --config 'my net.yaml'\n"},
      {"--config " + net + " --epochs '3;x'", "write --set 'epochs=3;x'\n"},
      {"--config " + net + " 'epochs=3 4'", "write --set 'epochs=3 4'\n"},
      {"\"$(printf 'a\\n\\033.yaml')\"", "write --config $'a\\n\\x1b.yaml'\n"},
  };
  for (const auto& c : kCases) expect_ran(run_program("trainer " + c.arguments), 2, c.expected);
  EXPECT_THAT(run_program("trainer eval", "cd '" + folder_.path().string() + "'; ").output,
              HasSubstr("name one with --checkpoint FILE or --run DIR"));
}

// However a path reaches the program: a shell leaves ~ as it is in quotes and behind the = of an option.
TEST_F(Messages, HomeIsExpandedInEveryPath) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd), home = "HOME=" + folder_.path().string() + " ";
  const std::string trainer = "trainer --config '~/net.yaml' ";
  write("numbers.csv", "a,b,kind\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n1,2,0\n3,4,1\n");
  const std::string linear = " --set model='[flatten, {linear: {out: 2}}]' --set data.arrays.batch=2";
  for (const std::string& command :
       {trainer + "--run=~/first", trainer + "--run '~/second'", std::string("trainer --resume=~/first --set steps=2"),
        std::string("trainer eval --run '~/first'"), std::string("trainer compare '~/first' '~/second'"),
        std::string("trainer checkpoint verify '~/first/last.h5'"), std::string("trainer data inspect '~/numbers.csv'"),
        trainer + "--dry-run --data '~/numbers.csv'" + linear,
        trainer + "--dry-run --set data.path='~/numbers.csv'" + linear,
        trainer + "--dry-run --set data.arrays.path='~/numbers.csv'" + linear}) {
    expect_ran(run_program(command, "cd " + path("") + "; " + home), 0);
  }
  EXPECT_TRUE(fs::exists(folder_ / "first/last.h5"));
  EXPECT_FALSE(fs::exists(folder_ / "~"));
  const std::string unset = ": ~ is the home folder, but HOME is not set; set it, or write the whole path\n",
                    file = write("home.yaml", "model: mlp\ndata: {mnist: {path: ~/x}}\nsteps: 1\n");
  for (const auto& [command, expected] : std::vector<std::pair<std::string, std::string>>{
           {"trainer --config '~/net.yaml'", "~/net.yaml" + unset},
           {"trainer eval --run='~/first'", "~/first" + unset},
           {"trainer summary --config " + file, file + ":2:22: data.mnist.path: ~/x" + unset},
           {"trainer --dry-run --config " + net + " --set data.path='~/x'", "~/x" + unset}}) {
    const Ran ran = run_program(command, "unset HOME; ");
    EXPECT_EQ(ran.code, 2) << command;
    EXPECT_EQ(ran.output, expected) << command;
  }
}

// A shell's variable that is not set: without a word, another run or model would be taken.
TEST_F(Messages, AnEmptyValueIsRefused) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd), trainer = "trainer --dry-run --config " + net;
  const struct {
    std::string command, place;
  } kCases[] = {{trainer + " --run ''", "--run"},
                {trainer + " --run=", "--run"},
                {trainer + " --resume ''", "--resume"},
                {trainer + " --data ''", "--data"},
                {trainer + " --set ''", "--set"},
                {trainer + " ''", net},
                {"trainer ''", "the first argument"},
                {"trainer eval --checkpoint ''", "--checkpoint"},
                {"trainer predict --run '' " + net, "--run"},
                {"trainer checkpoint diff " + net + " ''", net},
                {"benchmark show ''", "show"},
                {"explain lenet --backend ''", "--backend"}};
  for (const auto& c : kCases)
    expect_ran(run_program(c.command), 2, c.place + ": an empty value; is a shell's variable not set?\n");
}

// A command's output is its result: losing it is a fault. A run's result is in its folder.
TEST_F(Messages, OutputThatIsLostIsAFault) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd);
  std::vector<std::string> commands{"explain lenet", "explain --help", "benchmark --help",
                                    "benchmark data --seconds 0.01"};
  for (const std::string command : {"list", "--list", "doctor", "completion", "--help", "--version", "eval --help"})
    commands.push_back("trainer " + command);
  for (const std::string command : {"config", "summary", "--dry-run"})
    commands.push_back("trainer " + command + " --config " + net);
  for (const std::string lost : {">/dev/full", ">&-"}) {
    for (const std::string& command : commands) {
      const Ran ran = run_program(command + " 3>&1 " + lost + " 2>&3 #");  // and not what run_program adds
      EXPECT_EQ(ran.code, 8) << command << lost << ran.output;
    }
    expect_ran(run_program("trainer --run " + path(lost == ">&-" ? "closed" : "full") + " --config " + net + " 3>&1 " +
                           lost + " 2>&3 #"),
               0);
  }
}

// Files that would be waited for, or never end.
TEST_F(Messages, SpecialFilesAreRefused) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd), pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // A link, so that nothing is ever written beside the device.
  fs::create_symlink("/dev/zero", folder_ / "zero");
  for (const std::string& file : {pipe, path("zero")}) {
    const struct {
      std::string arguments;
      int code;
    } kCases[] = {{"--set init_from=" + file, 6},
                  {"--set data.mnist.path=" + file, 5},
                  {"--run " + file, 8},
                  {"--data " + file, 5},
                  {"--resume " + file, 6}};
    for (const auto& c : kCases)
      expect_ran(run_program("trainer --config " + net + " " + c.arguments, "timeout 20 "), c.code);
  }
  EXPECT_EQ(run_program("trainer --config " + path("zero"), "timeout 20 ").code, 2);
  const std::string table = path("table.json");
  ASSERT_EQ(run_program("benchmark data --seconds 0.01 --json " + table).code, 0);
  for (const std::string& arguments : {pipe, path("zero"), table + " --page " + pipe}) {
    expect_ran(run_program("benchmark show " + arguments, "timeout 20 "), 2,
               "cannot be read: it is not a regular file; name a ");
  }
  // In the folder of a run that is gone on with or compared.
  const std::string run = path("run");
  ASSERT_EQ(run_program("trainer --config " + net + " --run " + run).code, 0);
  for (const char* name : {"config.yaml", "metrics.csv", "timing.csv", "last.h5"}) {
    fs::rename(run + "/" + name, run + "/kept");
    ASSERT_EQ(::mkfifo((run + "/" + name).c_str(), 0600), 0);
    for (const std::string& command : {"--run " + run + " --resume", "compare " + run + " " + run}) {
      expect_ran(run_program("trainer " + command, "timeout 20 "), 8,
                 std::string(name) + " is no regular file; move it away");
    }
    fs::rename(run + "/kept", run + "/" + name);
  }
  // In a folder under the name that is looked for.
  for (const char* name : {"train.packed", "train.csv", "train.tar", "shard.tar", "x_train.npy", "train.h5",
                           "train-images-idx3-ubyte", "data_batch_1.bin", "train.bin"}) {
    const fs::path data = folder_ / "data";
    fs::create_directory(data);
    ASSERT_EQ(::mkfifo((data / name).c_str(), 0600), 0);
    expect_ran(run_program("trainer --config " + net + " --data " + data.string(), "timeout 20 "), 5);
    fs::remove_all(data);
  }
}

// Every name may come from a stranger.
TEST_F(Messages, ALineBreakInANameEndsNoLine) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd), run = "'" + path("a\nb") + "'";
  Ran ran = run_program("trainer --config " + net + " --run " + run);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("a\\nb\n"));
  ran = run_program("trainer --config " + net + " --run " + run);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("a\\nb already holds a run"));
  write("a\nb.yaml", "model: mlp\none: 1\ntwo: 2\n" + kEnd);  // two mistakes are two lines
  ran = run_program("trainer config --config '" + path("a\nb.yaml") + "'");
  EXPECT_EQ(std::ranges::count(ran.output, '\n'), 2) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("a\\nb.yaml:3:1: unknown key \"two\""));
  for (const std::string program : {"trainer ", "trainer list ", "benchmark show x ", "explain lenet "}) {
    ran = run_program(program + "'--odd\n\x1b[31mname'");
    EXPECT_EQ(ran.code, 2) << program << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("--odd\\n\\x1b[31mname"));
  }
}

TEST_F(Messages, ErrorsOfTheSystemSayWhatTheyAre) {
  const std::string command = "trainer --config " + write("net.yaml", "model: mlp\n" + kEnd) + " --run " + path("run");
  const Ran large = run_program(command, "ulimit -f 8; ");
  fs::remove_all(folder_ / "run");
  EXPECT_EQ(large.code, 8) << large.output;
  EXPECT_THAT(large.output, HasSubstr("File too large"));
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan looks at an object's type through a pipe: without descriptors each is wrong to it";
#endif
  // Whichever file it is that cannot be opened, to be written or to be read back.
  int refused = 0;
  for (int files = 5; files < 16; ++files) {
    const Ran ran = run_program(command, fmt::format("bash -c 'ulimit -n {}; exec \"$@\"' - ", files));
    fs::remove_all(folder_ / "run");
    if (ran.code == 0) continue;
    ++refused;
    EXPECT_EQ(ran.code, 8) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("Too many open files")) << files;
  }
  EXPECT_GT(refused, 0);
}

// An exception of std::filesystem is an error of the disk, as any other.
TEST_F(Messages, PathsThatCannotBeAreNamedInOneLine) {
  const std::string net = write("net.yaml", "model: mlp\n" + kEnd), name = "'" + std::string(300, 'a') + "\nb'";
  for (const std::string& arguments :
       {"--run " + name, "--run " + name + " --resume", "eval --checkpoint " + name, "eval --run " + name}) {
    const bool trains = arguments.starts_with("--");
    expect_ran(run_program("trainer " + (trains ? "--config " + net + " " : "") + arguments), 8, "a\\nb",
               EndsWith(": File name too long; check the path and its permissions\n"));
  }
}

}  // namespace
}  // namespace nixie
