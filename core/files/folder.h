// Folder: an open folder, which stays the same one when it is moved or another takes its path; FilePlace: a name in it.
#pragma once

#include <concepts>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace nixie {

/// A handle: copies are the same open folder. One that cannot be opened has the descriptor -1, which no call takes, and
/// the `error` says why.
class Folder {
 public:
  Folder(const std::filesystem::path& path);  // NOLINT: implicit, as a FilePlace is

  /// As it was opened: for messages, and to read.
  const std::filesystem::path& path() const;
  int descriptor() const;
  /// An errno; 0 where it is open.
  int error() const;
  /// Whether its path still leads to it.
  bool is_in_place() const;
  /// Of what is in it, hidden files too.
  std::vector<std::string> names() const;

 private:
  struct Open;
  std::shared_ptr<const Open> open_;
};

/// Where a file is or will be. What is written there goes into the open folder, wherever that is by then, and nowhere
/// where it was removed.
class FilePlace {
 public:
  /// In the folder that stands at its path now.
  FilePlace(const std::convertible_to<std::filesystem::path> auto& path)  // NOLINT: implicit
      : FilePlace(of_path(path)) {}
  FilePlace(Folder folder, const std::string& name);

  const Folder& folder() const { return folder_; }
  std::string name() const { return path_.filename().string(); }
  /// For messages, and to read.
  const std::filesystem::path& path() const { return path_; }

 private:
  static FilePlace of_path(std::filesystem::path path);

  Folder folder_;
  std::filesystem::path path_;
};

/// Whether the open file is the one that stands there.
bool is_at(int file, const FilePlace& place);
/// Whether one file stands at both.
bool is_same_file(const FilePlace& a, const FilePlace& b);

}  // namespace nixie
