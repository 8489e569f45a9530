// Answers to a word that is not known here: near words, and the words of other frameworks.
#include "nixie/configs/parse/suggestion.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/words/tables.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

/// The error of a configuration with this line, each word of `words` in place of `WORD`, ends with the advice.
struct Row {
  std::string words, advice;
};

void expect_advice(const std::string& line, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::istringstream words(row.words);
    for (std::string word; words >> word;) {
      std::string text = line;
      text.replace(text.find("WORD"), 4, word);
      if (!text.starts_with("model")) text += "\nmodel: lenet";
      if (!text.starts_with("data")) text += "\ndata: glyphs";
      EXPECT_THAT(error_of([&] { static_cast<void>(read_config(parse_yaml(text + "\nepochs: 1\n", "f.yaml"))); }),
                  testing::EndsWith("; " + row.advice))
          << word;
    }
  }
}

std::string did(const std::string& word) { return "did you mean \"" + word + "\"?"; }

const std::string kPerChannel = "with groups: the number of its input channels";

TEST(Suggestion, NetsWhoseNamesGoOn) {
  expect_advice("model: WORD", {{"mobilenet MobileNet", did("mobilenet_v1")},
                                {"resnet ResNet", did("resnet18")},
                                {"densenet", did("densenet121")},
                                {"lenett", did("lenet")},
                                {"resnet20 resnet110", "there is none; the nearest is resnet18"},
                                {"EfficientNet", did("efficientnet_b0")},
                                {"regnet", did("regnet_x_400mf")},
                                {"ConvNeXt", did("convnext_tiny")},
                                {"vit UNet",
                                 "there is none; `trainer list models` names those there are, and a list of layers "
                                 "is a net"}});
}

TEST(Suggestion, PaddingOfOtherFrameworks) {
  expect_advice("model: [{conv2d: {out: 2, pad: WORD}}]",
                {{"valid VALID", "without padding it is pad: 0"}, {"SAME smae", did("same")}});
}

TEST(Suggestion, LayersOfOtherFrameworks) {
  expect_advice("model: [WORD]", {
                                     {"Conv2d Conv2D conv_2d nn.Conv2d keras.layers.Conv2D", did("conv2d")},
                                     {"depthwise_conv2d DepthwiseConv2D", "it is \"conv2d\" " + kPerChannel},
                                     {"separable_conv2d SeparableConv2D",
                                      "it is \"conv2d\" " + kPerChannel + ", and after it another with kernel: 1"},
                                     {"ConvTranspose2d Conv2DTranspose deconv transposed_conv", did("deconv2d")},
                                     {"Lambda", "there is none; `trainer list layers` names those there are"},
                                     {"Fold Unfold", "there is none; the nearest are reshape and conv2d"},
                                     {"SPP",
                                      "there is none; the nearest is concat, with adaptive_avg_pool2d and "
                                      "flatten in each branch"},
                                     {"MaxPooling2D MaxPool2d", did("max_pool2d")},
                                     {"AveragePooling2D AvgPool2d", did("avg_pool2d")},
                                     {"GlobalAveragePooling2D gap", "it is \"global_avg_pool\" and after it flatten"},
                                     {"AdaptiveAvgPool2d", did("adaptive_avg_pool2d")},
                                     {"BatchNormalization BatchNorm2d BatchNorm1d bn", did("batch_norm")},
                                     {"InstanceNorm2d", "it is \"group_norm\" " + kPerChannel},
                                     {"LayerNorm LayerNormalization", did("layer_norm")},
                                     {"GroupNorm", did("group_norm")},
                                     {"Dense Linear LazyLinear Affine", did("linear")},
                                     {"Embedding", did("embedding")},
                                     {"Flatten", did("flatten")},
                                     {"ReLU nn.ReLU Rectlin", did("relu")},
                                     {"ReLU6 relu6", "it is \"relu_clipped\" with cut: 6"},
                                     {"Hardswish", did("hard_swish")},
                                     {"LeakyReLU lrelu RReLU", did("leaky_relu")},
                                     {"PReLU", did("prelu")},
                                     {"SiLU Swish", did("silu")},
                                     {"GELU", did("gelu")},
                                     {"Softmax", did("softmax")},
                                     {"Dropout", did("dropout")},
                                     {"UpSampling2D", did("upsample")},
                                     {"Mish", "there is none; the nearest are silu and hard_swish"},
                                     {"GLU", "there is none; chunk, sigmoid and product make one"},
                                     {"MaxUnpool2d", "there is none; the nearest is upsample"},
                                     {"PixelShuffle", did("pixel_shuffle")},
                                     {"ReflectionPad2d", "it is \"pad\" with mode: reflect"},
                                     {"RMSNorm", "there is none; the nearest is layer_norm"},
                                     {"DropPath StochasticDepth", did("drop_path")},
                                     {"Hardsigmoid", did("hard_sigmoid")},
                                     {"Multiply", did("product")},
                                     {"split", did("chunk")},
                                     {"pool Pooling", "it is \"max_pool2d\" or avg_pool2d"},
                                     {"Conv1x1 PointwiseConv", "it is \"conv2d\" with kernel: 1"},
                                     {"ConvModule ConvNormAct", "it is \"conv2d\" and after it batch_norm and relu"},
                                     {"Activation", "an activation is a layer of its own, such as relu"},
                                     {"BiasAdd", "there is none: the layer in front of it adds one, with bias: true"},
                                     {"Bilinear", "there is none; upsample has mode: bilinear"},
                                     {"Permute transpose", did("permute")},
                                     {"Squeeze", "there is none; the nearest are reshape and flatten"},
                                     {"AlphaDropout", "there is none; the nearest is dropout"},
                                     {"LSTM GRU nn.LSTM SimpleRNN", "there are no recurrent layers"},
                                     {"MultiheadAttention TransformerEncoderLayer", "there are no attention layers"},
                                 });
}

TEST(Suggestion, FieldsOfOtherFrameworks) {
  const std::string inferred = "input sizes are found from what comes before";
  expect_advice("model: [{conv2d: {WORD: 3}}]",
                {{"filters out_channels num_output nofm n_out outputs nb_filter num_filters", did("out")},
                 {"kernel_size", did("kernel")},
                 {"padding", did("pad")},
                 {"border_mode", "it is \"pad\" as same or in pixels"},
                 {"fshape", "it is \"kernel\" and its last number is out"},
                 {"norm", "a normalisation is the next layer, such as batch_norm"},
                 {"strides subsample", did("stride")},
                 {"kernel_initializer", did("init")},
                 {"kernel_regularizer", "there is none: the decay of weights is weight_decay of the optimizer"},
                 {"use_bias", did("bias")},
                 {"in_channels input_shape", inferred},
                 {"activation", "an activation is the next layer, such as relu"}});
  expect_advice("model: [{dropout: {WORD: 3}}]", {{"keep_prob", "it is \"rate\" with 1 - keep_prob"}});
  expect_advice("model: [{linear: {WORD: 3}}]", {{"units out_features", did("out")}, {"in_features", inferred}});
  expect_advice("model: [{max_pool2d: {WORD: 3}}]", {{"kernel_size pool_size fshape ksize", did("window")}});
  expect_advice("model: [{batch_norm: {WORD: 3}}]", {{"num_features", inferred}, {"epsilon", did("eps")}});
}

TEST(Suggestion, OptimizersOfOtherFrameworks) {
  const std::string like_adam = "there is none; the nearest are adam and adamw";
  expect_advice("optimizer: WORD", {{"Adam optim.Adam", did("adam")},
                                    {"AdamW", did("adamw")},
                                    {"SGD GradientDescentMomentum", did("sgd")},
                                    {"RMSprop", did("rmsprop")},
                                    {"Adagrad", did("adagrad")},
                                    {"Lion LAMB nadam RAdam LBFGS Adafactor AdamP Adan MADGRAD", like_adam}});
  expect_advice("optimizer: {sgd: {WORD: 1}}",
                {{"wdecay l2 decay", did("weight_decay")}, {"dampening", "there is none: momentum is not dampened"}});
  expect_advice("optimizer: {adam: {WORD: 1}}", {{"betas", did("beta1")}});
}

TEST(Suggestion, LossesOfOtherFrameworks) {
  expect_advice("loss: WORD",
                {{"CrossEntropyLoss ce log_loss", did("cross_entropy")},
                 {"dice_loss", did("dice")},
                 {"categorical_crossentropy sparse_categorical_crossentropy softmax CrossEntropyMulti",
                  "it is \"cross_entropy\" on outputs without softmax"},
                 {"nll_loss NLLLoss", "it is \"cross_entropy\" on outputs without log_softmax"},
                 {"MSELoss mse l2 SumSquared", did("mean_squared")},
                 {"bce BCELoss binary_crossentropy", "it is \"binary_cross_entropy\" on outputs without sigmoid"},
                 {"BCEWithLogitsLoss", did("binary_cross_entropy")},
                 {"L1Loss mae", "it is \"smooth_l1\" with a small beta"},
                 {"SmoothL1Loss", did("smooth_l1")},
                 {"HuberLoss", did("huber")},
                 {"KLDivLoss kl", did("kl_divergence")},
                 {"CTCLoss triplet", "there is none"}});
}

TEST(Suggestion, SchedulesOfOtherFrameworks) {
  expect_advice("schedule: WORD", {{"CosineAnnealingLR", did("cosine")},
                                   {"CosineAnnealingWarmRestarts", "it is \"cosine\" without restarts"},
                                   {"OneCycleLR", "it is \"cosine\" with warmup: {epochs: ...}"},
                                   {"StepLR", did("step")},
                                   {"MultiStepLR", did("multistep")},
                                   {"ExponentialLR", did("exponential")},
                                   {"PolynomialLR", did("polynomial")},
                                   {"LinearLR", "it is \"polynomial\" with power: 1"},
                                   {"ReduceLROnPlateau", did("plateau")},
                                   {"CyclicLR", "there is none; the nearest is cosine"}});
  expect_advice("schedule: {cosine: {WORD: 1}}", {{"T_max T_0", "there is none: a schedule ends with the run"}});
  expect_advice(
      "schedule: {step: {WORD: 1}}",
      {{"gamma decay_rate", did("factor")}, {"step_size stepsize decay_epochs", did("every")}, {"lr", did("rate")}});
}

TEST(Suggestion, KeysOfOtherFrameworks) {
  expect_advice("WORD: 1", {{"max_epochs num_epochs", did("epochs")},
                            {"scheduler lr_scheduler", did("schedule")},
                            {"criterion", did("loss")},
                            {"device accelerator", did("backend")},
                            {"early_stopping", did("patience")},
                            {"gradient_clip_val max_grad_norm", did("clip_norm")},
                            {"accumulate_grad_batches", did("accumulate")},
                            {"weights pretrained", "it is \"init_from\" with a file of weights"},
                            {"eval_every val_every eval_interval", "it is \"evaluate_every\" in steps"},
                            {"save_interval", "it is \"save_every\" in steps"},
                            {"log_interval", "it is \"log_every\" in steps"},
                            {"gpu", "it is \"backend\" with cuda"},
                            {"dropout", "a dropout is a layer, as model: [..., {dropout: {rate: 0.5}}]"},
                            {"shuffle", "there is none: training samples are always shuffled, by seed"},
                            {"num_classes", "it is with the net, as model: {lenet: {classes: 10}}"},
                            {"image_size", "it is with the dataset, as data: {image_folder: {crop: 224}}"},
                            {"wd", "it is under optimizer, as {sgd: {weight_decay: 1e-4}}"},
                            {"smoothing", "it is under loss, as {cross_entropy: {label_smoothing: 0.1}}"},
                            {"mixup_alpha", "it is under mixing, as {mixup: 0.2} or {cutmix: 1}"},
                            {"deterministic", "there is none: a run on the same device repeats with the same seed"},
                            {"gradient_clip_algorithm", "clip_norm: 1 clips by the norm, clip_value: 1 each value"},
                            {"num_sanity_val_steps", "`trainer --dry-run` does one step and one evaluation"},
                            {"drop_last", "there is none: training leaves out a last batch that is not full"},
                            {"fast_dev_run", "`trainer --dry-run` checks a run without training"},
                            {"half bf16 tf32", "it is \"precision\" with fp16, bf16 or tf32"},
                            {"fp16 mixed_precision", "it is \"precision\" with fp16 or bf16"},
                            {"ema_decay", did("ema")},
                            {"base_lr", "the learning rate is under schedule, as {constant: {rate: 0.01}}"},
                            {"mixup", "mixup is a key of mixing: write mixing.mixup"},
                            {"cutmix", "cutmix is a key of mixing: write mixing.cutmix"},
                            {"output_dir", "a run's folder is named by --run DIR"},
                            {"logger", "there is none; a run's folder holds metrics.csv, log.txt and report.html"},
                            {"num_workers", "the threads that decode are loader.threads"}});
}

TEST(Suggestion, DataAndPrecisionsOfOtherPrograms) {
  const std::string no_last = "there is none: training leaves out a last batch that is not full";
  expect_advice(
      "data: WORD",
      {{"cifar", did("cifar10")},
       {"fashion_mnist", "it is \"mnist\" with path: the folder of its files"},
       {"npz h5", "it is \"arrays\" with path: FILE"},
       {"parquet tfrecords pickle", "there is none; as pictures in folders it is image_folder, as arrays arrays"},
       {"folder", did("image_folder")},
       {"tar", "it is \"image_folder\" with path: the folder of .tar files"},
       {"csv", "it is \"arrays\" with path: FILE, for numbers; for rows picture,class it is \"image_folder\""}});
  expect_advice("data: {image_folder: {WORD: 1}}", {{"bs", did("batch")},
                                                    {"img_size", did("crop")},
                                                    {"drop_last", no_last},
                                                    {"val_split", did("holdout")},
                                                    {"randaug", "it is \"augment\" with rand_ops"}});
  expect_advice("data: {arrays: {WORD: 1}}",
                {{"drop_last", no_last}, {"target_size", "there is none: arrays keep the size they have"}});
  expect_advice("loader: {WORD: true}", {{"drop_last", no_last}});
  expect_advice(
      "precision: WORD",
      {{"double", "there is none; the most exact is ieee, in f32"}, {"16", did("fp16")}, {"32", did("fp32")}});
  expect_advice("metrics: [WORD]", {{"acc top1", did("accuracy")},
                                    {"mse", "there is none; with the loss mean_squared every evaluation tells it"},
                                    {"dice", "there is none; the nearest are iou and f1"}});
}

// A row that names no word of nixie, or is shadowed by one above it, would never be said.
TEST(Suggestion, EveryRowOfTheTablesIsAnswered) {
  std::ifstream page(std::filesystem::path(NIXIE_SOURCE_DIR) / "docs/configuration.md");
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  const std::regex word("\\w+");
  const std::sregex_token_iterator first(text.begin(), text.end(), word), last;
  const std::set<std::string> documented(first, last);
  for (const OtherWord& row : other_names()) {
    EXPECT_TRUE(documented.contains(row.known_word)) << row.known_word;
    EXPECT_EQ(did_you_mean(row.word, {row.known_word}),
              row.text.empty() ? "; " + did(row.known_word) : "; it is \"" + row.known_word + "\" " + row.text)
        << row.word;
  }
  for (const OtherWord& row : absent_words()) {
    EXPECT_TRUE(row.known_word == "*" || documented.contains(row.known_word)) << row.known_word;
    EXPECT_EQ(did_you_mean(row.word, {row.known_word}), "; " + row.text) << row.word;
  }
}

TEST(Suggestion, MistypedWordsOfOtherFrameworks) {
  expect_advice("model: [WORD]", {{"global_average_pooling GlobalAveragePoolng", did("global_avg_pool")},
                                  {"BatchNormalisation batch_normalizaton", did("batch_norm")},
                                  {"max_pooling", did("max_pool2d")},
                                  {"average_pooling average_poolin", did("avg_pool2d")},
                                  {"TransformerEncodrLayer", "there are no attention layers"}});
  EXPECT_EQ(did_you_mean("kernel", {"out", "init"}), "");  // a start of kernel_initializer
}

TEST(Suggestion, FindsNearWordsOnly) {
  const std::vector<std::string> known{"momentum", "weight_decay", "rate"};
  EXPECT_EQ(did_you_mean("momentun", known), "; did you mean \"momentum\"?");
  EXPECT_EQ(did_you_mean("raet", known), "; did you mean \"rate\"?");
  EXPECT_EQ(did_you_mean("weightdecay", known), "; did you mean \"weight_decay\"?");
  EXPECT_EQ(did_you_mean("epochs", known), "");
  EXPECT_EQ(did_you_mean("lr", known), "; did you mean \"rate\"?");
  EXPECT_EQ(did_you_mean("LR", {"adam", "sgd"}), "; the learning rate is under schedule, as {constant: {rate: 0.01}}");
  EXPECT_EQ(did_you_mean("rate", {"momentum", "weight_decay"}),
            "; the learning rate is under schedule, as {constant: {rate: 0.01}}");
  EXPECT_EQ(did_you_mean("evaluate", {"eval", "export"}), "; did you mean \"eval\"?");
  EXPECT_EQ(did_you_mean("image", {"mnist", "image_folder"}), "; did you mean \"image_folder\"?");
  EXPECT_EQ(did_you_mean("SGD", {"adam", "sgd"}), "; did you mean \"sgd\"?");
  EXPECT_EQ(did_you_mean("gpu", {"cpu", "cuda"}), "; did you mean \"cuda\"?");
  EXPECT_EQ(did_you_mean("dense", {"conv2d", "linear"}), "; did you mean \"linear\"?");
  EXPECT_EQ(did_you_mean("filters", {"out", "kernel"}), "; did you mean \"out\"?");
  EXPECT_EQ(did_you_mean("MSE", {"cross_entropy", "mean_squared"}), "; did you mean \"mean_squared\"?");
  EXPECT_EQ(did_you_mean("Swish", {"relu", "silu"}), "; did you mean \"silu\"?");
  EXPECT_EQ(did_you_mean("", known), "");
  // Parts that differ as a whole make another word.
  EXPECT_EQ(did_you_mean("step_every", {"save_every"}), "");
  EXPECT_EQ(did_you_mean("sav_evry", {"save_every"}), "; did you mean \"save_every\"?");
  EXPECT_EQ(did_you_mean("param_groups", {"parameter_groups"}), "; did you mean \"parameter_groups\"?");
  EXPECT_EQ(did_you_mean("huber_loss", {"hinge", "huber"}), "; did you mean \"huber\"?");
  EXPECT_EQ(did_you_mean("kernel_constraint", {"kernel", "pad"}), "");
  EXPECT_EQ(did_you_mean(std::string(100'000, 'm'), known), "");
}

}  // namespace
}  // namespace nixie
