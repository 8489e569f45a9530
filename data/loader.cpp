// Loader: a ring of batches filled by worker threads and handed out in order.
#include "nixie/data/loader.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <numeric>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/base/threads.h"
#include "nixie/data/draws.h"

namespace nixie {

std::optional<std::pair<std::size_t, std::string>> Batch::non_finite_pixel() const {
  if (images.dtype() != Dtype::f32) return {};
  const auto values = images.data<float>();
  const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (found == values.end()) return {};
  const auto at = static_cast<std::size_t>(found - values.begin()), stride = values.size() / indices.size();
  const std::vector<std::int64_t> sizes(images.shape().begin() + 1, images.shape().end());
  return {{at / stride, fmt::format("{} at {}", *found, place_text(sizes, at % stride))}};
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, std::uint64_t seed, bool training,
               const World& world)
    : dataset_(std::move(dataset)),
      whole_(options.batch),
      batch_(world.share_of(whole_, "loader: batch")),
      first_(world.rank() * batch_),
      seed_(seed),
      training_(training) {
  check(batch_ > 0, "loader: batch is ", batch_, ", expected at least 1");
  check_fields(options);
  check(dataset_ != nullptr, "loader: there is no dataset");
  sample_ = image_shape(*dataset_);
  read_target_.emplace(*dataset_, options.targets);
  bytes_ = dataset_->bytes();
  size_ = dataset_->size();
  if (size_ < 1) fail(Fault::data, "the dataset is empty: it has ", size_, " samples, expected at least 1");
  if (size_ > Shape::kMostElements) fail(Fault::data, "the dataset has ", size_, " samples, expected at most 2^48");
  batches_ = training ? size_ / whole_ : (size_ + whole_ - 1) / whole_;
  if (batches_ == 0)
    fail(Fault::data, "the dataset has ", size_, " samples, too few for a batch of ", whole_, "; set a smaller batch");
  const int threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  // Small enough that all threads share a batch, large enough that the lock is rarely taken.
  chunk_ = std::clamp<std::int64_t>(batch_ / 4 / threads, 1, 32);
  if (training) order_.resize(static_cast<std::size_t>(size_));
  slots_.resize(static_cast<std::size_t>(options.prefetch) + 1);
  start_threads(workers_, "loader", threads, [this](const std::stop_token& stop) { work(stop); });
}

Loader::~Loader() {
  for (std::jthread& worker : workers_) worker.request_stop();
}

LoaderPosition Loader::position() const {
  std::lock_guard lock(mutex_);
  if (at_end_) return {given_ / batches_ - 1, batches_};
  return {given_ / batches_, given_ % batches_};
}

void Loader::allocate() try {
  const SampleTarget& target = read_target_->target();
  std::vector<std::int64_t> sizes = {batch_};
  sizes.insert(sizes.end(), target.shape.begin(), target.shape.end());
  for (Slot& slot : slots_) {
    slot.batch.images = Array(bytes_ ? Dtype::u8 : Dtype::f32, {batch_, sample_[0], sample_[1], sample_[2]});
    slot.batch.normalization = bytes_ ? &bytes_->normalization() : nullptr;
    slot.batch.labels = Array(target.dtype, Shape(sizes));
    slot.batch.weights = Array(Dtype::f32, {batch_});
    slot.batch.indices.resize(static_cast<std::size_t>(batch_));
  }
} catch (const Error& error) {
  throw Error(error.fault(), "the loader's batches: " + std::string(error.what()));
}

void Loader::start(LoaderPosition position) {
  const bool is_there = position.epoch >= 0 && position.epoch < Shape::kMostElements / batches_ &&
                        position.batch >= 0 && position.batch <= batches_;
  check(is_there, "loader: there is no batch ", position.batch, " of epoch ", position.epoch, ", an epoch has ",
        batches_, " batches");
  std::unique_lock lock(mutex_);
  const std::int64_t ticket = position.epoch * batches_ + position.batch;
  at_end_ = position.batch == batches_;
  const bool has_failed = claimed_ > given_ && slot_of(given_).error;
  if (ticket == given_ && running_ && !has_failed) return;
  running_ = false;
  decoded_.wait(lock, [this] { return in_flight_ == 0; });
  if (slots_.front().batch.indices.empty()) allocate();
  given_ = claimed_ = ticket;
  claimed_to_ = 0;
  running_ = true;
  wanted_.notify_all();
}

const Batch* Loader::next() {
  std::unique_lock lock(mutex_);
  if (std::exchange(at_end_, false)) {
    if (!training_) running_ = false;
    return nullptr;
  }
  if (!running_) {
    lock.unlock();
    start(position());
    lock.lock();
  }
  Slot& slot = slot_of(given_);
  decoded_.wait(lock, [&] { return claimed_ > given_ && slot.pending == 0; });
  if (slot.error) std::rethrow_exception(slot.error);
  ++given_;
  at_end_ = given_ % batches_ == 0;
  wanted_.notify_all();
  return &slot.batch;
}

bool Loader::can_claim() const {
  if (!running_) return false;
  const std::int64_t ahead = given_ + static_cast<std::int64_t>(slots_.size()) - 1;
  const std::int64_t epoch_end = ((at_end_ ? given_ - 1 : given_) / batches_ + 1) * batches_;
  return claimed_ < (training_ ? ahead : std::min(ahead, epoch_end));  // another evaluation may never come
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (wanted_.wait(lock, stop, [this] { return can_claim(); }) && !stop.stop_requested()) {
    Slot& slot = slot_of(claimed_);
    if (claimed_to_ == 0) open_slot();
    const std::int64_t first = claimed_to_, last = std::min(first + chunk_, batch_);
    claimed_to_ = last;
    if (last == batch_) ++claimed_, claimed_to_ = 0;
    ++in_flight_;
    lock.unlock();
    decode(slot, first, last);
    lock.lock();
    --in_flight_;
    slot.pending -= last - first;
    if (slot.pending == 0 || in_flight_ == 0) decoded_.notify_all();
  }
}

void Loader::open_slot() {
  Slot& slot = slot_of(claimed_);
  const std::int64_t begin = claimed_ % batches_ * whole_ + first_;
  slot.epoch = claimed_ / batches_;
  slot.pending = batch_;
  slot.error = nullptr;
  slot.batch.count = std::clamp<std::int64_t>(size_ - begin, 0, batch_);
  if (training_) make_order(slot.epoch);
  const auto weights = slot.batch.weights.data<float>();
  for (std::size_t i = 0; i < slot.batch.indices.size(); ++i) {
    const auto at = static_cast<std::size_t>(begin) + i;
    slot.batch.indices[i] = training_ ? order_[at] : static_cast<std::int64_t>(at) % size_;
    weights[i] = static_cast<std::int64_t>(i) < slot.batch.count ? 1.0f : 0.0f;
  }
}

void Loader::decode(Slot& slot, std::int64_t first, std::int64_t last) {
  const AugmentKey key{seed_, slot.epoch, training_};
  const std::vector<std::int64_t>& indices = slot.batch.indices;
  const auto target_bytes = static_cast<std::size_t>(slot.batch.labels.size_bytes() / batch_);
  const auto stride = static_cast<std::size_t>(slot.batch.images.size() / batch_);
  const auto load = [&](std::size_t i) {
    const auto part = [&](auto images) { return images.subspan(i * stride, stride); };
    return bytes_ ? bytes_->load_bytes(indices[i], key, part(slot.batch.images.data<std::uint8_t>()))
                  : dataset_->load(indices[i], key, part(slot.batch.images.data<float>()));
  };
  const auto keep = [&](std::size_t i, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (slot.error && slot.error_at < static_cast<std::int64_t>(i)) return;
    slot.error = std::move(error);
    slot.error_at = static_cast<std::int64_t>(i);
  };
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) try {
      (*read_target_)(indices[i], key, load(i), {slot.batch.labels.bytes() + i * target_bytes, target_bytes});
    } catch (const std::bad_alloc&) {
      return keep(i, std::make_exception_ptr(
                         Error(Fault::memory, line_of("out of memory while sample ", indices[i], " is loaded"))));
    } catch (...) {
      return keep(i, std::current_exception());
    }
}

void Loader::make_order(std::int64_t epoch) {
  if (order_epoch_ == epoch) return;
  order_epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  shuffle(order_, Draws(random_stream(seed_, "shuffle"), 0, epoch));
}

}  // namespace nixie
