// A shard is read twice: its headers, then the small files that hold classes.
#include "nixie/data/files/shards.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "nixie/core/base/error.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/base/threads.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/files/tar_file.h"
#include "nixie/data/files/trimmed.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The contents of one sample's class files.
struct Sample {
  std::optional<std::string> cls = {}, json = {};
};

/// A picture and its class.
using Labelled = std::pair<Picture, std::string>;

struct Shard {
  std::vector<Labelled> pictures = {};
  LeftOut left_out = {};
};

/// A file's name: the sample that it belongs to, and what it is of it.
struct PartName {
  std::string key, kind;
};

/// `a/b` and `seg.png` of `a/b.seg.png` at its first dot.
PartName split_at(const std::string& name, std::size_t dot) {
  return {name.substr(0, dot), name.substr(std::min(dot + 1, name.size()))};
}

bool is_class_kind(const std::string& kind) { return kind == "cls" || kind == "json"; }

/// A file of a system, or one in its folder.
bool is_left_out(const fs::path& name) {
  return std::any_of(name.begin(), name.end(), [](const fs::path& part) { return part != ".." && is_hidden(part); });
}

/// The class in the text of a .json file; nothing where it has none.
std::optional<std::string> class_in(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  for (const char* key : {"label", "class", "cls"}) {
    const auto value = json.find(key);
    if (value == json.end()) continue;
    if (value->is_number_integer()) return value->dump();
    if (value->is_string()) return std::string(trimmed(value->get_ref<const std::string&>()));
  }
  return {};
}

class ShardReader {
 public:
  ShardReader(const fs::path& path, std::int32_t index) : path_(path), index_(index) {}

  Shard read() {
    const TarContent content = read_tar(path_);
    if (content.others > 0) shard_.left_out.add(kNoFiles, content.others);
    for (const TarFile& file : content.files)
      if (const PartName last = split_at(file.name, file.name.rfind('.')); is_class_kind(last.kind))
        has_class_file_.insert(last.key);
    for (const TarFile& file : content.files)
      if (!is_left_out(file.name)) sort(file);
    std::sort(names_.begin(), names_.end());
    const auto twice = std::adjacent_find(names_.begin(), names_.end());
    if (twice != names_.end()) refuse(*twice, "is there twice; write the shard again");
    if (shard_.pictures.empty())  // as of an archive that was zeroed
      fail(Fault::data, path_.string(), ": no .jpg, .png or .webp file in it; fetch it again, or take it away");
    bool has_folders = false;  // of classes
    for (auto& [picture, name] : shard_.pictures) {
      name = class_of(picture.name);
      has_folders |= !name.empty() && !samples_.contains(split(picture.name).key);
    }
    std::erase_if(shard_.pictures, [&](const Labelled& each) {
      if (!each.second.empty()) return false;
      if (!has_folders) refuse(each.first.name, "has no class: neither NAME.cls nor NAME.json nor a folder is there");
      shard_.left_out.add(kOutsideClasses);
      return true;
    });
    for (const auto& [picture, name] : shard_.pictures) samples_.erase(split(picture.name).key);
    for (const auto& [key, sample] : samples_) {
      if (sample.cls) shard_.left_out.add(".cls files without a picture");
      if (sample.json) shard_.left_out.add(".json files without a picture");
    }
    return std::move(shard_);
  }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    fail(Fault::data, path_.string(), ": ", one_line(name), ": ", what);
  }

  /// At the first dot in front of which a class file's name ends, as webdataset names the parts of a sample; else at
  /// the last: without cat.cls `cat.0.jpg` is no part of `cat`.
  PartName split(const std::string& name) const {
    constexpr std::size_t kLongest = 255;  // that a file system has; beyond it only the first dot is tried
    const std::size_t from = name.rfind('/') + 1, first = name.find('.', from);
    if (name.size() - from > kLongest) return split_at(name, std::min(first, name.size()));
    for (std::size_t dot = first; dot != std::string::npos; dot = name.find('.', dot + 1))
      if (PartName part = split_at(name, dot); has_class_file_.contains(part.key)) return part;
    return split_at(name, first == std::string::npos ? name.size() : name.rfind('.'));
  }

  void sort(const TarFile& file) {
    const auto [key, kind] = split(file.name);
    names_.push_back(file.name);
    if (kind == "cls") {
      samples_[key].cls = std::string(trimmed(content_of(file, 4096)));
    } else if (kind == "json") {
      samples_[key].json = content_of(file, 1 << 20);
    } else if (is_picture_name("x." + kind) && kind.find('.') == std::string::npos) {
      shard_.pictures.push_back(
          {{.name = file.name, .shard = index_, .offset = file.offset, .bytes = file.bytes, .header = file.header},
           {}});
    } else {
      shard_.left_out.add(kind.empty() ? "files without a suffix" : "." + one_line(kind) + " files");
    }
  }

  std::string content_of(const TarFile& file, std::int64_t most) const {
    if (file.bytes > most) refuse(file.name, fmt::format("has {} bytes, at most {} are read", file.bytes, most));
    const std::vector<std::uint8_t> bytes = read_part(path_, file.offset, file.bytes);
    return {bytes.begin(), bytes.end()};
  }

  /// "" where neither a file nor a folder says it.
  std::string class_of(const std::string& name) const {
    const std::string key = split(name).key;
    const auto found = samples_.find(key);
    if (found == samples_.end()) return fs::path(name).parent_path().filename().string();
    const auto& [cls, json] = found->second;
    const std::optional<std::string> in_json = json ? class_in(*json) : std::nullopt;
    if (cls && in_json && *cls != *in_json)
      refuse(name, fmt::format("its class is {} in {}.cls, {} in {}.json; make them equal, or leave one out",
                               field_text(*cls), one_line(key), field_text(*in_json), one_line(key)));
    if (!cls && !in_json)
      refuse(key + ".json", "names no class; expected an object with a number or a name as its label, class or cls");
    const std::string &text = cls ? *cls : *in_json, file = key + (cls ? ".cls" : ".json");
    if (text.empty() || std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }))
      refuse(file, "holds no class; expected a number or a name");
    if (is_number_of_no_class(text))
      refuse(file, "holds " + one_line(text) + ", the number of no class; expected one from 0 on, or a name");
    return text;
  }

  fs::path path_;
  std::int32_t index_;
  Shard shard_;
  std::set<std::string> has_class_file_;  // names without .cls or .json
  std::map<std::string, Sample> samples_;
  std::vector<std::string> names_;
};

}  // namespace

bool is_shard_name(const fs::path& file) { return lower_suffix(file) == ".tar"; }

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> shards;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (type_of(entry) == fs::file_type::directory) return {};
    if (is_shard_name(entry.path())) shards.push_back(entry.path());
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

FolderScan scan_shards(const std::vector<fs::path>& shards) {
  std::vector<Shard> read(shards.size());
  share_out("shards", static_cast<std::int64_t>(shards.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    read[at] = ShardReader(shards[at], static_cast<std::int32_t>(i)).read();
  });
  FolderScan scan{.source = {shards.front().parent_path(), shards}};
  std::map<std::string, std::vector<Picture>> classes;
  for (Shard& shard : read) {
    for (auto& [picture, name] : shard.pictures) classes[name].push_back(std::move(picture));
    scan.left_out.add(shard.left_out);
  }
  take_classes(scan, std::move(classes));
  return scan;
}

}  // namespace nixie
