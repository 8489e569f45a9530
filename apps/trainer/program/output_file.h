// Files that a command may write: none takes the place of a link, of a folder or of a file that the command reads.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nixie {

/// Files by device and inode: links to them, and hard links, are the same files.
class FilesInUse {
 public:
  /// Those of them that are there.
  explicit FilesInUse(const std::vector<std::filesystem::path>& files = {});
  /// The path of the list that leads to the same file; null where none does.
  const std::filesystem::path* find(const std::filesystem::path& file) const;

 private:
  std::map<std::pair<dev_t, ino_t>, std::filesystem::path> files_;
};

/// The reason why a command may not write to this path, in one line that ends with what to do `instead`; "" where it
/// may, also over a file that it may replace. PendingFile refuses devices, pipes and sockets.
std::string output_fault(const std::filesystem::path& file, const FilesInUse& in_use,
                         const std::string& instead = "name another file");
/// Throws the fault, if there is one, as a usage Error.
void check_output(const std::filesystem::path& file, const FilesInUse& in_use = FilesInUse(),
                  const std::string& instead = "name another file");

}  // namespace nixie
