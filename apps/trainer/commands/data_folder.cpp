// Looks at names alone; what is in the files is the dataset's to check.
#include "nixie/apps/trainer/commands/data_folder.h"

#include <algorithm>

#include "nixie/core/base/one_line.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/array_source.h"
#include "nixie/data/files/image.h"
#include "nixie/data/files/manifest.h"
#include "nixie/data/files/npy_file.h"
#include "nixie/data/files/packed_file.h"
#include "nixie/data/files/shards.h"
#include "nixie/data/files/table_file.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

const char* kind_of_table(const fs::path& table) { return is_number_table(table) ? Arrays::name : ImageFolder::name; }

/// `; unpack it first: unzip photos.zip -d photos, ...` for what is packed or elsewhere; else "".
std::string unpack_advice(const fs::path& source) {
  const std::string text = source.string();
  for (const char* scheme : {"http://", "https://", "ftp://", "http:/", "https:/"})
    if (text.starts_with(scheme))
      return "; nothing is downloaded: curl -LO " + shell_word(text) + ", unpack it if it is an archive, and name that";
  if (text.find("://") != std::string::npos) return "; nothing is downloaded: copy it here first, and name that";
  constexpr std::pair<const char*, const char*> kUnpack[] = {{".zip", "unzip {} -d {}"},
                                                             {".tar.gz", "tar -xzf {} -C {}"},
                                                             {".tgz", "tar -xzf {} -C {}"},
                                                             {".tar.xz", "tar -xJf {} -C {}"},
                                                             {".txz", "tar -xJf {} -C {}"},
                                                             {".tar.bz2", "tar -xjf {} -C {}"},
                                                             {".tar.zst", "tar --zstd -xf {} -C {}"},
                                                             {".7z", "7z x {} -o{}"},
                                                             {".rar", "unrar x {} {}/"}};
  const std::string name = lower_case(text);
  for (const auto& [end, command] : kUnpack) {
    if (!name.ends_with(end)) continue;
    const std::string folder = text.substr(0, text.size() - std::string_view(end).size());
    const std::string made = std::string_view(command).starts_with("tar") ? "mkdir " + shell_word(folder) + " && " : "";
    return fmt::format("; unpack it first: {}{}, and name {}", made,
                       fmt::format(fmt::runtime(command), shell_word(text), shell_word(folder)), shell_word(folder));
  }
  return {};
}

/// The kind of dataset whose files are there.
std::string kind_of(const fs::path& folder, const char* option = "with --data") try {
  std::error_code error;
  if (is_table_name(folder) && fs::is_regular_file(folder, error)) return kind_of_table(folder);
  if (is_shard_name(folder) && fs::is_regular_file(folder, error)) return ImageFolder::name;
  if ((folder.extension() == ".npz" || is_hdf5_name(folder)) && fs::is_regular_file(folder, error)) return Arrays::name;
  const bool is_folder = fs::is_directory(folder, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail_reading(folder, error.value(), Fault::data, "check the path and its permissions");
  const std::string advice = unpack_advice(folder);
  if (!is_folder)
    fail(Fault::data, folder.string(), fs::exists(folder, error) ? ": is no" : ": no such",
         " folder, .csv, .tar, .npz or .h5 file", advice.empty() ? "; name one " + std::string(option) : advice);
  bool has_pictures = false, has_files = false;  // in folders or shards; beside each other
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("train-images")) return Mnist::name;
    if (name == "data_batch_1.bin") return Cifar10::name;
    if (name == "train.bin") return Cifar100::name;
    if (name == "train.packed") return Packed::name;
    const std::string stem = entry.path().stem().string();
    if (is_npy_name(name) && is_training_images(stem)) return Arrays::name;
    const bool is_half = std::ranges::find(kTrainingWords, lower_case(stem)) != kTrainingWords.end();
    if (is_half && is_hdf5_name(name)) return Arrays::name;
    if (name == "train.csv") return kind_of_table(entry.path());
    has_files |= is_picture_name(entry.path());
    has_pictures |= (type_of(entry) == fs::file_type::directory || is_shard_name(name)) && !is_hidden(name);
  }
  if (has_pictures) return ImageFolder::name;
  if (has_files)
    fail(Fault::data, folder.string(),
         ": holds pictures, but no folder of them for each class; name the folder above, ",
         "or a .csv file of rows picture,class");
  fail(Fault::data, folder.string(),
       ": neither folders of pictures per class nor tables, shards, arrays, packed data or the files of MNIST or "
       "CIFAR; ",
       "name another (docs/data.md lists what can be trained on)");
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check its permissions");
}

struct ImageSize {
  std::int64_t channels, side;
};

/// The size of the configuration's present dataset; nothing where it has no size of its own.
std::optional<ImageSize> size_of(const AnyDataset& data) {
  if (data.kind() == Mnist::name || data.kind() == Glyphs::name) return ImageSize{1, 28};
  if (data.kind() == Cifar10::name || data.kind() == Cifar100::name) return ImageSize{3, 32};
  if (data.kind() != Generated::name) return std::nullopt;
  const Shape shape = data.open().train->sample_shape();
  return ImageSize{shape[0], std::min(shape[1], shape[2])};
}

/// The middle of the short sides of some of the pictures; nothing where none can be read.
std::optional<std::int64_t> middle_side(const fs::path& folder) {
  constexpr std::size_t kLooks = 32;
  const FolderScan scan = scan_pictures(find_parts(folder).train, kAnyTarget);
  std::vector<std::int64_t> sides;
  for (const auto& pictures : scan.pictures)
    for (std::size_t i = 0; i < pictures.size(); i += 1 + pictures.size() * scan.pictures.size() / kLooks) try {
        const auto [width, height] = image_size(scan.source.read(pictures[i]), scan.source.path_of(pictures[i]));
        sides.push_back(std::min(width, height));
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;  // a damaged picture is named when it is read
      }
  if (sides.empty()) return std::nullopt;
  std::sort(sides.begin(), sides.end());
  return sides[sides.size() / 2];
}

/// The outputs that the last layer must have, and the kind of that layer.
struct LastLayer {
  std::int64_t outputs = 0;
  const char* kind = Linear::name;
};

/// `given`: the dataset of the folder, whose options say what its targets are.
LastLayer last_layer_for(const std::string& kind, const fs::path& folder, const AnyDataset& given) {
  if (kind == ImageFolder::name) {
    const HalfSource train = find_parts(folder).train;
    if (!is_table_name(train.front())) return {static_cast<std::int64_t>(class_names_of(train).size())};
  }
  if (kind == Packed::name)
    return {static_cast<std::int64_t>(PackedFile(folder / "train.packed").header().class_names.size())};
  if (kind != Arrays::name && kind != ImageFolder::name) return {kind == Cifar100::name ? 100 : 10};
  const Splits data = given.open();
  const SampleTarget target = data.train->target();
  if (target.dtype == Dtype::f32) return {target.shape.size()};
  return {data.train->classes(), target.is_dense() ? Conv2d::name : Linear::name};
}

}  // namespace

std::vector<std::string> class_assignments(const TrainConfig& config, const fs::path& folder, const AnyDataset& data) {
  if (config.target == "input") return {};  // the output is as large as the sample
  const LastLayer last_layer = last_layer_for(kind_of(folder), folder, data);
  if (last_layer.outputs == 0) return {};  // nothing that can be read: the dataset says what
  const auto wanted = std::to_string(last_layer.outputs);
  const Tree whole = parse_yaml("model: " + config.model.text(), "model"), &model = *whole.find("model");
  const auto assigned = [&](const Tree& options, const std::string& path, const char* key) {
    const Tree* value = options.find(key);
    std::vector<std::string> result;
    if (value && value->text != wanted) result.push_back(fmt::format("{}.{}={}", path, key, wanted));
    return result;
  };
  if (!model.is_list()) {
    const Tree::Entry& net = model.entries.front();
    return assigned(net.value, "model." + net.key, "classes");
  }
  for (std::size_t i = model.items.size(); i-- > 0;)
    if (const Tree* last = model.items[i].find(last_layer.kind))
      return assigned(*last, fmt::format("model.{}.{}", i, last_layer.kind), "out");
  return {};
}

std::vector<std::string> data_assignments(const TrainConfig& config, const fs::path& folder, const char* option) {
  const std::string kind = kind_of(folder, option), path = "data." + kind;
  std::vector<std::string> assignments = {path + ".path=" + field_text(folder.string())};
  if (config.data.kind() == kind) return assignments;
  assignments.push_back(fmt::format("{}.batch={}", path, config.data.batch()));
  if (kind != ImageFolder::name) return assignments;
  // The margin that photographs are cropped by would cost small pictures their edges, and nobody wants tiny ones, such
  // as CIFAR's, at a photograph's size.
  constexpr std::int64_t kSmall = 128, kTiny = 64;
  std::optional<ImageSize> size = size_of(config.data);
  if (!size)
    if (const auto side = middle_side(folder); side && *side <= kTiny) size = ImageSize{3, *side};
  if (!size) return assignments;
  if (size->channels == 1 || size->channels == 3)
    assignments.push_back(fmt::format("{}.channels={}", path, size->channels));
  assignments.push_back(fmt::format("{}.crop={}", path, size->side));
  if (size->side < kSmall) assignments.push_back(fmt::format("{}.resize={}", path, size->side));
  return assignments;
}

fs::path take_source(std::vector<std::string>& assignments) {
  constexpr std::string_view kKey = "data.path=";
  fs::path source;
  std::erase_if(assignments, [&](const std::string& each) {
    if (!each.starts_with(kKey)) return false;
    const Tree value = parse_yaml("path: " + each.substr(kKey.size()), "--set " + each);
    source = with_home(value.find("path")->text);
    return !source.empty();
  });
  return source;
}

std::vector<std::string> with_data(const fs::path& file, fs::path folder, std::vector<std::string> assignments) {
  if (file.empty()) return assignments;
  if (const fs::path source = take_source(assignments); !source.empty()) folder = source;
  if (folder.empty()) return assignments;
  std::vector<std::string> others = assignments;  // the file may lack what they give, as the length of the run
  std::erase_if(others, [](const std::string& each) { return each.substr(0, each.find_first_of(".=")) == "data"; });
  const TrainConfig config = load_config(file, others);
  std::vector<std::string> all = data_assignments(config, folder);
  std::vector<std::string> of_data = all;  // with the options of the data that the user sets
  of_data.insert(of_data.end(), assignments.begin(), assignments.end());
  for (std::string& each : class_assignments(config, folder, load_config(file, of_data).data))
    all.push_back(std::move(each));
  all.insert(all.end(), assignments.begin(), assignments.end());
  return all;
}

std::vector<std::string> with_source(const TrainConfig& own, std::vector<std::string> assignments) {
  const fs::path source = take_source(assignments);
  if (source.empty()) return assignments;
  std::vector<std::string> all = data_assignments(own, source);
  all.insert(all.end(), assignments.begin(), assignments.end());
  return all;
}

}  // namespace nixie
