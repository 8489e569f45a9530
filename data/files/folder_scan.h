// FolderScan: the pictures below class folders, and a count of what else was there.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace nixie {

struct FolderScan {
  std::filesystem::path folder = {};
  std::vector<std::string> classes = {};                ///< the names of the folders, sorted
  std::vector<std::vector<std::string>> pictures = {};  ///< of each class, sorted, relative to `folder`
  std::map<std::string, std::int64_t> left_out = {};    ///< `.gif files` -> how many
};

/// Looks below every folder in `folder`. Names that begin with a dot count as nothing. Throws Fault::data where a class
/// has no picture or there is no class.
FolderScan scan_folder(const std::filesystem::path& folder);

/// `left out 3 .gif files, 1 file outside the class folders`, or "".
std::string left_out_text(const FolderScan& scan);

/// What a picture that cannot be decoded means to a dataset.
enum class Damage {
  error,  ///< reading it ends the run
  check,  ///< all pictures are decoded first; the damaged ones are an error
  skip    ///< all pictures are decoded first; the damaged ones are left out
};
/// Throws a usage Error for another word.
Damage damage_named(const std::string& name);

/// Decodes every picture, on all cores. Under `skip` takes the damaged ones out and counts them; under `check` throws
/// Fault::data naming how many there are and the first; under `error` reads nothing.
void check_pictures(FolderScan& scan, Damage damage);

}  // namespace nixie
