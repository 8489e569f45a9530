// Folder: an open folder, which stays the same one when it is moved or another takes its path; FilePlace: a name in it.
#pragma once

#include <concepts>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace nixie {

/// A handle: copies are the same open folder. One that cannot be opened has the descriptor -1, which no call takes, and
/// the `error` says why. One that may be passed through but not listed has an error and a descriptor, by which its
/// files are found.
class Folder {
 public:
  Folder(const std::convertible_to<std::filesystem::path> auto& path)  // NOLINT: implicit, as a FilePlace is
      : Folder(opened(path)) {}

  /// As it was opened: for messages.
  const std::filesystem::path& path() const;
  int descriptor() const;
  /// An errno; 0 where it is open.
  int error() const;
  /// Whether its path still leads to it. Throws Fault::storage where the disk does not say.
  bool is_in_place() const;
  /// The names of its entries, hidden files too.
  std::vector<std::string> names() const;

 private:
  struct Open;
  explicit Folder(std::shared_ptr<const Open> open) : open_(std::move(open)) {}
  static Folder opened(const std::filesystem::path& path);

  std::shared_ptr<const Open> open_;
};

/// The place of a file, existing or not: a name in an open folder. It follows the folder where that is moved, and is
/// nowhere once the folder is removed.
class FilePlace {
 public:
  /// In the folder that is at its path now.
  FilePlace(const std::convertible_to<std::filesystem::path> auto& path)  // NOLINT: implicit
      : FilePlace(of_path(path)) {}
  FilePlace(Folder folder, const std::string& name);

  const Folder& folder() const { return folder_; }
  std::string name() const { return path_.has_filename() || path_.empty() ? path_.filename().string() : "."; }
  /// For messages.
  const std::filesystem::path& path() const { return path_; }
  /// For libraries that open files by a path: that one while the folder is there, else one through its descriptor.
  std::filesystem::path readable() const;
  /// A regular file, a folder, nothing, or something else (`unknown`), as std::filesystem::status says of a path.
  std::filesystem::file_status status(std::error_code& error) const;
  std::filesystem::file_status status() const;

 private:
  static FilePlace of_path(std::filesystem::path path);

  Folder folder_;
  std::filesystem::path path_;
};

/// As open() of a path: a descriptor, or -1 and an errno.
int open_file(const FilePlace& place, int flags, int mode = 0);
/// Whether the open file is the one at that place. It and the next throw Fault::storage if the disk does not answer.
bool is_at(int file, const FilePlace& place);
/// Whether both places have the same file.
bool is_same_file(const FilePlace& a, const FilePlace& b);
/// Whether a folder, which may not be there yet, is `outer` or inside it, whatever links lead there.
bool is_within(const std::filesystem::path& folder, const std::filesystem::path& outer);

}  // namespace nixie
