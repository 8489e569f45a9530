// The differences of two configurations.
#include "nixie/configs/parse/differences.h"

#include "nixie/configs/parse/config.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

using ::testing::IsEmpty;

TEST(ConfigChanges, AreNamedByPath) {
  const std::string before = "model: {lenet: {classes: 10}}\nepochs: 5\nlist: [1, 2]\n";
  EXPECT_THAT(config_differences(before, before), IsEmpty());
  EXPECT_THAT(config_differences(before, "epochs: 7\nmodel: {lenet: {classes: 10}}\nlist: [1, 3, 4]\n"),
              ElementsAre("epochs: 5 -> 7", "list.1: 2 -> 3", "list.2: nothing -> 4"));
  EXPECT_THAT(config_differences(before, "model: {mlp: {}}\nepochs: 5\nlist: []\n"),
              ElementsAre("list.0: 1 -> nothing", "list.1: 2 -> nothing", "model.lenet.classes: 10 -> nothing",
                          "model.mlp: nothing -> {}"));
}

TEST(ConfigChanges, OfWholeConfigurations) {
  TrainConfig config;
  const std::string before = config_text(config);
  config.epochs += 1;
  config.seed = 77;
  EXPECT_THAT(config_differences(before, config_text(config)), ElementsAre(StartsWith("epochs: "), EndsWith("-> 77")));
}

}  // namespace
}  // namespace nixie
