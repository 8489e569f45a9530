// TrialFolder: a folder in the temporary one, for a trial; those that killed processes left are removed.
#pragma once

#include <filesystem>

namespace nixie {

/// A file in it marks it as made here, and is locked for as long as it lives: neither its age nor its name says that it
/// may be removed, and a folder of the user's stays.
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

}  // namespace nixie
