// A folder of pictures of three colours, and a run that was trained on it.
#pragma once

#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/pictures.h"

namespace nixie::test {

/// Plain colours under noise: three classes that a small net tells apart.
inline Bytes coloured(int colour, unsigned seed) {
  std::mt19937 random(seed);
  Bytes pixels;
  for (int i = 0; i < 20 * 14; ++i)
    for (int c = 0; c < 3; ++c) pixels.push_back(static_cast<std::uint8_t>((c == colour ? 180 : 40) + random() % 40));
  return png(pixels, 20, 14);
}

inline const std::string kColours = R"(
model: [{conv2d: {out: 4, kernel: 3}}, batch_norm, relu, global_avg_pool, flatten, {linear: {out: 3}, name: head}]
data: {image_folder: {path: colours, crop: 8, resize: 10, batch: 8, flip: false, holdout: 0.2}}
schedule: {constant: {rate: 0.2}}
epochs: 8
seed: 3
backend: cpu
)";

/// A run on a folder of pictures, made once for all tests, whose programs run in that folder.
class ColourRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Workplace;
    const char* names[] = {"blue, or so", "green", "red"};
    for (int c = 0; c < 3; ++c)
      for (unsigned i = 0; i < 20; ++i)
        write_file(*folder_ / fmt::format("colours/{}/{}.png", names[c], i),
                   coloured(2 - c, 100 * static_cast<unsigned>(c) + i));
    folder_->write("net.yaml", kColours);
    const Ran ran = trainer("train --config net.yaml --run run");
    ASSERT_EQ(ran.code, 0) << ran.output;
    ASSERT_THAT(ran.output, HasSubstr("test accuracy 1.0000"));
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string path(const std::string& name) { return (*folder_ / name).string(); }
  static Ran trainer(const std::string& arguments) { return folder_->trainer(arguments); }

  static inline Workplace* folder_ = nullptr;
};
}  // namespace nixie::test
