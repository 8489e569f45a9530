// Loader: batches of a dataset, decoded in the background, in an order that depends on the seed alone.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/graph/world.h"
#include "nixie/data/dataset.h"

namespace nixie {

struct LoaderOptions {
  std::int64_t batch = 128;  ///< of all ranks; no field: configurations give it with the dataset
  int threads = 0;
  int prefetch = 2;
  Range targets = {};  ///< no field: numbers that the loss takes

  static constexpr const char* name = "loader";
  static constexpr auto fields() {
    return field_list(field("threads", &LoaderOptions::threads, "decoding threads, 0 = one per core", {0, 1024}),
                      field("prefetch", &LoaderOptions::prefetch, "batches decoded ahead", {1, 1024}));
  }
};

struct Batch {
  Array images;                                  ///< [N, C, H, W], u8 if the dataset's samples are bytes, else f32
  Array labels;                                  ///< i32 [N] classes, or [N, ...] of Dataset::target
  Array weights;                                 ///< f32 [N]: 1, or 0 for padding
  std::vector<std::int64_t> indices;             ///< which samples of the dataset these are, padding included
  std::int64_t count = 0;                        ///< samples without padding; they come first, there may be none
  const Normalization* normalization = nullptr;  ///< the dataset's, for bytes

  /// A model's input, f32: the images, or their normalised bytes.
  Tensor pixels() const { return normalization ? (*normalization)(images) : Tensor(images); }
  /// The row of the first sample with a pixel that is not finite, and that: `nan at [0, 3, 5]`; none where all are.
  std::optional<std::pair<std::size_t, std::string>> non_finite_pixel() const;
  /// The inputs of a Step: `train(*batch)`. `images` are the pixels; bytes go to the device as bytes and are normalised
  /// inside the step.
  operator std::map<std::string, Tensor>() const {
    return {{"images", pixels()}, {"labels", labels}, {"weights", weights}};
  }
};

/// The position of a loader.
struct LoaderPosition {
  std::int64_t epoch = 0, batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

/// Training: every epoch is a new permutation of the dataset, augmented, without the last partial batch.
/// Evaluation: the dataset's own order, no augmentation, the last batch padded with repeats of weight 0.
/// Order and pixels are a function of (seed, epoch, index), for any number of threads and any start. Each rank
/// of a World gets an equal share of a batch: rank 0 the first samples. Not thread-safe.
class Loader {
 public:
  /// Throws Fault::data if the dataset is empty, or a training set smaller than one batch, Fault::usage if the ranks
  /// cannot share a batch equally. Size, shape, target and
  /// kind of the samples are asked for here and never again: later calls of the dataset read samples.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, std::uint64_t seed, bool training,
         const World& world = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const { return *dataset_; }
  /// Samples of the dataset, and batches in an epoch.
  std::int64_t samples() const { return size_; }
  std::int64_t batches() const { return batches_; }
  /// The position of the batch that `next` returns next; `batch == batches()` if it will end the epoch.
  LoaderPosition position() const;
  /// Moves to a batch of an epoch and begins to decode; free if the loader is already there, unless that batch's error
  /// was found: it is then decoded again.
  void start(LoaderPosition position);
  /// The next batch, valid until `next` or `start` is called again (its arrays are then reused); null at the end of
  /// each epoch, then the next epoch follows. Throws the batch's first error, and again until `start` is called.
  const Batch* next();

 private:
  struct Slot {
    Batch batch;
    std::int64_t epoch = 0;
    std::int64_t pending = 0;  // not yet decoded
    std::int64_t error_at = 0;
    std::exception_ptr error;
  };

  Slot& slot_of(std::int64_t ticket) { return slots_[static_cast<std::size_t>(ticket) % slots_.size()]; }
  void allocate();
  bool can_claim() const;
  void work(const std::stop_token& stop);
  void open_slot();
  void decode(Slot& slot, std::int64_t first, std::int64_t last);
  void make_order(std::int64_t epoch);

  std::shared_ptr<const Dataset> dataset_;
  std::optional<TargetReader> read_target_;
  const ByteDataset* bytes_ = nullptr;  // the dataset, if its samples are bytes
  Shape sample_;
  std::int64_t size_ = 0;
  std::int64_t whole_, batch_;  // samples of all ranks' batch, and of this rank's share of it
  std::int64_t first_;          // where the share begins in the batch
  std::int64_t batches_, chunk_;
  std::uint64_t seed_;
  bool training_;

  // A ticket is a batch number over all epochs. Workers decode tickets in [given_, given_ + prefetch); the caller uses
  // the slot of given_ - 1. mutex_ guards everything below except the arrays of claimed samples.
  mutable std::mutex mutex_;
  std::condition_variable_any wanted_, decoded_;
  std::vector<Slot> slots_;
  bool running_ = false, at_end_ = false;
  std::int64_t given_ = 0;                     // the ticket that next() returns
  std::int64_t claimed_ = 0, claimed_to_ = 0;  // the ticket, and how many of its samples, that workers have taken
  std::int64_t in_flight_ = 0;                 // claims being decoded
  std::int64_t order_epoch_ = -1;
  std::vector<std::int64_t> order_;
  std::vector<std::jthread> workers_;
};

}  // namespace nixie
