// Numbers of run folders, and claiming one so that no run is overwritten.
#include "nixie/apps/trainer/run_folder.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <system_error>

#include "nixie/core/base/error.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The largest number among the folder's entries; 0 where there is none.
int largest_number(const fs::path& folder) {
  int largest = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size()) largest = std::max(largest, number);
  }
  return largest;
}

/// Makes the folders above and the folder itself; false where it was there.
bool make_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  const bool is_made = !error && fs::create_directory(folder, error);
  if (error)
    fail(Fault::storage, folder.string(), ": cannot be made: ", error.message(), "; choose another with --run");
  return is_made;
}

}  // namespace

fs::path make_run_folder(const fs::path& root, const std::string& name) {
  const fs::path parent = root / name;
  for (int number = largest_number(parent) + 1;; ++number) {  // another run may take the number first
    fs::path folder = parent / std::to_string(number);
    if (make_folder(folder)) return folder;
  }
}

void claim_run_folder(const fs::path& folder) {
  if (make_folder(folder)) return;
  for (const char* file : {"config.yaml", "metrics.csv", "last.h5", "best.h5"})
    check(!fs::exists(folder / file), folder.string(), " already holds a run (", file,
          "); go on with it by --resume, or choose another folder with --run");
}

fs::path newest_run_folder(const fs::path& root, const std::string& name) {
  const int number = largest_number(root / name);
  check(number > 0, "there is no run in ", (root / name).string(), " to resume; name its folder with --run");
  return root / name / std::to_string(number);
}

void write_text(const fs::path& path, const std::string& text) {
  PendingFile file(path, static_cast<std::int64_t>(text.size()));
  file.write(std::as_bytes(std::span(text)));
  file.sync();
  file.publish();
}

}  // namespace nixie
