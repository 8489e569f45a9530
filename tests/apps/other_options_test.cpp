// The trainer's answers to arguments that it does not understand: one line, which ends with what to write instead.
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/words/tables.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

TEST(OtherOptions, AreAnsweredWithWhatToWrite) {
  const Workplace folder;
  folder.write("net.yaml", kRun);
  fs::create_directories(folder / "run");
  const struct {
    const char *arguments, *expected;
  } kCases[] = {
      {"", "add --config FILE\n"},
      {"--confg x.yaml", "; did you mean \"--config\"?\n"},
      {"predict", "PICTURES is required; --help says more\n"},
      {"predict a.jpg --topp 3", "; did you mean \"--topk\"?\n"},
      {"evaluate", "; did you mean \"eval\"?\n"},
      {"net.yaml", "; write --config net.yaml\n"},
      {"--config net.yaml steps=3", "; write --set steps=3\n"},
      {"--config net.yaml --foo 3 --bar", "not expected: --foo 3 --bar; --help says more\n"},
      {"fit", "; the command is `trainer train`\n"},
      {"serve",
       "not expected: serve; there is no server; `trainer predict --csv` takes folders, and a program in C++ predicts "
       "with Predictor (docs/cpp.md)\n"},
      {"tune --config net.yaml",
       "; nothing searches for settings; train with several by --set in a loop of the shell, and set the runs beside "
       "each other by `trainer compare`\n"},
      {"lr_find", "; the command is `trainer find-rate`\n"},
      {"find-lr", "; the command is `trainer find-rate`\n"},
      {"quantize", "; there are no integer weights; `trainer export net.onnx` writes what other programs quantize\n"},
      {"show photos",
       "; of data it is `trainer data show SOURCE`, of a net `trainer summary --config FILE`, of a checkpoint "
       "`trainer checkpoint inspect FILE`\n"},
      {"--eval", "; the command is `trainer eval`\n"},
      {"--config net.yaml --test", "; the command is `trainer eval`\n"},
      {"resume runs/a", "; write trainer --resume runs/a\n"},
      {"eval a.h5", "; write --checkpoint a.h5\n"},
      {"eval run", "; write --run run\n"},
      {"eval --ckpt a.h5", "; write --checkpoint a.h5\n"},
      {"eval --epochs 3", "; to change the configuration write --set epochs=3\n"},
      {"summary net.yaml", "; write --config net.yaml\n"},
      {"train --config net.yaml --epoch 3", "; to change the configuration write --set epochs=3\n"},
      {"--config net.yaml --num-epochs=3", "; to change the configuration write --set epochs=3\n"},
      {"--config net.yaml --device gpu", "; to change the configuration write --set backend=cuda\n"},
      {"--config net.yaml --device cuda:0", "; to change the configuration write --set backend=cuda\n"},
      {"--config net.yaml --device cpu", "; to change the configuration write --set backend=cpu\n"},
      {"--config net.yaml --gpu", "; to change the configuration write --set backend=cuda\n"},
      {"--config net.yaml --optimizer SGD", "; to change the configuration write --set optimizer=sgd\n"},
      {"--config net.yaml --optimizer=Adam", "; to change the configuration write --set optimizer=adam\n"},
      {"--config net.yaml --optimiser Adam", "; to change the configuration write --set optimizer=adam\n"},
      {"--config net.yaml --set optimizer SGD", "; write --set optimizer=sgd\n"},
      {"--config net.yaml optimizer=SGD", "; write --set optimizer=sgd\n"},
      {"--config net.yaml --optimizer lars",
       "; there is none; the nearest is sgd; to change the configuration write --set optimizer=VALUE\n"},
      {"--config net.yaml --optimizer ''", "; to change the configuration write --set optimizer=VALUE\n"},
      {"--config net.yaml --optimizer", "; to change the configuration write --set optimizer=VALUE\n"},
      {"--config net.yaml --loss mse", "; to change the configuration write --set loss=mean_squared\n"},
      {"--config net.yaml --precision float16", "; to change the configuration write --set precision=fp16\n"},
      {"--config net.yaml --metrics f1_score", "; to change the configuration write --set 'metrics=[f1]'\n"},
      {"--config net.yaml --metrics '[acc, f1_score]'",
       "; to change the configuration write --set 'metrics=[accuracy, f1]'\n"},
      {"--config net.yaml --metrics top5",
       "; it is \"top_k\" with k: 5; to change the configuration write --set metrics=VALUE\n"},
      {"--config net.yaml --continue", "; write --resume\n"},
      {"--config net.yaml --continue a.h5", "; write --resume a.h5\n"},
      {"--output", "; write --run VALUE\n"},
      {"run", "; write --config FILE --data run\n"},
      {"launch -n 2", " (docs/scaling.md)\n"},
      {"export a.h5 out.onnx", "; write --checkpoint a.h5\n"},
      {"export run out.onnx", "; write --run run\n"},
      {"export a.pth", "by safetensors.torch.load_file\n"},
      {"--config nett.yaml", "; did you mean \"net.yaml\"?\n"},
      {"list cars", "configs}; --help says more\n"},
      {"list layer", "; did you mean \"layers\"?\n"},
      {"eval --split tests", "; did you mean \"test\"?\n"},
      {"eval net.yaml", "; name the model with --checkpoint FILE or --run DIR\n"},
      {"eval --config net.yaml", "; name the model with --checkpoint FILE or --run DIR\n"},
      {"--config net.yaml --batch-size 4", "; to change the configuration write --set data.glyphs.batch=4\n"},
      {"--batch-size 4 --config=net.yaml", "; to change the configuration write --set data.glyphs.batch=4\n"},
      {"--batch-size 4", "; to change the configuration write --set data.DATASET.batch=4\n"},
      {"--config none.yaml --lr 1", "; to change the configuration write --set schedule.constant.rate=1\n"},
      {"--config net.yaml --lr 1", "; to change the configuration write --set schedule.plateau.rate=1\n"},
      {"--config net.yaml --weight-decay 0",
       "; to change the configuration write --set optimizer.adam.weight_decay=0\n"},
      {"--config net.yaml --momentum 0", "; to change the configuration write --set optimizer.sgd.momentum=0\n"},
      {"--config net.yaml --set model.1.dense=3",
       "model.1 names linear and dense, expected one {name: {fields}}; did you mean \"linear\"?\n"},
      {"--config net.yaml --set model.1.conv2d=3",
       "model.1 names linear and conv2d, expected one {name: {fields}}; to replace linear write "
       "--set 'model.1={conv2d: {...}}'\n"},
      {"--resume", "--config FILE\n"}};
  for (const auto& [arguments, expected] : kCases) {
    const Ran ran = expect_ran(folder.trainer(arguments), 2, EndsWith(expected));
    EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
  }
}

// A row that names no option, key or command would send users to nothing.
TEST(OtherOptions, EveryRowOfTheTablesNamesWhatThereIs) {
  std::string help = run_program("trainer --help").output;
  for (const std::string& command : command_names()) help += run_program("trainer " + command + " --help").output;
  for (const OtherWord& row : other_options()) {
    if (row.known_word.starts_with("--")) {
      EXPECT_THAT(help, HasSubstr(row.known_word)) << row.word;
      continue;
    }
    std::string key = row.known_word;
    if (const std::size_t name = key.find("DATASET"); name != std::string::npos) key.replace(name, 7, "glyphs");
    EXPECT_THAT(error_of([&] { parse_config("{model: lenet, data: glyphs, epochs: 1}", "", {key + "={}"}); }),
                Not(HasSubstr("unknown")))
        << row.word;
  }
  for (const OtherWord& row : other_commands())
    EXPECT_THAT(row.known_word == "*" ? row.text : help,
                HasSubstr(row.known_word == "*" ? "`trainer " : row.known_word))
        << row.word;
}

}  // namespace
}  // namespace nixie
