// Replacements: changes of files that are made together, once nothing is found that would refuse one of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nixie/core/files/folder.h"

namespace nixie {

/// Changes of a run's folder, kept in order until `make`. A run that is refused has then changed nothing.
class Replacements {
 public:
  /// The text takes the place of the file.
  void write(const FilePlace& place, std::string text);
  /// `file` gets the further name `place`.
  void link(const FilePlace& file, const FilePlace& place);
  void remove(const FilePlace& place);

  /// Removes what killed processes left half-written in the folder, and makes the changes in their order. Throws
  /// Fault::storage before the first where a file is not to be changed or the disk has no room for the texts.
  void make() const;

 private:
  struct Change {
    FilePlace place;
    std::optional<std::string> text = {};
    std::optional<FilePlace> file = {};
  };
  std::vector<Change> changes_;
};

}  // namespace nixie
