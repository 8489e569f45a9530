// Runs of several ranks under mpirun, against the same run by one process.
#include "nixie/tests/apps/ranks_run.h"

namespace nixie {
namespace {

TEST_F(Ranks, AnyNumberOfRanksEndsAlike) {
  ASSERT_EQ(train(0, "one").code, 0);
  for (const int ranks : {1, 2, 4}) {
    const std::string name = "of" + std::to_string(ranks);
    const Ran ran = train(ranks, name);
    ASSERT_EQ(ran.code, 0) << ran.output;
    EXPECT_LT(difference("one", name), 2e-5) << ranks;
    if (ranks > 1) {
      EXPECT_THAT(ran.output, HasSubstr(fmt::format("{} ranks on ", ranks)));
    }
  }
}

TEST_F(Ranks, RepeatARunBitByBit) {
  ASSERT_EQ(train(3, "first").code, 0);
  ASSERT_EQ(train(3, "second").code, 0);
  expect_same_files(folder_ / "first", folder_ / "second");
}

// Eight shards on any number of ranks: the same files, bit by bit, also where a run goes on with another number.
TEST_F(Ranks, OrderedRunsAreEqualOnAnyNumber) {
  const std::string net =
      "--set reduction=ordered --set data.glyphs.batch=16 --set model='[{conv2d: {out: 4, kernel: 3, pad: 1}}, "
      "batch_norm, "
      "relu, "
      "flatten, {dropout: {rate: 0.3}}, {linear: {out: 10}}]' ";
  ASSERT_EQ(train(0, "one", net).code, 0);
  for (const int ranks : {2, 4}) {
    const std::string name = "of" + std::to_string(ranks);
    const Ran ran = train(ranks, name, net);
    ASSERT_EQ(ran.code, 0) << ran.output;
    expect_same_files(folder_ / "one", folder_ / name, name);
  }
  EXPECT_LT(difference("one", "of4"), 1e-30);
  expect_ran(train(3, "three", net + "--set data.glyphs.batch=24"), 2,
             "reduction: ordered cuts a batch into 8 shards, which 3 ranks cannot share equally");
}

// Drawn digits, and real pictures where there are any: nets with batch norm, dropout and momentum.
TEST_F(Ranks, OrderedRunsOfRealDataAreEqualOnAnyNumberLong) {
  const fs::path real = real_data();
  const struct {
    const char *config, *data, *changes;
  } rows[] = {
      {"demo.yaml", "", "data.glyphs.train=6000 data.glyphs.test=500"},
      {"mnist.yaml", "mnist", "data.mnist.batch=128"},
      {"cifar10.yaml", "cifar10-jpeg.tar.xz", "data.image_folder.crop=32"},
      {"photos.yaml", "sign-language-digits.tar", "data.image_folder.holdout=0.1"},
  };
  std::string counts;
  for (const auto& row : rows) {
    std::string arguments = fmt::format("--config {}/{} --set reduction=ordered --set steps=60 --set backend=cpu",
                                        NIXIE_SOURCE_DIR "/configs", row.config);
    std::istringstream changes(row.changes);
    for (std::string change; changes >> change;) arguments += " --set " + change;
    if (*row.data) {
      fs::path data = real / row.data;
      if (real.empty() || !fs::exists(data)) continue;
      if (data.extension() == ".xz") {
        const std::string to = path("pictures");
        fs::create_directory(to);
        ASSERT_EQ(std::system(fmt::format("tar -xf '{}' -C '{}'", data.string(), to).c_str()), 0);
        data = to;
      }
      arguments += " --data " + data.string();
    }
    const auto train_on = [&](int ranks) {
      const std::string name = row.config + std::to_string(ranks);
      const Ran ran =
          run_program(fmt::format("trainer {} --run {}", arguments, path(name)), ranks ? mpirun(ranks, 600) : "");
      EXPECT_EQ(ran.code, 0) << ran.output;
      return folder_ / name;
    };
    const auto alone = train_on(0);
    for (const int ranks : {2, 4})
      expect_same_files(alone, train_on(ranks), fmt::format("{} on {}", row.config, ranks));
    counts += fmt::format("{}: 60 steps on 1, 2 and 4 ranks\n", row.config);
  }
  fmt::print("{}", counts);
}

// Running statistics are the means of the ranks': each saw a part of the batch.
TEST_F(Ranks, NormaliseWithTheStatisticsOfAll) {
  const std::string net =
      "--set steps=1 --set model='[flatten, {linear: {out: 16}}, batch_norm, relu, {linear: {out: 10}}]'";
  const Ran ran = train(2, "normal", net);
  ASSERT_EQ(ran.code, 0) << ran.output;
  ASSERT_EQ(train(0, "alone", net).code, 0);
  const auto of_two = last("normal").model.at("2.running_mean").to_vector<double>(),
             of_one = last("alone").model.at("2.running_mean").to_vector<double>();
  for (std::size_t i = 0; i < of_two.size(); ++i) EXPECT_NEAR(of_two[i], of_one[i], 1e-5);
}

// A checkpoint does not tell how many ranks wrote it.
TEST_F(Ranks, ResumeOnAnotherNumber) {
  ASSERT_EQ(train(0, "whole").code, 0);
  ASSERT_EQ(train(4, "moved", "--set steps=25").code, 0);
  ASSERT_EQ(train(2, "moved", "--resume --set steps=40").code, 0);
  const Ran ran = train(0, "moved", "--resume --set steps=60");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_LT(difference("whole", "moved"), 2e-5);
}

// The peer is asked by the first rank alone, with the number of ranks.
TEST_F(Ranks, AreTimedBesideAPeer) {
  std::ofstream(folder_ / "torch_ddp.py") << R"(
echo '{"program": "Torch of the test", "engines": {"fp32": ["ddp"]}}'
while read -r request; do
  case $request in
    *'"ranks":2'*) echo '{"alone_ms": {"median": 30}, "together_ms": {"median": 40}}' ;;
    *) echo '{"error": "two ranks alone"}' ;;
  esac
done)";
  const std::string command = fmt::format("benchmark ranks --config {} --runs 1 --python sh --peers {}",
                                          path("net.yaml"), folder_.path().string());
  const Ran ran = run_program(command, mpirun(2));
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, ContainsRegex("net +fp32 +2 +12 .* 30.000 +40.000 +75.0"));
  EXPECT_EQ(run_program(command, mpirun(3)).code, 0);
  EXPECT_EQ(run_program("benchmark ranks --runs 1 --peers /none", mpirun(2)).code, 2);
}

TEST_F(Ranks, SayOnceWhatIsWrong) {
  expect_ran(train(5, "odd"), 2, "rank 0 of 5 on ",
             "batch is 12, which 5 ranks cannot share equally; take 10 or 15, or another number",
             Not(HasSubstr("rank 3 of 5")));
}

}  // namespace
}  // namespace nixie
