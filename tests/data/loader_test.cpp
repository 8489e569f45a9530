// Loader: order, pixels, padding, resuming, errors and shutdown, for several numbers of threads.
#include "nixie/data/loader.h"

#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/data/glyphs.h"
#include "nixie/tests/data/own_samples.h"
#include "nixie/tests/data/support.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

/// Samples that tell which they are and under which key they were loaded, unless a test does something else first.
std::shared_ptr<const Dataset> numbers(std::int64_t size, const std::function<void(std::int64_t index)>& before = {}) {
  const auto load = [before](std::int64_t index, const AugmentKey& key, std::span<float> pixels) {
    if (before) before(index);
    pixels[0] = static_cast<float>(index);
    pixels[1] = static_cast<float>(key.epoch);
    pixels[2] = static_cast<float>(key.seed);
    pixels[3] = key.training ? 1.0f : 0.0f;
    return static_cast<std::int32_t>(index % 3);
  };
  return own_samples({.size = [size](int) { return size; }, .sample = {1, 1, 4}, .load = load});
}

/// The indices of an epoch in the order they come.
std::vector<int> epoch_of(Loader& loader) {
  std::vector<int> indices;
  while (const Batch* batch = loader.next()) {
    const auto pixels = batch->images.data<float>();
    for (std::size_t i = 0; i < pixels.size(); i += 4) indices.push_back(static_cast<int>(pixels[i]));
  }
  return indices;
}

std::vector<float> flat(const Batch& batch) {
  std::vector<float> all = batch.images.to_vector<float>();
  for (const float label : batch.labels.to_vector<float>()) all.push_back(label);
  for (const float weight : batch.weights.to_vector<float>()) all.push_back(weight);
  return all;
}

TEST(Loader, AnEpochIsAPermutationWithoutTheLastPartialBatch) {
  Loader loader(numbers(103), {.batch = 10, .threads = 3}, 7, true);
  EXPECT_EQ(loader.batches(), 10);
  std::vector<std::vector<int>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) epochs.push_back(epoch_of(loader));
  for (const auto& epoch : epochs) {
    EXPECT_EQ(epoch.size(), 100u);
    EXPECT_EQ(std::set<int>(epoch.begin(), epoch.end()).size(), 100u);
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
    EXPECT_GE(*std::min_element(epoch.begin(), epoch.end()), 0);
    EXPECT_LT(*std::max_element(epoch.begin(), epoch.end()), 103);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  Loader other(numbers(103), {.batch = 10, .threads = 3}, 8, true);
  EXPECT_NE(epoch_of(other), epochs[0]) << "another seed gives another order";
}

TEST(Loader, EveryPlaceIsEquallyLikely) {
  // Over 3000 epochs of 8 samples, sample 0 is at each place 375 times, give or take 18.
  Loader loader(numbers(8), {.batch = 8, .threads = 1}, 3, true);
  std::vector<int> places(8);
  for (int epoch = 0; epoch < 3000; ++epoch) {
    const auto order = epoch_of(loader);
    ++places[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())];
  }
  for (const int count : places) EXPECT_NEAR(count, 375, 5 * 18);
}

TEST(Loader, GivesTheSameForAnyNumberOfThreads) {
  const auto dataset = Glyphs{.train = 500}.open().train;
  std::vector<std::vector<float>> expected;
  for (const int threads : {1, 2, 8}) {
    Loader loader(dataset, {.batch = 32, .threads = threads, .prefetch = threads}, 5, true);
    std::size_t at = 0;
    for (int epoch = 0; epoch < 2; ++epoch)
      while (const Batch* batch = loader.next()) {
        if (threads == 1) expected.push_back(flat(*batch));
        ASSERT_LT(at, expected.size());
        EXPECT_EQ(flat(*batch), expected[at++]) << threads << " threads";
      }
    EXPECT_EQ(at, 2u * 15u);
  }
}

TEST(Loader, StartsAnywhere) {
  const auto dataset = numbers(50);
  std::vector<std::vector<float>> straight;
  Loader loader(dataset, {.batch = 8, .threads = 2}, 11, true);
  for (int epoch = 0; epoch < 3; ++epoch)
    while (const Batch* batch = loader.next()) straight.push_back(flat(*batch));
  for (std::int64_t from = 0; from < 18; ++from) {
    Loader resumed(dataset, {.batch = 8, .threads = 3}, 11, true);
    for (Loader* each : {&resumed, &loader}) {  // a fresh one, and one that jumps
      each->start({from / 6, from % 6});
      EXPECT_EQ(each->position(), (LoaderPosition{from / 6, from % 6}));
      for (auto at = static_cast<std::size_t>(from); at < straight.size();)
        if (const Batch* batch = each->next()) {
          EXPECT_EQ(flat(*batch), straight[at++]);
        }
    }
  }
}

/// The same as bytes: the sample's index, three times.
class Bytes final : public ByteDataset {
 public:
  Bytes() : ByteDataset(Normalization(3, {0.5f, 0.25f, 0}, {0.5f, 0.25f, 1})) {}
  std::int64_t size() const override { return 20; }
  Shape sample_shape() const override { return {3, 1, 1}; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int32_t load_bytes(std::int64_t index, const AugmentKey&, std::span<std::uint8_t> bytes) const override {
    std::fill(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(index));
    return 0;
  }

 private:
  std::vector<std::string> names_{"a"};
};

TEST(Loader, BytesStayBytes) {
  const auto dataset = std::make_shared<Bytes>();
  Loader loader(dataset, {.batch = 10, .threads = 2}, 5, false);
  loader.next();
  const Array images = loader.next()->images;
  EXPECT_EQ(images.dtype(), Dtype::u8);
  EXPECT_EQ(images.shape(), (Shape{10, 3, 1, 1}));
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(images.data<std::uint8_t>()[i], 10 + i / 3);
  std::vector<float> pixels(3);
  dataset->load(10, {}, pixels);  // the values of the bytes
  EXPECT_NEAR(pixels[0], (10 / 255.0 - 0.5) / 0.5, 1e-6);
  EXPECT_NEAR(pixels[1], (10 / 255.0 - 0.25) / 0.25, 1e-6);
  EXPECT_NEAR(pixels[2], 10 / 255.0, 1e-6);
}

// Nobody says "bytes" here: the step normalises them.
TEST(Loader, ABatchIsTheInputsOfAStep) {
  Step step(test_backend(), [](const Inputs& in) {
    return Outputs{{"pixels", in["images"] + 0.0}, {"labels", in["labels"] + 0}, {"weights", in["weights"] * 1.0}};
  });
  const std::vector<std::shared_ptr<const Dataset>> datasets{std::make_shared<Bytes>(), numbers(20)};
  for (const auto& dataset : datasets) {
    Loader loader(dataset, {.batch = 10, .threads = 1}, 5, false);
    loader.next();
    const Batch* batch = loader.next();
    EXPECT_EQ(batch->images.dtype(), dataset->bytes() ? Dtype::u8 : Dtype::f32);
    const Outputs out = step(*batch);
    EXPECT_EQ(out.at("pixels").dtype(), Dtype::f32);
    const std::vector<float> pixels = out.at("pixels").to_vector<float>();
    const auto size = static_cast<std::size_t>(dataset->sample_shape().size());
    std::vector<float> sample(size);
    for (std::size_t i = 0; i < 10; ++i) {
      dataset->load(static_cast<std::int64_t>(10 + i), {.seed = 5}, sample);
      for (std::size_t j = 0; j < size; ++j) EXPECT_NEAR(pixels[i * size + j], sample[j], 1e-6);
    }
    EXPECT_EQ(out.at("labels").to_vector<std::int32_t>(), batch->labels.to_vector<std::int32_t>());
    EXPECT_EQ(out.at("weights").to_vector<float>(), std::vector<float>(10, 1.0f));
  }
}

TEST(Loader, StartsAtTheEndOfAnEpoch) {
  Loader loader(numbers(20), {.batch = 10, .threads = 1}, 1, true);
  loader.start({4, 2});
  EXPECT_EQ(loader.position(), (LoaderPosition{4, 2}));
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.position(), (LoaderPosition{5, 0}));
  EXPECT_EQ(loader.next()->images.data<float>()[1], 5.0f);
  EXPECT_THROW(loader.start({0, 3}), Error);
  EXPECT_THROW(loader.start({-1, 0}), Error);
}

TEST(Loader, EvaluationKeepsTheOrderAndPadsWithWeightZero) {
  Loader loader(numbers(23), {.batch = 10, .threads = 2}, 5, false);
  EXPECT_EQ(loader.batches(), 3);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> indices;
    double weights = 0;
    std::int64_t count = 0;
    while (const Batch* batch = loader.next()) {
      EXPECT_EQ(batch->images.shape(), (Shape{10, 1, 1, 4}));
      EXPECT_EQ(batch->labels.dtype(), Dtype::i32);
      for (std::int64_t i = 0; i < 10; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(batch->weights.data<float>()[at], i < batch->count ? 1.0f : 0.0f);
        EXPECT_EQ(batch->images.data<float>()[4 * at + 3], 0.0f) << "no augmentation";
        weights += batch->weights.data<float>()[at];
        if (i < batch->count) indices.push_back(batch->images.data<float>()[4 * at]);
      }
      count += batch->count;
    }
    EXPECT_EQ(count, 23);
    EXPECT_EQ(weights, 23);
    ASSERT_EQ(indices.size(), 23u);
    for (std::size_t i = 0; i < 23; ++i) EXPECT_EQ(indices[i], static_cast<float>(i));
    loader.start({0, 0});
  }
}

TEST(Loader, ADatasetSmallerThanTheBatchIsPaddedOrRefused) {
  Loader loader(numbers(3), {.batch = 8, .threads = 2}, 0, false);
  const Batch* batch = loader.next();
  EXPECT_EQ(batch->count, 3);
  EXPECT_EQ(batch->labels.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_FAULT(data, testing::Eq("the dataset has 3 samples, too few for a batch of 8; set a smaller batch"),
               Loader(numbers(3), {.batch = 8}, 0, true));
  EXPECT_EQ(error_of([] { Loader(numbers(3), {.batch = 0}, 0, true); }), "loader: batch is 0, expected at least 1");
  for (const int prefetch : {0, 2147483647})
    EXPECT_EQ(error_of([&] { Loader(numbers(3), {.batch = 1, .prefetch = prefetch}, 0, true); }),
              fmt::format("prefetch is {}, expected a number from 1 to 1024", prefetch));
  EXPECT_EQ(error_of([] { Loader(numbers(3), {.batch = 1, .threads = -3}, 0, true); }),
            "threads is -3, expected a number from 0 to 1024");
  Loader far(numbers(3), {.batch = 1, .threads = 1}, 0, true);
  EXPECT_FAULT(usage, testing::Eq("loader: there is no batch 0 of epoch 9223372036854775807, an epoch has 3 batches"),
               far.start({std::numeric_limits<std::int64_t>::max(), 0}));
}

TEST(Loader, RefusesADatasetThatCannotBe) {
  for (const bool training : {false, true}) {
    const LoaderOptions options{.batch = 4, .threads = 1};
    EXPECT_EQ(error_of([&] { Loader(nullptr, options, 0, training); }), "loader: there is no dataset");
    for (const std::int64_t size : {std::int64_t{-5}, std::int64_t{0}})
      EXPECT_EQ(error_of(Fault::data, [&] { Loader(numbers(size), options, 0, training); }),
                fmt::format("the dataset is empty: it has {} samples, expected at least 1", size));
    EXPECT_EQ(error_of(Fault::data, [&] { Loader(numbers(std::int64_t{1} << 62), options, 0, training); }),
              "the dataset has 4611686018427387904 samples, expected at most 2^48");
  }
}

TEST(Loader, AnErrorComesOutOfNextInItsPlace) {
  for (const int threads : {1, 2, 8}) {
    const auto breaks = [](std::int64_t index) {
      if (index == 25 || index == 27) fail(Fault::data, "sample ", index, " is broken");
    };
    Loader loader(numbers(40, breaks), {.batch = 10, .threads = threads}, 0, false);
    EXPECT_NE(loader.next(), nullptr);
    EXPECT_NE(loader.next(), nullptr);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(error_of(Fault::data, [&] { loader.next(); }), "sample 25 is broken");
    loader.start({0, 3});
    EXPECT_NE(loader.next(), nullptr) << "and the loader lives on";
    EXPECT_EQ(loader.next(), nullptr);
  }
}

/// Targets of three classes, but for element 5 (or 0) of sample 9; labels 255, -100 and -1 are no class.
class Targets final : public Dataset {
 public:
  explicit Targets(double value, SampleTarget target = {}, Shape sample = {1, 1, 1}, int classes = 3)
      : value_(value), target_(std::move(target)), sample_(std::move(sample)) {
    names_.resize(static_cast<std::size_t>(classes), "a class");
  }
  std::int64_t size() const override { return 12; }
  Shape sample_shape() const override { return sample_; }
  SampleTarget target() const override { return target_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::vector<std::int32_t> labels_without_class() const override { return {255, -100, -1}; }
  std::string target_place(std::int64_t index) const override {
    return target_.shape.rank() == 2 ? fmt::format("masks/{}.png", index) : "";
  }
  std::int32_t load(std::int64_t index, const AugmentKey&, std::span<float>) const override {
    return index == 9 ? static_cast<std::int32_t>(value_) : 2;
  }
  void load_target(std::int64_t index, const AugmentKey&, std::span<std::byte> target) const override {
    if (target_.dtype == Dtype::f32)
      fill(index, std::span(reinterpret_cast<float*>(target.data()), target.size() / 4));
    else
      fill(index, std::span(reinterpret_cast<std::int32_t*>(target.data()), target.size() / 4));
  }

 private:
  template <class T>
  void fill(std::int64_t index, std::span<T> target) const {
    std::ranges::fill(target, T{2});
    if (index == 9) target[target.size() > 5 ? 5 : 0] = static_cast<T>(value_);
  }

  double value_;
  SampleTarget target_;
  Shape sample_;
  std::vector<std::string> names_;
};

// A loader that dropped an axis would hand out less memory than such a class fills.
TEST(Loader, SamplesAreImages) {
  for (const Shape& sample : {Shape{}, Shape{4}, Shape{2, 2}, Shape{1, 2, 2, 8}})
    EXPECT_FAULT(usage, "expected [channels, height, width]",
                 Loader(std::make_shared<Targets>(0, SampleTarget{}, sample), LoaderOptions{.batch = 4}, 0, true));
}

TEST(Loader, RefusesTargetsThatAreNoClassOrNoNumber) {
  constexpr double kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr Dtype kClasses = Dtype::i32, kNumbers = Dtype::f32;
  const std::string of_labels =
      ", expected 0 to 2 or 255 or -100 or -1; mend the dataset, its class names or its labels without class";
  const std::string of_numbers = ", expected numbers that are finite; mend the dataset, or take that sample out";
  const std::string of_range =
      ", expected a number from 0 to 2, which the loss takes; mend the dataset, or take that sample out";
  struct Case {
    SampleTarget target;
    double value;
    std::string error;
    Range range = {};
  };
  for (const Case& c : {
           Case{{kClasses, {}}, 3, "sample 9 has label 3" + of_labels},
           Case{{kClasses, {}}, kLeast, "sample 9 has label -2147483648" + of_labels},
           Case{{kClasses, {}}, 255, "no error"},
           Case{{kClasses, {7}}, 77, "sample 9 has label 77 at [5]" + of_labels},
           Case{{kClasses, {50, 40}}, 3, "sample 9 (masks/9.png) has label 3 at [0, 5]" + of_labels},
           Case{{kClasses, {2, 4}}, -2, "sample 9 (masks/9.png) has label -2 at [1, 1]" + of_labels},
           Case{{kClasses, {2, 4}}, 255, "no error"},
           Case{{kClasses, {2, 4}}, -100, "no error"},
           Case{{kClasses, {2, 4}}, -1, "no error"},
           Case{{kClasses, {2, 2, 2}}, 77, "sample 9 has label 77 at [1, 0, 1]" + of_labels},
           Case{{kNumbers, {}}, NAN, "sample 9 has the target nan" + of_numbers},
           Case{{kNumbers, {7}}, -INFINITY, "sample 9 has the target -inf at [5]" + of_numbers},
           Case{{kNumbers, {3, 2}}, NAN, "sample 9 (masks/9.png) has the target nan at [2, 1]" + of_numbers},
           Case{{kNumbers, {7}}, -3e38, "no error"},
           Case{{kNumbers, {7}}, 2.5, "sample 9 has the target 2.5 at [5]" + of_range, {0, 2}},
           Case{{kNumbers, {}}, -1e-9, "sample 9 has the target -1e-09" + of_range, {0, 2}},
           Case{{kClasses, {}}, 255, "no error", {0, 1}},
       }) {
    Loader loader(std::make_shared<Targets>(c.value, c.target), {.batch = 12, .threads = 2, .targets = c.range}, 0,
                  false);
    EXPECT_EQ(error_of(Fault::data, [&] { loader.next(); }), c.error) << to_string(c.target) << " " << c.value;
  }
}

TEST(Loader, RefusesTargetsThatCannotBe) {
  const auto error = [](SampleTarget target, int classes) {
    return error_of([&] {
      Loader(std::make_shared<Targets>(2, std::move(target), Shape{1, 1, 1}, classes), LoaderOptions{.batch = 4}, 0,
             true);
    });
  };
  EXPECT_EQ(error({Dtype::f64, {2}}, 3), "the dataset's targets are f64, expected i32 (classes) or f32 (numbers)");
  EXPECT_EQ(error({Dtype::i32, {2}}, 0), "the dataset's targets are classes, but it names none; give it class_names");
  EXPECT_EQ(error({Dtype::f32, {2}}, 0), "no error");
}

TEST(Loader, StopsAtAnyMoment) {
  const auto slow = numbers(1000, [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 40; ++round) {
    Loader loader(slow, {.batch = 100, .threads = 4, .prefetch = 4}, 0, round % 2 == 0);
    if (round % 4 == 0) continue;                     // never started
    loader.start({round, round % 10});                // started, nothing taken
    if (round % 4 > 1) loader.start({round + 1, 3});  // and again, in the middle of decoding
    if (round % 8 == 7) {
      EXPECT_NE(loader.next(), nullptr);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Loader, DecodesAheadOfTheReaderAndNoFurther) {
  std::atomic<int> loads = 0;
  Loader loader(numbers(100, [&](std::int64_t) { ++loads; }), {.batch = 20, .threads = 2, .prefetch = 2}, 0, true);
  loader.start({0, 0});
  const auto settles_at = [&](int expected) {
    for (int wait = 0; wait < 2000 && loads < expected; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return loads.load();
  };
  EXPECT_EQ(settles_at(40), 40);
  loader.next();
  EXPECT_EQ(settles_at(60), 60);
}

}  // namespace
}  // namespace nixie
