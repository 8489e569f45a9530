// Atomically replaced files: written without a name or beside their path, synced, then renamed over the old one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "nixie/core/files/folder.h"

namespace nixie {

/// A new file for a place. Until `publish` returns, the old file there stays; a PendingFile that is destroyed
/// unpublished leaves nothing. A killed process leaves a hidden temporary, `.NAME.tmp.PID.N`: where the file system
/// holds files without a name (O_TMPFILE), only if it is killed within `publish`. See remove_stale_temporaries.
class PendingFile {
 public:
  /// Creates a file in the place's folder, with no name or `.NAME.tmp.PID.N`, and reserves `bytes`. Throws
  /// Fault::storage with the bytes needed and free if the disk has no room, before anything is written.
  PendingFile(FilePlace place, std::int64_t bytes);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Where this process can read it before it is published.
  FilePlace readable() const;
  /// Appends. Throws Fault::storage.
  void write(std::span<const std::byte> bytes);
  /// Makes the bytes durable. Throws Fault::storage.
  void sync();
  /// Renames over a file that is there and makes the name durable. Throws Fault::storage.
  void publish();

 private:
  bool open_nameless();
  void remove_temporary() const;
  [[noreturn]] void fail_writing(const char* what, int error) const;

  FilePlace place_;
  std::string temporary_;
  std::int64_t bytes_;
  int file_ = -1;
  bool has_name_ = false, is_published_ = false;
};

/// Gives `file` the further name `place` (a copy, where the file system knows no second names). Until then the old
/// file stays. Throws Fault::storage.
void link_durably(const FilePlace& file, const FilePlace& place);

/// Gives a place a file of its own: a copy takes the place of a symbolic link or of one of several names of a file, so
/// that writing there changes nothing elsewhere. Throws Fault::storage.
void separate_from_links(const FilePlace& place);

/// Throws Fault::storage where no call may replace, remove or, where it `appends`, append to the file there: an
/// immutable or append-only file, or one of a file system that is mounted for reading. Other refusals, such as the
/// folder's permissions, are found where a file is made.
void check_changeable(const FilePlace& place, bool appends = false);

/// Removes a file, which may be gone already, from its folder. Throws Fault::storage.
void remove_file(const FilePlace& place);

/// Appended to the error of a file that the system refuses to write, what to do: `; it needs 42 bytes, 7 are free; free
/// some space`, or what system_remedy says. `error` is the errno; 0 bytes: how many is not known.
std::string write_remedy(const FilePlace& place, std::int64_t bytes, int error);

/// Removes the temporaries of killed processes from a folder and returns how many there were. Those of a running
/// PendingFile are locked and stay.
int remove_stale_temporaries(const Folder& folder);

}  // namespace nixie
