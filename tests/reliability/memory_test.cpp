// What the trainer says where there is too little memory: the tensor, and a batch that fits.
#include <gmock/gmock.h>

#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/pictures.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those need terabytes of addresses
namespace nixie {
namespace {

using namespace nixie::test;
using testing::EndsWith;
using testing::HasSubstr;

const std::string kEnd = "data: {glyphs: {train: 40, test: 20, batch: 20}}\nsteps: 1\nbackend: cpu\n";

class WantOfMemory : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  /// A run's result; its folder is removed.
  Ran run(const std::string& arguments, const std::string& before) const {
    const Ran ran = run_program("trainer " + arguments + " --run " + path("run"), before);
    std::filesystem::remove_all(path("run"));
    return ran;
  }
  TempFolder folder_;
};

// Whether it is trained or only tried.
TEST_F(WantOfMemory, NamesTheTensorAndWhatToDo) {
  const std::string smaller_model = "]; use a larger device or a smaller model\n",
                    no_batch = "no batch is sure to fit, use a larger device or a smaller model\n",
                    try_half = "the batch is 20, try --set data.glyphs.batch=10\n";
  const struct {
    std::string layers, how, tensor, advice;
  } kCases[] = {
      {"flatten, {linear: {out: 10000000}}, {linear: {out: 10}}", "--dry-run ", "scratch memory (29907 MiB)", no_batch},
      {"flatten, {linear: {out: 10000000}}, {linear: {out: 10}}", "", "weight.momentum_buffer f32 [10000000, 784]: no ",
       smaller_model},
      {"{conv2d: {out: 4, kernel: 3, stride: 1000000, pad: 1000000}}, flatten, {linear: {out: 10}}", "--dry-run ",
       "[20, 4, 3, 3]", try_half},
      {"{conv2d: {out: 4, kernel: 3, stride: 1000000, pad: 1000000}}, flatten, {linear: {out: 10}}", "",
       "[20, 4, 3, 3]", try_half},
      {"{upsample: {factor: 300}}, flatten, {linear: {out: 10}}", "--dry-run ", "[20, 1, 28, 300, 28, 300]", no_batch},
      {"{upsample: {factor: 300}}, flatten, {linear: {out: 10}}", "", "momentum_buffer f32 [10, 70560000]: no ",
       smaller_model}};
  for (const auto& c : kCases) {
    const std::string net = write("net.yaml", "model: [" + c.layers + "]\n" + kEnd);
    const Ran ran = run(c.how + "--config " + net, "ulimit -v 2000000; ");
    EXPECT_EQ(ran.code, 4) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(c.tensor)) << c.how;
    EXPECT_THAT(ran.output, EndsWith(c.advice)) << c.how;
  }
}

// Under a limit of addresses the batch that is said to fit fits, evaluations and saves included. What no batch changes
// (weights, their averages and copies, a checkpoint in the making) is wanting at once, and no batch is advised.
TEST_F(WantOfMemory, TheBatchThatIsSaidToFitFits) {
  const struct {
    const char* net;
    std::vector<int> limits;  // MiB
  } kCases[] = {{"model: [{conv2d: {out: 64, kernel: 3, pad: 1}}, relu, {conv2d: {out: 64, kernel: 3, pad: 1}}, "
                 "flatten, {linear: {out: 10}}]\n",
                 {200, 240, 280}},
                {"model: [flatten, {linear: {out: 4000}}, tanh, {linear: {out: 10}}]\n"
                 "ema: 0.9\nprecision: fp16\naccumulate: 2\n",
                 {240, 340, 440}}};
  for (const auto& c : kCases) {
    const std::string net = write("net.yaml", c.net + std::string(R"(
schedule: {constant: {rate: 1e-3}}
data: {glyphs: {train: 10000, test: 256, batch: 5000}}
backend: cpu
threads: 2
loader: {threads: 1}
steps: 1
)"));
    int advised = 0;
    for (const int mib : c.limits) {
      const std::string limit = fmt::format("ulimit -v {}; ", mib << 10);
      const Ran first = run("--config " + net, limit);
      EXPECT_EQ(first.code, 4) << mib << first.output;
      const std::size_t at = first.output.rfind(" --set data.glyphs.batch=");
      if (at == std::string::npos) continue;  // another machine's libraries may leave no room
      ++advised;
      const Ran second = run("--config " + net + first.output.substr(at, first.output.size() - 1 - at), limit);
      EXPECT_EQ(second.code, 0) << mib << first.output << second.output;
    }
    EXPECT_GE(advised, 1) << c.net;
  }
}

// A decoder or a thread that finds no memory is no damage of a picture.
TEST_F(WantOfMemory, IsNoDamage) {
  std::filesystem::create_directories(folder_ / "pictures" / "a");
  constexpr int kPictures = 4, kSide = 1500;
  const Bytes file = png(Bytes(3 * kSide * kSide, 7), kSide, kSide);
  for (int i = 0; i < kPictures; ++i) write(fmt::format("pictures/a/{}.png", i), {file.begin(), file.end()});
  int refused = 0, read = 0;
  for (int mib = 40; mib <= 140; mib += 4) {
    const Ran ran = run_program("trainer data verify " + path("pictures"), fmt::format("ulimit -v {}; ", mib << 10));
    if (ran.code == 127) continue;  // the system's loader
    EXPECT_THAT(ran.code, testing::AnyOf(0, 4)) << mib << ran.output;
    ++(ran.code == 0 ? read : refused);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace nixie
#endif
