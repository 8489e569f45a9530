// Manifests: rows whose first cell names a picture.
#include "nixie/data/files/manifest.h"

#include <algorithm>
#include <cmath>

#include "nixie/core/base/error.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/shards.h"
#include "nixie/data/files/table_file.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The folder, manifest or shard in `root` that has one of these names in any case, the suffix aside; empty where there
/// is none.
fs::path find_part(const fs::path& root, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const auto& entry : fs::directory_iterator(root)) {
      const fs::path& path = entry.path();
      std::string stem = type_of(entry) == fs::file_type::directory ? path.filename().string() : path.stem().string();
      std::transform(stem.begin(), stem.end(), stem.begin(), [](unsigned char c) { return std::tolower(c); });
      if (stem == name && (type_of(entry) == fs::file_type::directory || is_table_name(path) || is_shard_name(path)))
        return path;
    }
  return {};
}

/// What a part is made of: the shards of a folder of shards, else the path itself.
PicturePart part_at(const fs::path& path) {
  if (path.empty()) return {};
  PicturePart shards = fs::is_directory(path) ? shards_in(path) : PicturePart{};
  return shards.empty() ? PicturePart{path} : shards;
}

/// The shards in whose names the first of these words stands that is in any: `val` of `imagenet-val-0003.tar`.
PicturePart shards_named(const std::vector<fs::path>& shards, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    PicturePart found;
    for (const fs::path& shard : shards) {
      std::string stem = shard.stem().string(), letters;
      for (const char c : "-" + stem + "-")
        letters += std::isalpha(static_cast<unsigned char>(c))
                       ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                       : '-';
      if (letters.find("-" + word + "-") != std::string::npos) found.push_back(shard);
    }
    if (!found.empty()) return found;
  }
  return {};
}

[[noreturn]] void fail_row(const fs::path& file, std::int64_t row, const std::string& what) {
  fail(Fault::data, file.string(), ":", row, ": ", what,
       "; expected a row picture,class or picture,mask or picture,number,...");
}

/// Throws where a row names what is not there, or what the system refuses.
void require_picture(const fs::path& file, std::int64_t row, const fs::path& picture) {
  std::error_code error;
  if (fs::exists(picture, error)) return;
  if (!error) fail_row(file, row, picture.string() + " does not exist");
  fail(fault_of_reading(error.value(), Fault::data), file.string(), ":", row, ": ", picture.string(),
       " cannot be read: ", error.message(), "; ", system_remedy(error.value()));
}

/// The rows that name pictures; the first may name the `columns`.
std::vector<TableRow> picture_rows(const fs::path& file, std::vector<std::string>& columns) {
  std::vector<TableRow> rows = read_table(file);
  if (!rows.empty() && !is_picture_name(rows[0].cells[0])) {
    columns = std::move(rows[0].cells);
    rows.erase(rows.begin());
  }
  for (const TableRow& row : rows)
    if (!is_picture_name(row.cells[0]))
      fail_row(file, row.number, row.cells[0] + " does not end as a JPEG or PNG file");
  return rows;
}

/// Whether second cells are numbers: any is that is not whole, as classes are, or all are and not all are finite. What
/// is then no finite number is a mistake, not a class.
bool are_numbers(const std::vector<TableRow>& rows) {
  bool has_fraction = false, has_words = false, has_infinite = false;
  for (const TableRow& row : rows) {
    const auto number = row.cells.size() < 2 ? std::nullopt : number_in(row.cells[1]);
    has_words |= !number;
    has_infinite |= number && !std::isfinite(*number);
    has_fraction |= number && std::isfinite(*number) && *number != std::floor(*number);
  }
  return has_fraction || (has_infinite && !has_words);
}

/// Whether all second cells are pictures.
bool are_masks(const std::vector<TableRow>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const TableRow& row) { return row.cells.size() > 1 && is_picture_name(row.cells[1]); });
}

/// Throws where a class is such a number; nan and inf are words among classes that are.
void refuse_number_of_no_class(const fs::path& file, const TableRow& row) {
  const std::string& name = row.cells[1];
  if (const auto number = number_in(name); !is_number_of_no_class(name) || (number && !std::isfinite(*number))) return;
  fail(Fault::data, file.string(), ":", row.number, ": ", field_text(name),
       " in column 2 is the number of no class; expected one from 0 on, or a name; mend or leave out the row, or set "
       "target to class where these are names, to numbers for a regression");
}

void take_masks(FolderScan& scan, const fs::path& file, const std::vector<TableRow>& rows) {
  scan.pictures.emplace_back();
  for (const TableRow& row : rows) {
    if (row.cells.size() < 2 || row.cells[1].empty()) fail_row(file, row.number, "no mask");
    require_picture(file, row.number, scan.source.folder / row.cells[1]);
    scan.pictures[0].push_back({.name = row.cells[0], .row = static_cast<std::int32_t>(scan.source.masks.size())});
    scan.source.masks.push_back({row.cells[1]});
  }
}

void take_numbers(FolderScan& scan, const fs::path& file, const std::vector<TableRow>& rows) {
  const std::size_t columns = rows[0].cells.size();
  scan.source.numbers = static_cast<std::int64_t>(columns) - 1;
  scan.pictures.emplace_back();
  for (const TableRow& row : rows) {
    if (row.cells.size() < 2) fail_row(file, row.number, "no number");
    if (row.cells.size() != columns)
      fail_row(file, row.number, fmt::format("{} cells where the first row has {}", row.cells.size(), columns));
    scan.pictures[0].push_back({.name = row.cells[0], .row = static_cast<std::int32_t>(scan.pictures[0].size())});
    for (std::size_t c = 1; c < columns; ++c) {
      const auto number = number_in(row.cells[c]);
      if (!number || !std::isfinite(*number))
        fail(Fault::data, file.string(), ":", row.number, ": ", field_text(row.cells[c]), " in column ", c + 1,
             " is no finite number; mend or leave out the row, or set target to class where these are names");
      scan.source.values.push_back(static_cast<float>(*number));
    }
  }
}

bool holds_folders(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path))
    if (type_of(entry) == fs::file_type::directory && !is_hidden(entry.path())) return true;
  return false;
}

/// Throws where the folders in `path` are all test halves, with folders of classes in them: these would be the classes.
void refuse_test_alone(const fs::path& path, const std::vector<std::string>& testing) {
  fs::path half;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (type_of(entry) != fs::file_type::directory || is_hidden(entry.path())) continue;
    std::string name = entry.path().filename().string();
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (std::ranges::find(testing, name) == testing.end() || !holds_folders(entry.path())) return;
    half = entry.path();
  }
  if (!half.empty())
    fail(Fault::data, half.string(),
         ": a test half, but no training half is beside it; name that folder train, or set path to ", half.string(),
         " to hold a share of it out");
}

}  // namespace

FolderScan scan_manifest(const fs::path& file, const std::string& target) {
  FolderScan scan{.source = {file.has_parent_path() ? file.parent_path() : fs::path(".")}};
  const std::vector<TableRow> rows = picture_rows(file, scan.columns);
  if (rows.empty()) fail(Fault::data, file.string(), ": no row names a picture; expected rows picture,class");
  for (const TableRow& row : rows) require_picture(file, row.number, scan.source.folder / row.cells[0]);
  if (target == "numbers" || (target == "auto" && are_numbers(rows))) {
    take_numbers(scan, file, rows);
    return scan;
  }
  constexpr std::size_t kRead = 2;  // the picture, its class or mask
  scan.columns.resize(std::min(scan.columns.size(), kRead));
  if (target == "mask" || (target == "auto" && are_masks(rows))) {
    take_masks(scan, file, rows);
    return scan;
  }
  std::map<std::string, std::vector<Picture>> pictures;
  std::size_t columns = kRead;
  for (const TableRow& row : rows) {
    if (row.cells.size() < 2 || row.cells[1].empty()) fail_row(file, row.number, "no class");
    if (target != "class") refuse_number_of_no_class(file, row);
    columns = std::max(columns, row.cells.size());
    pictures[row.cells[1]].push_back({row.cells[0]});
  }
  take_classes(scan, std::move(pictures));
  if (columns > kRead) scan.left_out["columns behind the class"] = static_cast<std::int64_t>(columns - kRead);
  return scan;
}

PictureParts find_parts(const fs::path& path) try {
  if ((is_table_name(path) || is_shard_name(path)) && fs::is_regular_file(path)) return {{path}};
  if (!fs::is_directory(path))
    fail(Fault::data, path.string(),
         ": no such folder; set path to a folder of class folders, a .csv file or a .tar file");
  const std::vector<std::string> training = {"train", "training"},
                                 testing = {"val", "valid", "validation", "test", "testing"};
  if (const fs::path train = find_part(path, training); !train.empty())
    return {part_at(train), part_at(find_part(path, testing))};
  const std::vector<fs::path> shards = shards_in(path);
  if (shards.empty()) refuse_test_alone(path, testing);
  if (shards.empty()) return {{path}};
  PictureParts parts{shards_named(shards, training), shards_named(shards, testing)};
  if (parts.train.empty())
    std::copy_if(shards.begin(), shards.end(), std::back_inserter(parts.train),
                 [&](const fs::path& shard) { return shards_named({shard}, testing).empty(); });
  if (parts.train.empty())
    fail(Fault::data, path.string(), ": all shards are named as a test half; name the others train-*.tar");
  return parts;
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the folder and its permissions");
}

FolderScan scan_pictures(const PicturePart& part, const std::string& target) {
  if (is_table_name(part.front())) return scan_manifest(part.front(), target);
  if (target == "numbers" || target == "mask")
    fail(Fault::usage, part.front().string(), ": target is ", target, ", which a .csv file has; name one with path");
  return is_shard_name(part.front()) ? scan_shards(part) : scan_folder(part.front());
}

std::vector<std::string> class_names_of(const PicturePart& part) {
  if (is_shard_name(part.front())) return scan_shards(part).classes;
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(part.front(), error))
    if (entry.is_directory(error) && !is_hidden(entry.path())) names.push_back(entry.path().filename().string());
  if (error) fail_reading(part.front(), error.value(), Fault::data, "check the folder and its permissions");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nixie
