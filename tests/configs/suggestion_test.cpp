// Answers to a word that is not known here: near words, and the words of other frameworks.
#include "nixie/configs/parse/suggestion.h"

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
      EXPECT_FAULT(usage, EndsWith("; " + row.advice),
                   static_cast<void>(read_config(parse_yaml(text + "\nepochs: 1\n", "f.yaml"))))
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

// A sample of each table, of each kind of answer and of each place: the test below has every word.
TEST(Suggestion, WordsOfOtherFrameworks) {
  const std::string inferred = "input sizes are found from what comes before",
                    no_last = "there is none: training leaves out a last batch that is not full";
  expect_advice("model: [WORD]", {{"Conv2d Conv2D conv_2d nn.Conv2d keras.layers.Conv2D", did("conv2d")},
                                  {"Flatten", did("flatten")},
                                  {"PReLU", did("prelu")},
                                  {"depthwise_conv2d DepthwiseConv2D", "it is \"conv2d\" " + kPerChannel},
                                  {"ReLU6 relu6", "it is \"relu_clipped\" with cut: 6"},
                                  {"Lambda", "there is none; `trainer list layers` names those there are"},
                                  {"LSTM GRU nn.LSTM SimpleRNN", "there are no recurrent layers"}});
  expect_advice("model: [{conv2d: {WORD: 3}}]", {{"filters out_channels num_output nofm nb_filter", did("out")},
                                                 {"border_mode", "it is \"pad\" as same or in pixels"},
                                                 {"in_channels input_shape", inferred},
                                                 {"activation", "an activation is the next layer, such as relu"}});
  expect_advice("model: [{dropout: {WORD: 3}}]", {{"keep_prob", "it is \"rate\" with 1 - keep_prob"}});
  expect_advice("optimizer: WORD", {{"Adam optim.Adam", did("adam")},
                                    {"Lion LAMB nadam", "there is none; the nearest are adam and adamw"}});
  expect_advice("optimizer: {sgd: {WORD: 1}}", {{"wdecay l2 decay", did("weight_decay")}});
  expect_advice("loss: WORD", {{"HuberLoss", did("huber")},
                               {"nll_loss NLLLoss", "it is \"cross_entropy\" on outputs without log_softmax"},
                               {"CTCLoss triplet", "there is none"}});
  expect_advice("schedule: WORD",
                {{"ReduceLROnPlateau", did("plateau")}, {"OneCycleLR", "it is \"cosine\" with warmup: {epochs: ...}"}});
  expect_advice("schedule: {step: {WORD: 1}}", {{"gamma decay_rate", did("factor")}, {"lr", did("rate")}});
  expect_advice("WORD: 1", {{"max_epochs num_epochs", did("epochs")},
                            {"gpu", "it is \"backend\" with cuda"},
                            {"mixup", "mixup is a key of mixing: write mixing.mixup"},
                            {"cutmix", "cutmix is a key of mixing: write mixing.cutmix"},
                            {"num_workers", "the threads that decode are loader.threads"}});
  expect_advice("data: WORD", {{"npz h5", "it is \"arrays\" with path: FILE"}, {"folder", did("image_folder")}});
  expect_advice("data: {image_folder: {WORD: 1}}", {{"img_size", did("crop")}, {"drop_last", no_last}});
  expect_advice("loader: {WORD: true}", {{"drop_last", no_last}});
  expect_advice("precision: WORD", {{"16", did("fp16")}, {"32", did("fp32")}});
  expect_advice("metrics: [WORD]",
                {{"acc top1", did("accuracy")}, {"dice", "there is none; the nearest are iou and f1"}});
}

using Words = std::vector<std::string>;

/// The words of each place of a configuration: kinds, keys of a struct, values.
std::vector<Words> places() {
  std::vector<Words> all = {precision_names(), {"same"}, {"auto", "cpu", "cuda"}};
  const auto add_keys = [&]<class T>() {
    if constexpr (Options<T>) {
      all.emplace_back();
      for_each_field<T>([&](const auto& field) { all.back().emplace_back(field.key); });
    }
  };
  const auto add_kinds = [&]<class List>() {
    Words kinds;
    List::for_each([&]<class T>() { kinds.emplace_back(T::name), add_keys.template operator()<T>(); });
    all.push_back(kinds);
  };
  add_kinds.template operator()<Types<TrainConfig, LoaderOptions, Augment, MixingOptions, ParameterGroup, Warmup>>();
  all.pop_back();  // no place has these as kinds
  add_kinds.template operator()<AllModels>(), add_kinds.template operator()<AllLayers>();
  add_kinds.template operator()<AllLosses>(), add_kinds.template operator()<AllMetrics>();
  add_kinds.template operator()<AllOptimizers>(), add_kinds.template operator()<AllSchedules>();
  add_kinds.template operator()<AllDatasets>();
  return all;
}

bool holds(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

/// The first row of a table with this word that counts at a place; null where there is none.
const OtherWord* row_of(const std::vector<OtherWord>& table, const std::string& word, const Words& place) {
  const auto row = std::ranges::find_if(table, [&](const OtherWord& each) {
    return each.word == word && (each.known_word == "*" || holds(place, each.known_word));
  });
  return row == table.end() ? nullptr : &*row;
}

// At every place where it counts; a row that names no word of nixie, or is shadowed by one above it, is never said.
TEST(Suggestion, EveryRowOfTheTablesIsAnswered) {
  std::set<const OtherWord*> said;
  for (const Words& place : places())
    for (const auto* table : {&other_names(), &absent_words()})
      for (const OtherWord& each : *table) {
        if (holds(place, each.word)) continue;
        const OtherWord* name = row_of(other_names(), each.word, place);
        const OtherWord* row = name ? name : row_of(absent_words(), each.word, place);
        const bool is_spelling = !name && std::ranges::any_of(place, [&](std::string known) {
          return std::erase(known, '_') > 0 && known == each.word;
        });
        if (!row || is_spelling) continue;
        said.insert(row);
        EXPECT_EQ(did_you_mean(each.word, place), !name ? "; " + row->text
                                                  : name->text.empty()
                                                      ? "; " + did(name->known_word)
                                                      : "; it is \"" + name->known_word + "\" " + name->text)
            << each.word << " beside " << place[0];
      }
  for (const auto* table : {&other_names(), &absent_words()})
    for (const OtherWord& each : *table)
      EXPECT_TRUE(said.contains(&each)) << each.word << " is never answered with " << each.known_word << " "
                                        << each.text;
}

// `GroupNorm`, `Hardswish`: case and _ do not count.
TEST(Suggestion, EveryWordIsKnownInOtherSpellings) {
  for (const Words& place : places())
    for (const std::string& word : place) {
      std::string plain = word;
      std::erase(plain, '_');
      if (plain.size() < 2 || row_of(other_names(), plain, place)) continue;
      plain[0] = static_cast<char>(std::toupper(plain[0]));
      EXPECT_EQ(did_you_mean("nn." + plain, place), "; " + did(word)) << "beside " << place[0];
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
