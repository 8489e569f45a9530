// Whole configurations: what they say, that they print back, their problems, and the files that are shipped.
#include "nixie/configs/parse/config.h"

#include "nixie/tests/data/support.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

const std::string kSmall = "model: mlp\ndata: glyphs\nepochs: 1\n";

TrainConfig config_of(const std::string& text) { return read_config(parse_yaml(text, "net.yaml")); }

std::string problems_of(const std::string& text) {
  try {
    config_of(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    return error.what();
  }
  ADD_FAILURE() << "accepted:\n" << text;
  return {};
}

TEST(Config, DefaultsAreThoseOfTheStruct) {
  const TrainConfig config = config_of(kSmall);
  EXPECT_EQ(config.model.text(), "{mlp: {classes: 10, hidden: [512, 256]}}");
  EXPECT_EQ(config.data.kind(), "glyphs");
  EXPECT_EQ(config.data.batch(), 128);
  EXPECT_EQ(config.loss.kind(), "cross_entropy");
  EXPECT_EQ(config.optimizer.text(), AnyOptimizer().text());
  EXPECT_EQ(config.backend, "auto");
}

// Published: Kingma and Ba's 0.001, Zeiler's 1, and PyTorch's defaults for the others.
TEST(Config, WithoutAScheduleTheRateIsTheOptimizersUsual) {
  for (const auto& [optimizer, rate] :
       {std::pair("sgd", "0.01"), std::pair("adam", "0.001"), std::pair("adamw", "0.001"), std::pair("rmsprop", "0.01"),
        std::pair("adagrad", "0.01"), std::pair("adadelta", "1")}) {
    const std::string line = kSmall + "optimizer: " + optimizer + "\n";
    EXPECT_THAT(config_of(line).schedule.text(), StartsWith(fmt::format("constant: {{rate: {},", rate))) << optimizer;
    EXPECT_THAT(parse_config(kSmall, "f", {std::string("optimizer=") + optimizer}).schedule.text(),
                StartsWith(fmt::format("constant: {{rate: {},", rate)));
    EXPECT_THAT(config_of(line + "schedule: {constant: {rate: 0.3}}").schedule.text(), HasSubstr("rate: 0.3"));
    EXPECT_EQ(config_text(config_of(config_text(config_of(line)))), config_text(config_of(line)));
  }
}

TEST(Config, EveryPartIsReadIntoTheStructsOfTheApi) {
  const TrainConfig config = config_of(R"(
model:
  - {conv2d: {out: 8, kernel: [3, 5], init: {normal: {deviation: 0.1}}}, name: first}
  - relu
  - sum: {branches: [identity, {sequential: [{conv2d: {out: 8, kernel: 1}}, batch_norm]}]}
  - flatten
  - linear: {out: 10, bias_init: {constant: {value: 0.5}}}
loss: {cross_entropy: {label_smoothing: 0.1}}
optimizer: {adamw: {beta2: 0.99}}
parameter_groups: [{max_rank: 1, weight_decay: 0}, {match: "*.weight", rate: 2}]
clip_norm: 2.5
schedule: {multistep: {rate: 0.1, milestones: [1, 2.5], factors: [], warmup: {epochs: 0.5}}}
data: {generated: {height: 8, width: 9, batch: 4}}
loader: {threads: 2}
metrics: [{top_k: {k: 3}}, recall]
epochs: 3
seed: 18446744073709551615
)");
  EXPECT_THAT(config.model.text(), HasSubstr("conv2d: {out: 8, kernel: [3, 5]"));
  EXPECT_THAT(config.model.text(), HasSubstr("{normal: {deviation: 0.1, mean: 0}}"));
  EXPECT_THAT(config.model.text(), HasSubstr("name: \"first\""));
  EXPECT_THAT(config.model.text(), HasSubstr("{constant: {value: 0.5}}"));
  EXPECT_EQ(config.loss.text(), "cross_entropy: {label_smoothing: 0.1, class_weights: [], ignore_index: null}");
  EXPECT_THAT(config.optimizer.text(), HasSubstr("beta2: 0.99"));
  ASSERT_EQ(config.parameter_groups.size(), 2u);
  EXPECT_EQ(config.parameter_groups[0].max_rank, 1);
  EXPECT_EQ(config.parameter_groups[1].match, "*.weight");
  EXPECT_EQ(config.clip_norm, 2.5);
  EXPECT_THAT(config.schedule.text(), HasSubstr("milestones: [1, 2.5], factors: [], warmup: {epochs: 0.5"));
  EXPECT_EQ(config.data.open().train->sample_shape(), (Shape{3, 8, 9}));
  EXPECT_EQ(config.data.batch(), 4);
  EXPECT_EQ(config.loader.threads, 2);
  ASSERT_EQ(config.metrics.size(), 2u);
  EXPECT_EQ(config.metrics[0].text(), "top_k: {k: 3}");
  EXPECT_EQ(config.seed, 18446744073709551615u);
  // The net is the one that the same lines of C++ make.
  const Model model(config.model, {4, 3, 8, 9}, 1);
  EXPECT_TRUE(model.parameters().find("first.weight"));
  EXPECT_TRUE(model.parameters().find("2.1.1.running_mean"));
  EXPECT_EQ(model.output_shape(), (Shape{10}));
}

TEST(Config, LengthIsTheShorterOfEpochsAndSteps) {
  const std::string net = "model: mlp\ndata: glyphs\n";
  EXPECT_EQ(config_of(net + "epochs: 3").total_steps(100), 300);
  EXPECT_EQ(config_of(net + "steps: 70").total_steps(100), 70);
  EXPECT_EQ(config_of(net + "epochs: 3\nsteps: 70").total_steps(100), 70);
  EXPECT_EQ(config_of(net + "epochs: 3\nsteps: 700").total_steps(100), 300);
  EXPECT_THROW(config_of(net + "epochs: 1000000").total_steps(1000000), Error);
}

TEST(Config, ProblemsNameThePlaceAndTheRemedy) {
  const struct {
    std::string text, expected;
  } kCases[] = {
      {"modle: mlp\ndata: glyphs\nepochs: 1", "net.yaml:1:1: unknown key \"modle\"; did you mean \"model\"?"},
      {"zzz: mlp\ndata: glyphs\nepochs: 1", "unknown key \"zzz\", expected one of model, init_from, "},
      {kSmall + "lr: 1",
       "unknown key \"lr\"; in this configuration it is schedule.constant.rate; the learning rate is under"},
      {kSmall + "schedule: {cosine: {rate: 0.1}}\nlearning_rate: 1",
       "unknown key \"learning_rate\"; in this configuration it is schedule.cosine.rate; "},
      {"model: mlp\ndata: {mnist: {batch: 3}}\nepochs: 1\nbatch_size: 1",
       "unknown key \"batch_size\"; in this configuration it is data.mnist.batch; "},
      {"model: mlp\ndata: {arrays: {path: x}}\nepochs: 1\nholdout: 0.1",
       "unknown key \"holdout\"; in this configuration it is data.arrays.holdout"},
      {"data: glyphs\nepochs: 1", "the key model is missing"},
      {"model: mlp\nepochs: 1", "the key data is missing"},
      {"model: mlp\ndata: glyphs", "the length of the run is missing, expected epochs or steps"},
      {"model: mlp\ndata: glyphs\nepochs: 0", "epochs and steps are both 0"},
      {kSmall + "reduction: ordered\naccumulate: 2",
       "net.yaml:4:12: reduction: ordered adds up the shards of one batch, but accumulate is 2, expected 1"},
      {kSmall + "reduction: ordered\nmixing: {mixup: 0.2}",
       "reduction: ordered cannot mix samples of different shards"},
      {kSmall + "model: lenet", "net.yaml:4:1"},
      {"model: lenett\ndata: glyphs\nepochs: 1", "did you mean \"lenet\"?"},
      {"model: {mlp: {hidden: [0]}}\ndata: glyphs\nepochs: 1", "model.mlp.hidden.0 is 0, expected a number from 1 up"},
      {"model: [{conv2d: {kernal: 3}}]\ndata: glyphs\nepochs: 1", "net.yaml:1:19: unknown key \"kernal\" in model.0"},
      {"model: [{relu: {}, size: 3}]\ndata: glyphs\nepochs: 1", "model.0 names relu and size"},
      {kSmall + "optimizer: {sgd: {momentum: 2}}", "net.yaml:4:29: optimizer.sgd.momentum is 2, expected a number"},
      {"model: [{linear: {out: 2, init: {uniform: {low: 1, high: 0}}}}]\ndata: glyphs\nepochs: x",
       "net.yaml:1:33: model.0.linear.init.uniform: uniform: low is 1 and high 0, expected low below "
       "high\nnet.yaml:3:9"},
      {kSmall + "optimizer: {sgd: {}, adam: {}}", "optimizer names sgd and adam"},
      {kSmall + "schedule: {step: {rate: fast}}", "schedule.step.rate is \"fast\", expected a finite number"},
      {kSmall + "backend: gpu", "net.yaml:4:10: unknown backend \"gpu\", expected one of auto, cpu, cuda"},
      {kSmall + "precision: fp8", "net.yaml:4:12: unknown precision \"fp8\", expected "},
      {kSmall + "log_every: 0", "log_every is 0, expected a number from 1"},
      {kSmall + "seed: -1", "seed is \"-1\", expected"},
      {kSmall + "metrics: accuracy", "metrics is \"accuracy\", expected a list, such as [accuracy]"},
      {"model: mlp\nepochs: 1\ndata: {holdout: 0.2}",
       "; holdout is a key of image_folder, arrays: write data.image_folder.holdout"},
      {kSmall + "optimizer: {adam: {rate: 0.1}}", "; the learning rate is under schedule"},
      {kSmall + "holdout: 0.2",
       "; holdout is a key of data.image_folder, data.arrays: write data.image_folder.holdout"},
      {kSmall + "momentum: 0.5",
       "; momentum is a key of optimizer.sgd, optimizer.rmsprop: write optimizer.sgd.momentum"},
      {kSmall + "prefetch: 3", "; prefetch is a key of loader: write loader.prefetch"},
      {kSmall + "limit: 3", "unknown key \"limit\"; in this configuration it is data.glyphs.limit"},
      {"model: mlp\nepochs: 1\ndata: {path: x}", "; --data SOURCE sets both"},
      {"backend: gpu\nlayers: [{type: layer.FCLayer}]\ncost: x",
       "net.yaml:2:9: layers without a model, as in a file of neon"},
  };
  for (const auto& c : kCases) EXPECT_THAT(problems_of(c.text), HasSubstr(c.expected)) << c.text;
}

TEST(Config, AllProblemsAreReportedAtOnce) {
  const std::string text = problems_of(
      "model: lenett\ndata: {glyphs: {batch: 0}}\noptimizer: {sgd: {momentun: 0.9}}\nepochs: many\nbackend: tpu\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_THAT(text, HasParts("net.yaml:1:8", "net.yaml:2:24", "net.yaml:3:19", "net.yaml:4:9", "net.yaml:5:10"));
}

// A file means the same wherever it is used from: its paths are its own.
TEST(Config, PathsAreRelativeToTheFile) {
  const std::string net = "model: lenet\nepochs: 1\ndata: ";
  const auto path_in = [&](const std::string& data, const std::string& file, const std::string& flag = "") {
    Tree tree = parse_yaml(net + data, file);
    if (!flag.empty()) override_yaml(tree, flag, {"data"});
    const std::string text = read_config(tree).data.text(), start = "mnist: {path: \"";
    EXPECT_THAT(text, StartsWith(start));
    return text.substr(start.size(), text.find('"', start.size()) - start.size());
  };
  const std::string here = fs::current_path().string();
  ::setenv("HOME", "/home/someone", 1);
  const struct {
    std::string data, file, flag, expected;
  } kCases[] = {
      {"{mnist: {path: digits}}", "/etc/nets/a.yaml", "", "/etc/nets/digits"},
      {"{mnist: {path: ../digits/}}", "/etc/nets/a.yaml", "", "/etc/digits/"},
      {"{mnist: {path: digits}}", "nets/a.yaml", "", here + "/nets/digits"},
      {"{mnist: {path: digits}}", "a.yaml", "", here + "/digits"},
      {"{mnist: {path: digits}}", "/dev/stdin", "", here + "/digits"},  // through a pipe
      {"{mnist: {path: digits}}", "/dev/fd/63", "", here + "/digits"},
      {"{mnist: {path: /data/x}}", "nets/a.yaml", "", "/data/x"},
      {"{mnist: {path: ~/digits}}", "/etc/a.yaml", "", "/home/someone/digits"},
      {"{mnist: {path: \"~\"}}", "/etc/a.yaml", "", "/home/someone"},
      {"{mnist: {path: ~other}}", "/etc/a.yaml", "", "/etc/~other"},
      {"mnist", "/etc/a.yaml", "", "/etc/mnist"},  // the default
      {"{mnist: {path: x}}", "/etc/a.yaml", "data.mnist.path=digits", here + "/digits"},
      {"glyphs", "/etc/a.yaml", "data.mnist.path=~/digits", "/home/someone/digits"},
  };
  for (const auto& c : kCases) EXPECT_EQ(path_in(c.data, c.file, c.flag), c.expected) << c.data << " " << c.flag;
  EXPECT_FAULT(usage, "data.mnist.path is a list", path_in("{mnist: {path: [x]}}", "a.yaml"));
  EXPECT_FAULT(usage, "expected a path", path_in("{mnist: {path: \"\"}}", "a.yaml"));
  // The system would read a path up to a byte of 0 alone.
  for (const std::string key : {"init_from", "data.mnist.path"}) {
    Tree tree = parse_yaml(net + "mnist", "a.yaml");
    override_yaml(tree, key + "=\"w\\0.h5\"", {"data"});
    EXPECT_FAULT(usage, key + " is \"w\\x00.h5\", expected a path, which holds no byte of 0", read_config(tree));
  }
  // And what a run folder keeps reads back to the same from there.
  const TrainConfig config = read_config(parse_yaml(net + "{mnist: {path: digits}}", "/etc/nets/a.yaml"));
  EXPECT_EQ(config_text(read_config(parse_yaml(config_text(config), "/runs/1/config.yaml"))), config_text(config));
}

// The same file as the system finds there.
TEST(Config, FoldersAboveALinkAreThoseAboveItsTarget) {
  const TempFolder folder;
  fs::create_directories(folder / "real/nets/deep");
  fs::create_directory_symlink("real/nets", folder / "nets");
  const auto path_in = [&](const std::string& file, const std::string& path) {
    const Tree tree = parse_yaml("model: mlp\nepochs: 1\ndata: glyphs\ninit_from: " + path, folder / file);
    return std::string(read_config(tree).init_from);
  };
  const std::string root = folder.path().string() + "/";
  const struct {
    std::string file, path, expected;
  } kCases[] = {
      {"nets/a.yaml", "../w.h5", root + "nets/../w.h5"},       {"nets/deep/a.yaml", "../w.h5", root + "nets/w.h5"},
      {"real/nets/a.yaml", "../w.h5", root + "real/w.h5"},     {"nets/a.yaml", "./deep/../w.h5", root + "nets/w.h5"},
      {"a.yaml", "nets/../../w.h5", root + "nets/../../w.h5"}, {"none/a.yaml", "../w.h5", root + "w.h5"},
  };
  for (const auto& [file, path, expected] : kCases) EXPECT_EQ(path_in(file, path), expected) << file << " " << path;
}

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(NIXIE_SOURCE_DIR) / folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  return files;
}

// A command of the manual does the same in any folder.
TEST(Config, ShippedFilesAreFoundFromAnyFolder) {
  const TempFolder folder;
  const fs::path file = "configs/own.yaml";
  for (const char* place : {"usr/share/nixie/configs", "source/configs", "elsewhere/configs"}) {
    fs::create_directories(folder / place);
    std::ofstream(folder / place / "own.yaml") << "model: mlp\n";
  }
  EXPECT_EQ(found_config(file, folder / "usr/bin/trainer"), folder / "usr/share/nixie" / file);
  EXPECT_EQ(found_config(file, folder / "source/build/release/bin/trainer"), folder / "source" / file);
  EXPECT_EQ(found_config(file, folder / "elsewhere/at/some/trainer"), file) << "no build of sources";
  EXPECT_EQ(found_config("configs/other.yaml", folder / "usr/bin/trainer"), "configs/other.yaml");
  EXPECT_EQ(found_config(folder / file, folder / "usr/bin/trainer"), folder / file);
  const fs::path own = fs::relative(folder / "elsewhere" / file);  // what is there counts
  EXPECT_EQ(found_config(own, folder / "usr/bin/trainer"), own);
}

TEST(Config, AMissingFileIsAnsweredWithTheNearestName) {
  const TempFolder folder;
  const fs::path program = folder / "usr/bin/trainer";
  for (const char* file : {"usr/share/nixie/configs/photos.yaml", "usr/share/nixie/configs/recipes/mnist.yaml",
                           "usr/share/nixie/configs/mnist.yaml", "mine/flowers.yaml"}) {
    fs::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << "model: mlp\n";
  }
  EXPECT_EQ(shipped_configs(program),
            (std::vector<std::string>{"configs/mnist.yaml", "configs/photos.yaml", "configs/recipes/mnist.yaml"}));
  EXPECT_EQ(config_advice("configs/photo.yaml", program), "; did you mean \"configs/photos.yaml\"?");
  EXPECT_EQ(config_advice("photos.yaml", program), "; did you mean \"configs/photos.yaml\"?");
  EXPECT_EQ(config_advice("mnst.yaml", program), "; did you mean \"configs/mnist.yaml\"?");
  EXPECT_EQ(config_advice(folder / "mine/flower.yaml", program),
            fmt::format("; did you mean \"{}\"?", (folder / "mine/flowers.yaml").string()));
  EXPECT_EQ(config_advice("else.yaml", program), "; `trainer list configs` names those that came with the program");
  EXPECT_EQ(config_advice("else.yaml", "/nowhere/bin/trainer"), "");
}

// Defaults may be more than a document may hold: the message is about the file that was read.
TEST(Config, TooLongWithItsDefaultsIsToldOfItsFile) {
  std::string layers;
  for (int i = 0; i < 30'000; ++i) layers += "- relu\n";
  const TrainConfig config = config_of("data: glyphs\nepochs: 1\nmodel:\n" + layers);
  EXPECT_EQ(error_of(Fault::usage, [&] { config_text(config); }),
            "net.yaml:4:1: with every default: more than 100000 values (aliases included), expected fewer");
}

TEST(Config, ShippedFilesLoadAndPrintBack) {
  const std::vector<fs::path> files = files_of("configs");
  EXPECT_GE(files.size(), 7u);
  for (const auto& file : files) {
    const TrainConfig config = load_config(file);
    const std::string text = config_text(config);
    EXPECT_EQ(config_text(config_of(text)), text) << file;
    // Nothing has to be downloaded, and the net takes the pictures.
    const Splits data = config.data.open();
    const Shape sample = data.train->sample_shape();
    const Model model(config.model, {config.data.batch(), sample[0], sample[1], sample[2]});
    EXPECT_GE(model.output_shape()[0], data.train->classes()) << file;
    EXPECT_GE(data.train->size(), config.data.batch()) << file;
  }
}

/// They need their data, so that only the net is built, for the pictures that docs/recipes.md names.
TEST(Config, RecipesLoadAndTheirNetsTakeThePictures) {
  const std::map<std::string, Shape> pictures = {{"cifar10", {2, 3, 32, 32}},
                                                 {"finetune", {2, 3, 64, 64}},
                                                 {"mnist", {2, 1, 28, 28}},
                                                 {"photographs", {2, 3, 224, 224}}};
  const std::vector<fs::path> files = files_of("configs/recipes");
  EXPECT_EQ(files.size(), pictures.size());
  for (const auto& file : files) {
    const TrainConfig config = load_config(file);
    EXPECT_EQ(config_text(config_of(config_text(config))), config_text(config)) << file;
    const Model model(config.model, pictures.at(file.stem().string()));
    EXPECT_EQ(model.output_shape(), Shape({10})) << file;
    // Throws where a group holds nothing.
    Optimizer(model.parameters(),
              {.rule = config.optimizer, .schedule = config.schedule, .groups = config.parameter_groups},
              {.steps_per_epoch = 10, .epochs = 10});
  }
}

TEST(Config, OneKeySwitchesToRealFiles) {
  const fs::path configs = fs::path(NIXIE_SOURCE_DIR) / "configs";
  const std::string here = fs::current_path().string();
  EXPECT_THAT(load_config(configs / "mnist.yaml", {"data.mnist.path=digits"}).data.text(),
              StartsWith("mnist: {path: \"" + here + "/digits\","));
  EXPECT_THAT(load_config(configs / "alexnet.yaml", {"data.image_folder.path=a b"}).data.text(),
              StartsWith("image_folder: {path: \"" + here + "/a b\","));
  EXPECT_EQ(load_config(configs / "mnist.yaml", {"optimizer.adam.beta1=0.8", "steps=7"}).optimizer.kind(), "adam");
  EXPECT_THROW(load_config(configs / "mnist.yaml", {"data.mnist.pth=digits"}), Error);
  EXPECT_THROW(load_config(configs / "none.yaml"), Error);
}

}  // namespace
}  // namespace nixie
