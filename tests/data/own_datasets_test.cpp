// Datasets of one's own that change, end or report wrong sizes while they are read, and halves that do not fit.
#include <stdexcept>

#include "nixie/data/loader.h"
#include "nixie/tests/data/own_samples.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

using Size = std::function<std::int64_t(int call)>;

TEST(OwnDatasets, AreAskedOnceForTheirSize) {
  const Size sizes[] = {[](int call) { return call == 1 ? 40 : 0; },
                        [](int call) { return call == 1 ? 40 : -1; },
                        [](int call) { return 41 - call; },
                        [](int call) { return 39 + call; },
                        [](int call) { return call == 1 ? 40 : throw std::runtime_error("the size is lost"); },
                        [](int call) { return call == 1 ? 40 : throw 42; }};
  for (const Size& size : sizes)
    for (const bool training : {true, false}) {
      Loader loader(own_samples({.size = size}), {.batch = 7, .threads = 2}, 1, training);
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::int64_t samples = 0;
        while (const Batch* batch = loader.next()) {
          EXPECT_LE(batch->count, 7);
          EXPECT_EQ(batch->indices.size(), 7u);
          samples += batch->count;
        }
        EXPECT_EQ(samples, training ? 35 : 40) << epoch;
      }
    }
}

TEST(OwnDatasets, AreImagesWithPixels) {
  for (const Shape& sample : {Shape{0, 4, 5}, Shape{1, 0, 5}, Shape{1, 4, 0}})
    EXPECT_EQ(error_of([&] { Loader(own_samples({.sample = sample}), {.batch = 4}, 0, false); }),
              fmt::format("the dataset's samples are {}, expected [channels, height, width], each at least 1", sample));
}

TEST(OwnDatasets, APixelThatIsNotFiniteIsFound) {
  for (const float pixel : {1.0f, NAN, INFINITY}) {
    Loader loader(own_samples({.pixel = pixel}), {.batch = 8, .threads = 1}, 0, false);
    EXPECT_FALSE(loader.next()->non_finite_pixel());
    const auto found = loader.next()->non_finite_pixel();
    ASSERT_EQ(found.has_value(), !std::isfinite(pixel));
    if (!found) continue;
    EXPECT_EQ(found->first, 3u);  // sample 11
    EXPECT_EQ(found->second, fmt::format("{} at [0, 0, 2]", pixel));
  }
}

TEST(OwnDatasets, HalvesThatDifferAreNamed) {
  const auto first = own_samples({});
  const struct {
    std::shared_ptr<const Dataset> second;
    std::string error;
  } kCases[] = {
      {nullptr, "there is no {1} (null); give a dataset for it"},
      {own_samples({.sample = {1, 5, 5}}), "the shapes of samples differ: [1, 4, 5] in the {0}, [1, 5, 5] in the {1}"},
      {own_samples({.target = {Dtype::f32, {2}}}), "the targets differ: class in the {0}, 2 numbers in the {1}"},
      {own_samples({.names = {"a", "b", "c", "d"}}), "the numbers of classes differ: 3 in the {0}, 4 in the {1}"},
      {own_samples({.names = {"a", "c", "b"}}), "the names of class 1 differ: \"b\" in the {0}, \"c\" in the {1}"},
  };
  for (const auto& [second, error] : kCases) {
    const std::string remedy = second ? "; make them equal" : "";
    const auto expected = [&](const char* a, const char* b) { return fmt::format(fmt::runtime(error), a, b) + remedy; };
    EXPECT_EQ(error_of(Fault::data, [&] { check_halves({first, second}); }), expected("training half", "test half"));
    EXPECT_EQ(error_of(Fault::data, [&] { joined(first, second); }), expected("first dataset", "second dataset"));
  }
  EXPECT_FAULT(data, testing::Eq("there is no training half (null); give a dataset for it"),
               check_halves({nullptr, first}));
  check_halves({first, own_samples({.size = [](int) { return 3; }})});
}

}  // namespace
}  // namespace nixie
