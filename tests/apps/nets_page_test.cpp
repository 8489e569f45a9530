// The nets of docs/nets.md: each trains, reaches all of its parameters, and shows in the table, the report's picture
// and an ONNX file; and mistakes in a configuration with named inputs name their line.
#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/report/net_graph.h"
#include "nixie/models/io/onnx.h"
#include "nixie/tests/apps/pages.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

const std::string kSteps = "steps: 2\nbackend: cpu\noptimizer: sgd\nschedule: {constant: {rate: 0.1}}\n",
                  kRest = "data: {generated: {train: 8, test: 4, batch: 4}}\n" + kSteps;

TrainConfig config_of(const std::string& model, const std::string& rest = kRest) {
  return read_config(parse_yaml(model + rest, "net.yaml"));
}

TEST(NetsPage, EachNetTrains) {
  const std::vector<std::string> nets = blocks_of(fs::path(NIXIE_SOURCE_DIR) / "docs/nets.md", "yaml");
  ASSERT_EQ(nets.size(), 8u);
  for (const std::string& net : nets) {
    SCOPED_TRACE(net);
    const TrainConfig config = config_of(net, net.starts_with("data:") ? kSteps : kRest);
    EXPECT_EQ(config_text(config_in(config_text(config))), config_text(config));
    Trainer trainer(config);
    std::map<std::string, std::vector<float>> before;
    for (const Variable& v : trainer.model().parameters().trainable()) before[v.name()] = v.array().to_vector<float>();
    ASSERT_TRUE(trainer.train());
    for (const Variable& v : trainer.model().parameters().trainable())
      EXPECT_NE(v.array().to_vector<float>(), before[v.name()]) << v.name() << " got no gradient";
    const std::string table = layer_table(config.model, trainer.model().batch_shape()),
                      picture = net_graph(config.model, trainer.model().batch_shape());
    EXPECT_THAT(table, HasSubstr("fc "));
    EXPECT_THAT(picture, HasSubstr(">fc "));
    EXPECT_FALSE(onnx_bytes(trainer.model()).empty());
  }
}

TEST(NetsPage, ThePictureSaysWhatALayerReads) {
  const TrainConfig config = config_of(
      "model:\n  - {conv2d: {out: 4}, name: a}\n  - {relu: {}, name: b}\n  - {sum: {}, input: [a, b]}\n"
      "  - {shared: {layer: b}}\n  - flatten\n  - linear: {out: 10}\n");
  EXPECT_THAT(net_graph(config.model, {4, 3, 8, 8}), HasSubstr("reads a, b"));
  const std::string table = layer_table(config.model, {4, 3, 8, 8});
  EXPECT_THAT(table, HasParts("of 2 inputs", "parameters of b"));
}

// With weights 0 each cross entropy of ten classes is log(10).
TEST(NetsPage, AnAuxiliaryLossIsPartOfTheTrainingLossAlone) {
  const std::string zero = "{linear: {out: 10, init: {constant: {value: 0}}}";
  for (const auto& [weight, expected] : {std::pair("0.5", "train,3.4538"), std::pair("0", "train,2.3025")}) {
    const TempFolder folder;
    train_all(folder.path(),
              config_of("model:\n  - {flatten: {}, name: x}\n  - " + zero + ", name: aux}\n" +
                            "  - {auxiliary_loss: {weight: " + weight + "}}\n  - " + zero + ", name: fc, input: x}\n",
                        "data: {generated: {train: 8, test: 4, batch: 4}}\nsteps: 1\nlog_every: 1\n"
                        "backend: cpu\nschedule: {constant: {rate: 1e-9}}\n"));
    const std::string metrics = text_of(folder / "metrics.csv");
    EXPECT_THAT(metrics, HasParts(expected, "test,2.3025"));
  }
}

TEST(NetsPage, MistakesAreToldWithTheirLine) {
  const auto error = [](const std::string& layers, const std::string& loss = "") {
    return error_of(
        [&] { Trainer(config_of("model:\n" + layers + "  - flatten\n  - {linear: {out: 10}}\n", kRest + loss)); });
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {error("  - {relu: {}, name: stem}\n  - {tanh: {}, input: stme}\n"),
       "net.yaml:3:23: unknown input \"stme\" in model.1, expected one of input, stem; did you mean \"stem\"?"},
      {error("  - {relu: {}, input: later}\n  - {tanh: {}, name: later}\n"),
       "net.yaml:2:5: 0 (relu): reads \"later\", which comes after it in the list; move that layer in front of this "
       "one"},
      {error("  - {relu: {}, name: a}\n  - {tanh: {}, input: input}\n"),
       "net.yaml:2:5: a (relu): no layer reads its result; name it as an input of another layer, or remove it"},
      {error("  - {relu: {}, name: a}\n  - {slice: {to: 2}, name: b}\n  - {sum: {}, input: [a, b]}\n"),
       "net.yaml:4:5: 2 (sum): input 1 is [4, 2, 32, 32], input 0 is [4, 3, 32, 32]"},
      {error("  - {relu: {}, input: []}\n"),
       "net.yaml:2:23: model.0.input is a list, expected the name of a layer, or a list of names"},
      {error("  - {relu: {}, name: a}\n  - sequential: [flatten, {linear: {out: 5}}, auxiliary_loss]\n"
             "    name: aux\n  - {tanh: {}, input: a}\n"),
       "net.yaml:3:47: aux.2 (auxiliary_loss): the model has 5 outputs, the data 10 classes"},
  };
  for (const auto& [found, expected] : cases) EXPECT_THAT(found, HasSubstr(expected));
}

TEST(NetsPage, AnOutputThatTheLossSquashesAgainIsRefused) {
  const auto error = [](const std::string& last, const std::string& loss) {
    return error_of([&] { config_of("model:\n  - flatten\n  - {linear: {out: 10}}\n" + last, kRest + loss); });
  };
  EXPECT_EQ(
      error("  - softmax\n", ""),
      "net.yaml:4:5: the last layer is softmax, but the loss cross_entropy takes logits and applies softmax itself; "
      "remove the layer");
  EXPECT_THAT(error("  - sequential: [relu, {sigmoid: {}, name: x}, identity]\n", "loss: binary_cross_entropy\n"),
              HasSubstr("the last layer is sigmoid, but the loss binary_cross_entropy takes logits"));
  EXPECT_THAT(error("  - softmax\n", "loss: {loss_sum: {losses: [{loss: mean_squared}, {loss: focal}]}}\n"),
              HasSubstr("net.yaml:4:5: the last layer is softmax, but the loss loss_sum"));
  config_of("model: [flatten, {linear: {out: 10}}, softmax]\n", kRest + "loss: mean_squared\n");
}

}  // namespace
}  // namespace nixie
