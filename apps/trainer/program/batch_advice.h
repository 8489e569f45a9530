// The advice where memory runs out: a smaller batch, which was tried before it is named.
#pragma once

#include <filesystem>
#include <functional>

#include "nixie/configs/parse/config.h"

namespace nixie {

/// A folder in the temporary one, for a trial. A file in it marks it as made here, and is locked for as long as it
/// lives: neither its age nor its name says that it may be removed, and a folder of the user's stays.
class TrialFolder {
 public:
  /// Its path is empty where none can be made. Removes those of this user that are marked and that nobody locks.
  TrialFolder();
  ~TrialFolder();
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int mark_ = -1;
};

/// Want of memory that a smaller batch may end. Its line says what is wanting, not what to do.
class BatchTooLarge final : public Error {
 public:
  BatchTooLarge(std::string line, std::int64_t guess) : Error(Fault::memory, std::move(line)), guess_(guess) {}
  std::int64_t guess() const { return guess_; }  ///< a smaller batch that may fit; 0: none is known

 private:
  std::int64_t guess_;
};

/// Calls `work`, whose memory grows with the batch, and throws BatchTooLarge where it runs out. Arrays that no batch
/// changes are allocated before.
void within_batch(const TrainConfig& config, const std::function<void()>& work);

/// Does what needs the memory with another batch, in a folder that it may fill. Runs in a process of its own.
using BatchTrial = std::function<void(const TrainConfig& config, const std::filesystem::path& folder)>;

/// Calls `work`, and says of a BatchTooLarge of the configuration what to do. On the CPU smaller batches are tried, for
/// some seconds each, under the limits of this process and with what is free: one that is said to fit did. A GPU cannot
/// be tried from a process that has used it, so there the batch is a guess, and said to be one. `work` leaves nothing
/// that holds memory when it throws.
void with_batch_advice(const TrainConfig& config, const std::function<void()>& work, const BatchTrial& trial);
/// The same where the batch is to stay.
void with_kept_batch(const std::function<void()>& work);

}  // namespace nixie
