// A training run on a GPU against want of memory, missing and old libraries, and kills.
#include <sys/resource.h>

#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which must be preloaded first

const std::string kNet = R"(
model:
  - {conv2d: {out: 8, kernel: 3, pad: 1}}
  - batch_norm
  - relu
  - {max_pool2d: {window: 2}}
  - {conv2d: {out: 16, kernel: 3, pad: 1}}
  - batch_norm
  - relu
  - {max_pool2d: {window: 2}}
  - flatten
  - {linear: {out: 32}}
  - {dropout: {rate: 0.3}}
  - {linear: {out: 10}}
data: {glyphs: {train: 205, test: 50, batch: 20}}
optimizer: adamw
ema: 0.99
schedule: {cosine: {rate: 0.01}}
epochs: 3
seed: 7
backend: cuda
)";

// More kinds of layers, each with state of its own, in halves: many allocations.
const std::string kHalves = R"(
model:
  - {conv2d: {out: 8, kernel: 5, stride: 2, pad: 2}}
  - {group_norm: {groups: 2}}
  - silu
  - {conv2d: {out: 16, kernel: 3, pad: 1, groups: 4}}
  - batch_norm
  - prelu
  - {deconv2d: {out: 8, kernel: 4, stride: 2, pad: 1}}
  - batch_norm
  - gelu
  - {avg_pool2d: {window: 2}}
  - {conv2d: {out: 24, kernel: 3, pad: 1}}
  - layer_norm
  - relu
  - global_avg_pool
  - flatten
  - {linear: {out: 48}}
  - batch_norm
  - relu
  - {dropout: {rate: 0.2}}
  - {linear: {out: 10}}
data: {glyphs: {train: 205, test: 50, batch: 20}}
optimizer: {adam: {weight_decay: 1e-3}}
ema: 0.9
clip_norm: 3
schedule: {cosine: {rate: 0.01}}
epochs: 2
seed: 7
precision: fp16
backend: cuda
)";

class Device : public testing::Test {
 protected:
  Device() {
    std::ofstream(folder_ / "small.yaml") << kRun;
    std::ofstream(folder_ / "conv.yaml") << kNet;
    std::ofstream(folder_ / "halves.yaml") << kHalves;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<std::string> arguments(const std::string& net, const fs::path& run) const {
    std::vector<std::string> words = {"--config", path(net + ".yaml"), "--set", "backend=cuda", "--set", "threads=1",
                                      "--set",    "loader.threads=1",  "--run", run.string()};
    if (fs::exists(run)) words.push_back("--resume");
    return words;
  }

  /// Trains in a folder, which goes; the exit code.
  int train(const std::string& net, const std::map<std::string, std::string>& environment) const {
    std::map<std::string, std::string> all = environment;
    all["LD_PRELOAD"] = std::string(NIXIE_BINARY_DIR) + "/libnixie_device_faults.so";
    const int code = exit_code(Child(arguments(net, folder_ / "run"), path("log"), all).wait());
    fs::remove_all(folder_ / "run");
    return code;
  }

  bool has_device() const { return train("small", {}) != 3; }

  /// In one share of all the allocations of a run, there is no memory from there on. How many allocations there are.
  long want_memory(const std::string& net, int share, int shares, long most) const {
    const auto count = std::map<std::string, std::string>{{"NIXIE_FAULT_COUNT", path("count")}};
    EXPECT_EQ(train(net, count), 0) << text_of(path("log"));
    const long all = std::stol(text_of(path("count")));
    EXPECT_GT(all, 10) << "no allocations were seen";
    const long step = std::max(1L, all / most);
    long runs = 0;
    for (long at = 1 + share * step; at <= all; at += shares * step) {
      const int code = train(net, {{"NIXIE_FAULT_AT", std::to_string(at)}, {"NIXIE_FAULT_COUNT", path("count")}});
      // Memory is kept for later use, so a run whose device is slower may end with fewer allocations than the first.
      if (code == 0 && std::stol(text_of(path("count"))) < at) continue;
      EXPECT_EQ(code, 4) << at << " of " << all << text_of(path("log"));
      EXPECT_THAT(text_of(path("log")), testing::AnyOf(HasSubstr("--set data.glyphs.batch="),  // or no batch's matter
                                                       EndsWith("; use a larger device or a smaller model\n")))
          << at << " of " << all;
      ++runs;
    }
    EXPECT_GT(runs, 0);
    std::printf("%s: %ld allocations, in %ld runs there was no memory from one of them on\n", net.c_str(), all, runs);
    return all;
  }

  TempFolder folder_;
};

TEST_F(Device, WithoutMemoryARunEndsAndNamesABatch) {
  if (!has_device()) GTEST_SKIP() << "no GPU";
  want_memory("small", 0, 1, 6);
}

constexpr int kShares = 12;
class DeviceMemory : public Device, public testing::WithParamInterface<int> {};
TEST_P(DeviceMemory, IsWantedAtEveryAllocationLong) {
  if (!has_device()) GTEST_SKIP() << "no GPU";
  long all = 0;
  for (const char* net : {"small", "conv", "halves"}) all += want_memory(net, GetParam(), kShares, 1'000'000);
  EXPECT_GE(all, 200) << "too few allocations to fail";
}
INSTANTIATE_TEST_SUITE_P(Share, DeviceMemory, testing::Range(0, kShares));

/// Processor time of the children that have ended: that of the clock would tell of other programs' work, too.
double seconds_of_children() {
  rusage used = {};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST_F(Device, MissingAndOldLibrariesAreNamedAtOnce) {
#ifndef NIXIE_WITH_CUDA
  GTEST_SKIP() << "built without CUDA: no library is looked for";
#endif
  const bool has_one = has_device();
  const struct {
    const char *name, *missing, *old;
    bool needs_device;
  } kCases[] = {{"libcuda.so", "no NVIDIA driver was found", "no NVIDIA driver was found", false},
                {"libnvrtc", "cannot open libnvrtc", "libnvrtc.so is too old", true},
                {"libcublasLt", "cannot open libcublasLt", "libcublasLt.so is too old", true}};
  for (const auto& c : kCases) {
    if (c.needs_device && !has_one) continue;
    for (const char* how : {"NIXIE_FAULT_MISSING", "NIXIE_FAULT_OLD"}) {
      // An empty cache: kernels must be compiled.
      const TempFolder cache;
      const double begin = seconds_of_children();
      EXPECT_EQ(train("conv", {{how, c.name}, {"NIXIE_CACHE", cache.path().string()}}), 3)
          << how << c.name << text_of(path("log"));
      const double seconds = seconds_of_children() - begin;
      EXPECT_THAT(text_of(path("log")), HasSubstr(std::string(how).ends_with("OLD") ? c.old : c.missing));
      EXPECT_LT(seconds, 1) << how << c.name;
      std::printf("%s=%s: %.2f s\n", how, c.name, seconds);
    }
  }
  // Commands that need no GPU work without any of it.
  EXPECT_EQ(train("small", {{"NIXIE_FAULT_MISSING", "libcuda.so"}}), 3);
  const std::string before = "NIXIE_FAULT_MISSING=lib LD_PRELOAD=" NIXIE_BINARY_DIR "/libnixie_device_faults.so ";
  EXPECT_EQ(
      run_program("trainer --set backend=auto --config " + path("small.yaml") + " --run " + path("cpu"), before).code,
      0);
}

class DevicePrecision : public Device, public testing::WithParamInterface<const char*> {};
TEST_P(DevicePrecision, KilledAtRandomTheRunGoesOnBitForBitLong) {
  if (!has_device()) GTEST_SKIP() << "no GPU";
  std::ofstream(folder_ / "conv.yaml", std::ios::app) << "save_every: 7\nprecision: " << GetParam() << "\n";
  const auto words = [&](const fs::path& run) {
    std::vector<std::string> all = arguments("conv", run);
    all.insert(all.end(), {"--set", "epochs=150"});
    return all;
  };
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(exit_code(Child(words(folder_ / "whole"), path("log")).wait()), 0) << text_of(path("log"));
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  std::mt19937 random(std::random_device{}());
  int kills = 0, runs = 0;
  while (kills < 20) {
    for (bool done = false; !done;) {
      Child child(words(folder_ / "broken"), path("log"));
      sleep_ms(std::uniform_int_distribution(100, std::max(200, static_cast<int>(whole.count() * 2 / 3)))(random));
      if (kills < 20) child.send(SIGKILL);
      const int code = exit_code(child.wait());
      done = code == 0;
      kills += code == 128 + SIGKILL;
      ASSERT_TRUE(done || code == 128 + SIGKILL) << code << text_of(path("log"));
    }
    ++runs;
    expect_same_files(folder_ / "whole", folder_ / "broken", "after " + std::to_string(kills) + " kills");
    fs::remove_all(folder_ / "broken");
  }
  std::printf("%s: %d kills in %d runs, all ended with the same bytes\n", GetParam(), kills, runs);
}
INSTANTIATE_TEST_SUITE_P(, DevicePrecision, testing::Values("fp32", "fp16"));

#endif

}  // namespace
}  // namespace nixie
