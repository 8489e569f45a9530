// Manifests: fields in quotes as RFC 4180 has them.
#include "nixie/data/files/manifest.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "nixie/core/base/error.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The cells of a line; a quote that does not end goes to the line's end. Spaces around a cell are no part of it.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  const auto trim = [](std::string& cell) {
    cell.erase(cell.find_last_not_of(' ') + 1);
    cell.erase(0, cell.find_first_not_of(' '));
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      trim(cells.back()), cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  }
  trim(cells.back());
  return cells;
}

bool is_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

void sort_classes(std::vector<std::string>& names) {
  const bool are_numbers = std::all_of(names.begin(), names.end(), is_number);
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return are_numbers ? std::stoll(a) < std::stoll(b) : a < b;
  });
}

/// The folder or manifest in `root` that has one of these names in any case, the suffix aside; empty where there is
/// none.
fs::path find_part(const fs::path& root, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const auto& entry : fs::directory_iterator(root)) {
      const fs::path& path = entry.path();
      std::string stem = entry.is_directory() ? path.filename().string() : path.stem().string();
      std::transform(stem.begin(), stem.end(), stem.begin(), [](unsigned char c) { return std::tolower(c); });
      if (stem == name && (entry.is_directory() || is_manifest_name(path))) return path;
    }
  return {};
}

}  // namespace

bool is_manifest_name(const fs::path& file) {
  std::string suffix = file.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".csv";
}

FolderScan scan_manifest(const fs::path& file) {
  std::ifstream text(file);
  if (!text) fail(Fault::data, file.string(), ": cannot be read; check the path and its permissions");
  FolderScan scan{.folder = file.has_parent_path() ? file.parent_path() : fs::path(".")};
  std::map<std::string, std::vector<std::string>> pictures;
  std::string line;
  for (std::int64_t row = 1; std::getline(text, line); ++row) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // as Excel writes it
    if (row == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() == 1 && cells[0].empty()) continue;
    const auto fail_row = [&](const std::string& what) {
      fail(Fault::data, file.string(), ":", row, ": ", what, "; expected a row picture,class");
    };
    if (row == 1 && !is_picture_name(cells[0])) continue;  // names of the columns
    if (cells.size() < 2 || cells[1].empty()) fail_row("no class");
    if (!is_picture_name(cells[0])) fail_row(cells[0] + " does not end as a JPEG or PNG file");
    if (std::error_code ignored; !fs::exists(scan.folder / cells[0], ignored))
      fail_row((scan.folder / cells[0]).string() + " does not exist");
    pictures[cells[1]].push_back(cells[0]);
  }
  if (pictures.empty()) fail(Fault::data, file.string(), ": no row names a picture; expected rows picture,class");
  for (const auto& [name, files] : pictures) scan.classes.push_back(name);
  sort_classes(scan.classes);
  for (const std::string& name : scan.classes) scan.pictures.push_back(std::move(pictures[name]));
  return scan;
}

PictureParts find_parts(const fs::path& path) try {
  if (is_manifest_name(path) && fs::is_regular_file(path)) return {path, {}};
  if (!fs::is_directory(path))
    fail(Fault::data, path.string(), ": no such folder; set path to a folder of class folders or a .csv file");
  const fs::path train = find_part(path, {"train", "training"});
  if (train.empty()) return {path, {}};
  return {train, find_part(path, {"val", "valid", "validation", "test", "testing"})};
} catch (const fs::filesystem_error& error) {
  fail(Fault::data, error.path1().string(), ": ", error.code().message(), "; check the folder and its permissions");
}

FolderScan scan_pictures(const fs::path& part) {
  return is_manifest_name(part) ? scan_manifest(part) : scan_folder(part);
}

std::vector<std::string> class_names_of(const fs::path& part) {
  if (is_manifest_name(part)) return scan_manifest(part).classes;
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(part, error))
    if (entry.is_directory(error) && !entry.path().filename().string().starts_with('.'))
      names.push_back(entry.path().filename().string());
  if (error) fail(Fault::data, part.string(), ": ", error.message(), "; check the folder and its permissions");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nixie
