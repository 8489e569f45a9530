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

/// A folder, or a link to nothing in its place.
bool is_half_folder(const fs::directory_entry& entry) {
  const fs::file_type type = type_of(entry);
  return !entry.path().has_extension() && (type == fs::file_type::directory || type == fs::file_type::not_found);
}

/// The half of these words in `root`: a table, which may name pictures in a folder of the same word, but not one of
/// numbers beside such a folder; a shard; a folder or the shards in it. Empty where there is none.
HalfSource half_in(const fs::path& root, HalfWords words) {
  const HalfKind is_table = [](const auto&entry) { return is_table_name(entry.path()); },
                 names_pictures = [&](const auto&entry) { return is_table(entry) && !is_number_table(entry.path()); },
                 is_shard = [](const auto&entry) { return is_shard_name(entry.path()); };
  const fs::path path = find_half(root, words, {names_pictures, is_shard, is_half_folder, is_table});
  if (path.empty()) return {};
  HalfSource shards = fs::is_directory(path) ? shards_in(path) : HalfSource{};
  return shards.empty() ? HalfSource{path} : shards;
}

/// Whether a shard's name holds a word: `imagenet-val-0003.tar` holds `val`.
bool is_named(const fs::path& shard, std::string_view word) {
  std::string letters = lower_case("-" + shard.stem().string() + "-");
  for (char& c : letters)
    if (!std::isalpha(static_cast<unsigned char>(c))) c = '-';
  return letters.find(fmt::format("-{}-", word)) != std::string::npos;
}

/// The shards whose names hold the first of these words that any name holds.
HalfSource shards_named(const std::vector<fs::path>& shards, HalfWords words) {
  for (const std::string_view word : words) {
    HalfSource found;
    std::ranges::copy_if(shards, std::back_inserter(found), [&](const auto& shard) { return is_named(shard, word); });
    if (!found.empty()) return found;
  }
  return {};
}

/// Refuses shards that would be in both halves.
void check_words(const std::vector<fs::path>& shards) {
  for (const fs::path& shard : shards)
    for (const std::string_view training : kTrainingWords)
      for (const std::string_view evaluation : kEvaluationWords)
        if (is_named(shard, training) && is_named(shard, evaluation))
          fail(Fault::data, shard.string(), ": its name has words of both halves, ", training, " and ", evaluation,
               "; rename it");
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
      fail_row(file, row.number, row.cells[0] + " does not end as a JPEG, PNG or WebP file");
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
void refuse_test_alone(const fs::path& path) {
  fs::path half;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (type_of(entry) != fs::file_type::directory || is_hidden(entry.path())) continue;
    const std::string name = lower_case(entry.path().filename().string());
    if (std::ranges::find(kEvaluationWords, name) == kEvaluationWords.end() || !holds_folders(entry.path())) return;
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
  if (columns > kRead) scan.left_out.add("columns behind the class", static_cast<std::int64_t>(columns - kRead));
  return scan;
}

HalfSources find_parts(const fs::path& path) try {
  if ((is_table_name(path) || is_shard_name(path)) && fs::is_regular_file(path)) return {{path}};
  if (!fs::is_directory(path))
    fail(Fault::data, path.string(),
         ": no such folder; set path to a folder of class folders, a .csv file or a .tar file");
  if (HalfSource train = half_in(path, kTrainingWords); !train.empty())
    return {std::move(train), half_in(path, kEvaluationWords)};
  const std::vector<fs::path> shards = shards_in(path);
  if (shards.empty()) refuse_test_alone(path);
  if (shards.empty()) return {{path}};
  check_words(shards);
  HalfSources parts{shards_named(shards, kTrainingWords), shards_named(shards, kEvaluationWords)};
  if (parts.train.empty())
    std::copy_if(shards.begin(), shards.end(), std::back_inserter(parts.train),
                 [&](const fs::path& shard) { return shards_named({shard}, kEvaluationWords).empty(); });
  if (parts.train.empty())
    fail(Fault::data, path.string(), ": all shards are named as a test half; name the others train-*.tar");
  return parts;
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the folder and its permissions");
}

FolderScan scan_pictures(const HalfSource& part, const std::string& target) {
  if (is_table_name(part.front())) return scan_manifest(part.front(), target);
  if (target == "numbers" || target == "mask")
    fail(Fault::usage, part.front().string(), ": target is ", target, ", which a .csv file has; name one with path");
  return is_shard_name(part.front()) ? scan_shards(part) : scan_folder(part.front());
}

std::vector<std::string> class_names_of(const HalfSource& part) try {
  if (is_shard_name(part.front())) return scan_shards(part).classes;
  LeftOut ignored;
  return class_folders(part.front(), ignored);
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the folder and its permissions");
}

}  // namespace nixie
