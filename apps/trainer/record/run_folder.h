// Run folders, which hold a run's config.yaml, metrics.csv, timing.csv, last.h5 and best.h5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nixie/core/files/folder.h"

namespace nixie {

/// Makes `root/name/n` with the smallest n above all that are there. Throws Fault::storage.
std::filesystem::path make_run_folder(const std::filesystem::path& root, const std::string& name);
/// Makes a folder for a new run. Throws as check_free does, Fault::storage where it cannot be.
void claim_run_folder(const std::filesystem::path& folder);
/// Throws a usage Error where the folder holds a run.
void check_holds_no_run(const Folder& folder);
/// Throws a usage Error where a trainer has the folder, whose process and host it names, or it holds a run.
void check_free(const Folder& folder);
/// Throws Fault::storage where one of the files that a run reads or writes is a pipe, a device or a folder, or is not
/// to be changed.
void check_run_files(const Folder& folder);
/// The folder of `root/name` with the largest number. Throws a usage Error where there is none.
std::filesystem::path newest_run_folder(const std::filesystem::path& root, const std::string& name);

/// The last checkpoint of the schedule, where last.h5 is one that was asked for and the run may have to go back.
inline constexpr const char* kScheduledCheckpoint = "scheduled.h5";

/// Keeps the file of `step` as `step-N.h5` beside it, a second name of the same bytes, and removes such files of
/// earlier steps but for the newest `count`. Throws Fault::storage.
void keep_checkpoint(const FilePlace& file, std::int64_t step, std::int64_t count);
/// Throws Fault::storage where keep_checkpoint would, for a file that is not to be changed.
void check_can_keep(const Folder& folder, std::int64_t step, std::int64_t count);
/// The files `step-N.h5` of a run, the newest first.
std::vector<FilePlace> kept_checkpoints(const Folder& folder);
/// The checkpoints that a run may have, in the order in which a resume tries them: the last, the last scheduled one,
/// those kept, the best.
std::vector<FilePlace> run_checkpoints(const Folder& folder);

/// Keeps a run folder to itself for as long as it lives, also against other programs: two writers would double rows. A
/// killed process holds no lock.
class RunLock {
 public:
  /// Throws a usage Error that names the process and host of another holder, Fault::storage. A holder that is gone
  /// or has no name yet is waited for, up to a second.
  explicit RunLock(Folder folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Reads and writes go to the locked folder alone.
  const Folder& folder() const { return folder_; }
  /// Takes the folder's lock anew where the file was removed or replaced. Throws as the constructor does, as then
  /// somebody else has the folder, and Fault::storage where the folder is no longer at its path.
  void renew();

 private:
  Folder folder_;  // locked, too: `.lock` may be removed
  int file_;
};

/// Writes a small text whole or not at all. Throws Fault::storage.
void write_text(const FilePlace& place, const std::string& text);

}  // namespace nixie
