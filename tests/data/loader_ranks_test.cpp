// The loaders of several ranks: together they give the batches of one.
#include "nixie/data/glyphs.h"
#include "nixie/data/loader.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/ranks.h"

namespace nixie {
namespace {

// The ranks' shares, one after the other, are the batches of one rank: samples, keys, labels and padding.
TEST(LoaderOnRanks, SharesEachBatch) {
  struct Seen {
    std::vector<float> images, labels, weights;
    std::int64_t samples = 0;
    bool operator==(const Seen&) const = default;
    void add(const Batch& batch) {
      const auto append = [](std::vector<float>& to, const Array& from) {
        const auto values = from.to_vector<float>();
        to.insert(to.end(), values.begin(), values.end());
      };
      append(images, batch.images), append(labels, batch.labels), append(weights, batch.weights);
      samples += batch.count;
    }
  };
  const std::shared_ptr<const Dataset> samples = Glyphs{.train = 50}.open().train;
  for (const bool training : {true, false})
    for (const int ranks : {1, 2, 3, 4}) {
      std::vector<Seen> whole, shared(training ? 4 : 5);
      Loader all(samples, {.batch = 12}, 7, training);
      while (const Batch* batch = all.next()) whole.emplace_back().add(*batch);
      for (int rank = 0; rank < ranks; ++rank) {
        Loader own(samples, {.batch = 12}, 7, training, test::alone_of(ranks, rank));
        EXPECT_EQ(own.batches(), std::ssize(whole));
        EXPECT_EQ(own.samples(), 50);
        for (Seen& seen : shared) seen.add(*own.next());
      }
      EXPECT_TRUE(shared == whole) << ranks << " ranks";
    }
  EXPECT_EQ(error_of([&] { Loader(samples, {.batch = 10}, 7, true, test::alone_of(4)); }),
            "loader: batch is 10, which 4 ranks cannot share equally; take 8 or 12, or another number of ranks");
}

}  // namespace
}  // namespace nixie
