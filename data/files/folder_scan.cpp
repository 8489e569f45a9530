// Scanning goes through the whole tree once; checking shares the files out to threads.
#include "nixie/data/files/folder_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>

#include "nixie/core/base/error.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/base/threads.h"
#include "nixie/core/files/folder.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/files/tar_file.h"
#include "nixie/data/fingerprint.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

std::string kind_of(const fs::path& file) {
  const std::string suffix = lower_suffix(file);
  return suffix.empty() ? "files without a suffix" : suffix + " files";
}

bool is_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// The pictures of a class; what else is there is counted as left out. Throws Fault::data where there are none.
std::vector<Picture> find_pictures(FolderScan& scan, const std::string& class_name) {
  const fs::path folder = scan.source.folder / class_name;
  FolderScan of_class{.source = scan.source};
  std::vector<Picture> found;
  for (const fs::path& path : pictures_below(folder, of_class))
    found.push_back({path.lexically_relative(scan.source.folder).string()});
  if (found.empty()) {
    const std::string others = of_class.left_out.text();
    fail(Fault::data, folder.string(), ": no .jpg, .png or .webp file",
         others.empty() ? "; remove the folder" : " (" + others + "); remove the folder, or convert its pictures");
  }
  scan.left_out.add(of_class.left_out);
  std::sort(found.begin(), found.end(), [](const Picture& a, const Picture& b) { return a.name < b.name; });
  return found;
}

/// Whether an entry is a link to a folder that holds one of the `depth` folders above it, which has no end.
bool leads_back(const fs::directory_entry& entry, int depth) {
  if (!entry.is_symlink()) return false;
  for (fs::path folder = entry.path().parent_path(); depth > 0; folder = folder.parent_path(), --depth)
    if (is_within(folder, entry.path())) return true;
  return false;
}

/// The type of an entry that is to be read, `depth` folders below the first; none if it is hidden, or a link that leads
/// nowhere or back, which is counted by its name in `root`.
fs::file_type type_to_read(const fs::directory_entry& entry, int depth, const fs::path& root, LeftOut& left_out) {
  if (is_hidden(entry.path())) return fs::file_type::none;
  const fs::file_type type = type_of(entry);
  const bool is_loop = type == fs::file_type::directory && leads_back(entry, depth);
  if (!is_loop && type != fs::file_type::not_found) return type;
  left_out.add(is_loop ? "links that lead back to a folder they are in" : "links to nothing", 1,
               entry.path().lexically_relative(root).string());
  return fs::file_type::none;
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(*entry);
  if (error) throw fs::filesystem_error("", folder, error);  // the iterator's own names nothing
  return entries;
}

/// The fault of each picture, "" for a sound one.
std::vector<std::string> find_damage(const PictureSource& source, const std::vector<const Picture*>& pictures,
                                     Decoding decoding) {
  decoding.least_side = 1;
  std::vector<std::string> damage(pictures.size());
  share_out("check", static_cast<std::int64_t>(pictures.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    try {
      decode_image(source.read(*pictures[at]), source.path_of(*pictures[at]), decoding);
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;  // the picture may be good
      damage[at] = error.what();
    }
  });
  return damage;
}

}  // namespace

std::string lower_suffix(const fs::path& file) {
  std::string suffix = file.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix;
}

bool is_hidden(const fs::path& path) {
  constexpr const char* kOfSystems[] = {"__MACOSX",   "@eaDir",       "#recycle",
                                        "lost+found", "$RECYCLE.BIN", "System Volume Information"};
  const std::string name = path.filename().string();
  return name.starts_with('.') || std::ranges::find(kOfSystems, name) != std::end(kOfSystems);
}

fs::file_type type_of(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::file_type type = entry.status(error).type();
  if (error == std::errc::too_many_symbolic_link_levels) return fs::file_type::not_found;
  if (type == fs::file_type::none) throw fs::filesystem_error("", entry.path(), error);
  return type;
}

std::vector<fs::path> pictures_below(const fs::path& folder, FolderScan& scan) {
  struct Folder {
    bool is_link;  // or below one: the folder's own name is taken before those of links to it
    fs::path path;
    int depth;
    auto operator<=>(const Folder&) const = default;
  };
  std::vector<fs::path> found;
  std::set<std::pair<dev_t, ino_t>> read;  // links that fan out lead to a folder on many ways
  std::set<Folder> waiting = {{false, folder, 1}};
  while (!waiting.empty()) {
    const auto [is_link, at, depth] = std::move(waiting.extract(waiting.begin()).value());
    struct stat about {};
    if (::stat(at.c_str(), &about) != 0) throw fs::filesystem_error("", at, {errno, std::generic_category()});
    if (!read.insert({about.st_dev, about.st_ino}).second) {
      scan.left_out.add("links to folders that are read already", 1,
                        at.lexically_relative(scan.source.folder).string());
      continue;
    }
    for (const fs::directory_entry& entry : entries_of(at)) {
      const fs::path& path = entry.path();
      const fs::file_type type = type_to_read(entry, depth, scan.source.folder, scan.left_out);
      if (type == fs::file_type::directory)
        waiting.insert({is_link || entry.is_symlink(), path, depth + 1});
      else if (type == fs::file_type::regular && is_picture_name(path))
        found.push_back(path);
      else if (type != fs::file_type::none)
        scan.left_out.add(type == fs::file_type::regular ? kind_of(path) : kNoFiles);
    }
  }
  return found;
}

std::vector<std::string> class_folders(const fs::path& folder, LeftOut& left_out) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const fs::file_type type = type_to_read(entry, 1, folder, left_out); type == fs::file_type::directory)
      names.push_back(entry.path().filename().string());
    else if (type != fs::file_type::none)
      left_out.add(kOutsideClasses);
  std::sort(names.begin(), names.end());
  return names;
}

fs::path PictureSource::path_of(const Picture& picture) const {
  if (picture.shard < 0) return folder / picture.name;
  return shards[static_cast<std::size_t>(picture.shard)].string() + ": " + one_line(picture.name);
}

std::vector<std::uint8_t> PictureSource::read(const Picture& picture) const {
  if (picture.shard < 0) return read_file(folder / picture.name, kMaxImageFile);
  // With its header: a shard that another took the place of has other files there.
  std::vector<std::uint8_t> bytes =
      read_part(shards[static_cast<std::size_t>(picture.shard)], picture.offset - kTarBlock, kTarBlock + picture.bytes);
  if (fingerprint_of(std::as_bytes(std::span(bytes)).first(kTarBlock)) != picture.header)
    fail_changed(path_of(picture).string());
  bytes.erase(bytes.begin(), bytes.begin() + kTarBlock);
  return bytes;
}

bool is_number_of_no_class(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) return false;
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number,
                                            is_hex ? std::chars_format::hex : std::chars_format::general);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

void take_classes(FolderScan& scan, std::map<std::string, std::vector<Picture>> classes) {
  for (const auto& [name, pictures] : classes) scan.classes.push_back(name);
  if (std::all_of(scan.classes.begin(), scan.classes.end(), is_number))
    std::sort(scan.classes.begin(), scan.classes.end(),
              [](const std::string& a, const std::string& b) { return std::stoll(a) < std::stoll(b); });
  for (const std::string& name : scan.classes) scan.pictures.push_back(std::move(classes[name]));
}

FolderScan scan_folder(const fs::path& folder) try {
  FolderScan scan{.source = {folder}};
  scan.classes = class_folders(folder, scan.left_out);
  if (scan.classes.empty())
    fail(Fault::data, folder.string(), ": no class folders; give each class a folder of JPEG, PNG or WebP files");
  for (const std::string& name : scan.classes) scan.pictures.push_back(find_pictures(scan, name));
  return scan;
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the path and its permissions");
}

MaskLabels read_masks(FolderScan& scan, const Decoding& decoding) {
  const std::vector<Picture>& pictures = scan.pictures.at(0);
  std::vector<MaskLabels> labels(pictures.size());
  share_out("masks", static_cast<std::int64_t>(pictures.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    MaskFile& file = scan.source.masks[static_cast<std::size_t>(pictures[at].row)];
    const std::vector<std::uint8_t> bytes = read_file(scan.source.path_of(file), kMaxImageFile);
    const Mask mask = decode_mask(bytes, scan.source.path_of(file), decoding);
    const fs::path picture = scan.source.path_of(pictures[at]);
    const auto [width, height] = image_size(scan.source.read(pictures[at]), picture, decoding.upright);
    if (width != mask.width || height != mask.height)
      fail(Fault::data, picture.string(), " has ", width, " x ", height, " pixels, its mask ", mask.width, " x ",
           mask.height, "; make them equal");
    file = {file.name, width, height, fingerprint_of(std::as_bytes(std::span(bytes)))};
    labels[at].add(std::span(mask.classes), mask.width, [&] { return scan.source.path_of(file).string(); });
  });
  MaskLabels all;
  for (const MaskLabels& each : labels) all.add(each);
  return all;
}

std::string deeper_text(const FolderScan& scan) {
  if (!scan.source.shards.empty() || !scan.source.masks.empty()) return {};
  for (std::size_t c = 0; c < scan.classes.size(); ++c) {
    const fs::path folder = scan.source.folder / scan.classes[c];
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) continue;  // of a table
    std::vector<std::string> inner;
    bool has_files = false;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.is_directory(ignored) && !is_hidden(entry.path()))
        inner.push_back(entry.path().filename().string());
      else
        has_files |= !is_hidden(entry.path());
    std::ranges::sort(inner);
    if (!has_files && inner.size() > 1)
      return one_line(
          fmt::format("{} holds folders only, such as {} and {}: their pictures are of the one class {}; where "
                      "they are classes, name the folder above train or val, or make it the path",
                      folder.string(), inner[0], inner[1], scan.classes[c]));
  }
  return {};
}

Damage damage_named(const std::string& name) {
  if (name == "error") return Damage::error;
  if (name == "check") return Damage::check;
  check(name == "skip", "image_folder: damaged is ", name, ", expected error, check or skip");
  return Damage::skip;
}

void check_pictures(FolderScan& scan, Damage damage, const Decoding& decoding) {
  if (damage == Damage::error) return;
  std::vector<const Picture*> all;
  for (const auto& pictures : scan.pictures)
    for (const Picture& picture : pictures) all.push_back(&picture);
  const std::vector<std::string> found = find_damage(scan.source, all, decoding);
  const auto bad = static_cast<std::int64_t>(
      std::count_if(found.begin(), found.end(), [](const auto& line) { return !line.empty(); }));
  if (bad == 0) return;
  const std::string& first = *std::find_if(found.begin(), found.end(), [](const auto& line) { return !line.empty(); });
  if (damage == Damage::check)
    fail(Fault::data, bad, " of ", all.size(), " pictures are damaged, the first: ", first,
         "; with damaged: skip they are left out");
  auto line = found.begin();
  for (auto& pictures : scan.pictures) std::erase_if(pictures, [&](const Picture&) { return !(line++)->empty(); });
  scan.left_out.add("damaged pictures", bad, first);
  for (std::size_t c = 0; c < scan.classes.size(); ++c)
    if (scan.pictures[c].empty())
      fail(Fault::data, (scan.source.folder / scan.classes[c]).string(),
           ": all its pictures are damaged (the first of ", bad, ": ", first,
           "); fetch them again, or remove the class");
}

}  // namespace nixie
