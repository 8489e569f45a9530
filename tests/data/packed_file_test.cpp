// Headers of packed files that are JSON and make no sense.
#include "nixie/data/files/packed_file.h"

#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

TEST(PackedFile, HeadersThatMakeNoSenseNameTheFile) {
  const TempFolder folder;
  const struct {
    std::vector<double> mean, deviation;
    std::string expected;
  } kCases[] = {{{1e300}, {1}, "the mean of channel 0 is inf"},
                {{0.5}, {1e300}, "the deviation of channel 0 is inf"},
                {{0.5}, {1e-300}, "the deviation of channel 0 is 0"},
                {{0.5}, {-1}, "the deviation of channel 0 is -1"},
                {{1e30}, {1e-30}, "too small for f32 with the mean"},
                {{}, {}, "another number of means and deviations than channels"}};
  for (const auto& [mean, deviation, expected] : kCases) {
    const std::string front = packed_front({.samples = 1,
                                            .sample_shape = {1, 2, 2},
                                            .block = 1,
                                            .class_names = {"a"},
                                            .mean = mean,
                                            .deviation = deviation});
    write_file(folder / "x.packed", Bytes(front.begin(), front.end()) + Bytes(100));
    EXPECT_FAULT(data,
                 AllOf(StartsWith((folder / "x.packed").string() + ": its header is damaged ("), HasSubstr(expected)),
                 PackedFile(folder / "x.packed"));
  }
}

}  // namespace
}  // namespace nixie
