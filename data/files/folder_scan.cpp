// Scanning goes through the whole tree once; checking shares the files out to threads.
#include "nixie/data/files/folder_scan.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "nixie/core/base/error.h"
#include "nixie/core/base/threads.h"
#include "nixie/data/files/image.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::string lower_suffix(const fs::path& file) {
  std::string suffix = file.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix;
}

std::string kind_of(const fs::path& file) {
  const std::string suffix = lower_suffix(file);
  return suffix.empty() ? "files without a suffix" : suffix + " files";
}

/// Pipes, devices and links that lead nowhere.
constexpr const char* kNoFiles = "entries that are no regular files";

std::vector<std::string> find_pictures(FolderScan& scan, const std::string& class_name) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(scan.folder / class_name)) {
    if (entry.is_directory() || is_hidden(entry.path())) continue;
    if (!entry.is_regular_file())
      ++scan.left_out[kNoFiles];
    else if (is_picture_name(entry.path()))
      found.push_back(entry.path().lexically_relative(scan.folder).string());
    else
      ++scan.left_out[kind_of(entry.path())];
  }
  std::sort(found.begin(), found.end());
  return found;
}

void check_filled(const FolderScan& scan) {
  for (std::size_t c = 0; c < scan.classes.size(); ++c)
    if (scan.pictures[c].empty()) {
      const std::string others = left_out_text(scan);
      fail(Fault::data, (scan.folder / scan.classes[c]).string(), ": no .jpg, .jpeg or .png file",
           others.empty() ? "" : " (" + others + ")", "; remove the folder, or convert its pictures");
    }
}

/// What is wrong with each picture, "" where nothing is.
std::vector<std::string> find_damage(const std::vector<fs::path>& files) {
  std::vector<std::string> damage(files.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  start_threads(threads, "check", count, [&](const std::stop_token& stop) {
    for (std::size_t i = next++; i < files.size() && !stop.stop_requested(); i = next++) try {
        decode_image(read_file(files[i], kMaxImageFile), files[i], 1);
      } catch (const std::exception& error) {
        damage[i] = error.what();
      }
  });
  for (std::jthread& thread : threads) thread.join();
  return damage;
}

}  // namespace

FolderScan scan_folder(const fs::path& folder) {
  FolderScan scan{.folder = folder};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory())
      scan.classes.push_back(entry.path().filename().string());
    else
      ++scan.left_out["files outside the class folders"];
  }
  if (scan.classes.empty())
    fail(Fault::data, folder.string(), ": no class folders; give each class a folder of JPEG or PNG files");
  std::sort(scan.classes.begin(), scan.classes.end());
  for (const std::string& name : scan.classes) scan.pictures.push_back(find_pictures(scan, name));
  check_filled(scan);
  return scan;
}

std::string left_out_text(const FolderScan& scan) {
  std::string text;
  for (const auto& [kind, count] : scan.left_out)
    text += fmt::format("{}{} {}", text.empty() ? "left out " : ", ", count, kind);
  return text;
}

Damage damage_named(const std::string& name) {
  if (name == "error") return Damage::error;
  if (name == "check") return Damage::check;
  check(name == "skip", "image_folder: damaged is ", name, ", expected error, check or skip");
  return Damage::skip;
}

void check_pictures(FolderScan& scan, Damage damage) {
  if (damage == Damage::error) return;
  std::vector<fs::path> files;
  for (const auto& pictures : scan.pictures)
    for (const std::string& picture : pictures) files.push_back(scan.folder / picture);
  const std::vector<std::string> found = find_damage(files);
  const auto bad = static_cast<std::int64_t>(
      std::count_if(found.begin(), found.end(), [](const auto& line) { return !line.empty(); }));
  if (bad == 0) return;
  const std::string& first = *std::find_if(found.begin(), found.end(), [](const auto& line) { return !line.empty(); });
  if (damage == Damage::check)
    fail(Fault::data, bad, " of ", files.size(), " pictures are damaged, the first: ", first,
         "; with damaged: skip they are left out");
  auto line = found.begin();
  for (auto& pictures : scan.pictures) std::erase_if(pictures, [&](const std::string&) { return !(line++)->empty(); });
  scan.left_out[fmt::format("damaged pictures (the first: {})", first)] = bad;
  check_filled(scan);
}

}  // namespace nixie
