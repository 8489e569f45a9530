// The source is opened as --data opens it; packed files appear when both are written.
#include "nixie/apps/trainer/commands/command_line.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/commands/data_scan.h"
#include "nixie/apps/trainer/program/csv_cell.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/report.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/files/folder.h"
#include "nixie/core/files/make_folders.h"
#include "nixie/data/files/image.h"
#include "nixie/data/files/manifest.h"
#include "nixie/data/files/packed_file.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlockBytes = 1 << 20;
constexpr std::size_t kMostClasses = 40;

/// The sizes of the training half's pictures, from their headers.
struct PictureSizes {
  std::vector<std::int64_t> widths = {}, heights = {}, short_sides = {};  ///< each sorted
  std::int64_t turned = 0;  ///< pictures with an EXIF orientation other than upright

  explicit PictureSizes(const fs::path& source) {
    const FolderScan scan = scan_pictures(find_parts(source).train, kAnyTarget);
    std::vector<const Picture*> all;
    for (const auto& pictures : scan.pictures)
      for (const Picture& picture : pictures) all.push_back(&picture);
    for (const Picture* each : all) try {
        const std::vector<std::uint8_t> bytes = scan.source.read(*each);
        const auto [width, height] = image_size(bytes, scan.source.path_of(*each));
        turned += is_turned(bytes) ? 1 : 0;
        widths.push_back(width), heights.push_back(height), short_sides.push_back(std::min(width, height));
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;  // damaged pictures are named elsewhere
      }
    for (auto* each : {&widths, &heights, &short_sides}) std::sort(each->begin(), each->end());
  }
  /// The side of samples: that of the middle picture, 256 at most.
  std::int64_t side() const { return short_sides.empty() ? 1 : std::min<std::int64_t>(256, short_sides[middle()]); }
  std::string text() const {
    if (widths.empty()) return {};
    std::string text = fmt::format("pictures: {} x {} to {} x {} pixels, in the middle {} x {}\n", widths.front(),
                                   heights.front(), widths.back(), heights.back(), widths[middle()], heights[middle()]);
    if (turned > 0)
      text += fmt::format("{} of {} pictures are turned by their EXIF orientation (data.image_folder.upright)\n",
                          turned, widths.size());
    return text;
  }

 private:
  std::size_t middle() const { return widths.size() / 2; }
};

/// The dataset that the source holds, with what --set says of it; pictures as squares.
AnyDataset dataset_of(const DataCommand& command) {
  const std::string base = "{model: [flatten], epochs: 1, data: image_folder}";
  std::vector<std::string> assignments = data_assignments(parse_config(base, "data"), command.source, "as SOURCE");
  if (assignments[0].starts_with("data.image_folder.")) {
    const PictureSizes sizes(command.source);
    if (command.action == "inspect") tell("{}", sizes.text());
    const std::int64_t side = command.side > 0 ? command.side : sizes.side();
    for (const char* key : {"crop", "resize"}) assignments.push_back(fmt::format("data.image_folder.{}={}", key, side));
  } else {
    check(command.side == 0, command.source.string(), " holds samples of one size; --side is for pictures");
  }
  if (assignments[0].starts_with("data.arrays.") && command.action == "inspect")
    assignments.push_back("data.arrays.normalize=false");  // numbers as they are in the file
  assignments.insert(assignments.end(), command.assignments.begin(), command.assignments.end());
  return parse_config(base, "--set", assignments).data;
}

DataScan scan_half(const char* name, const Dataset& half) {
  const MovingLine line;
  return scan_data(half, [&](std::int64_t done) { line(fmt::format("{} {} of {}", name, done, half.size())); });
}

/// The second is empty where there is no test half.
std::pair<DataScan, DataScan> scan_halves(const Splits& splits) {
  DataScan first = scan_half("training", *splits.train);
  return {std::move(first), splits.test ? scan_half("test", *splits.test) : DataScan{}};
}

/// A row for each sample: where it is, its half and, where that is known without decoding, its class.
void list_halves(const Splits& splits) {
  tell("file,half,class\n");
  for (const auto& [name, half] : {std::pair("train", splits.train), std::pair("test", splits.test)}) {
    if (!half) continue;
    const std::vector<std::int32_t> labels = half->labels();
    for (std::int64_t i = 0; i < half->size(); ++i) {
      const std::string place = half->sample_place(i);
      const auto at = static_cast<std::size_t>(i);
      tell("{},{},{}\n", place.empty() ? std::to_string(i) : csv_path(place), name,
           at < labels.size() ? csv_text(half->class_names()[static_cast<std::size_t>(labels[at])]) : "");
    }
  }
}

std::string numbers_text(const std::vector<double>& numbers) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), kMost); ++i)
    text += fmt::format("{}{:.4f}", i == 0 ? "" : ", ", std::abs(numbers[i]) < 5e-5 ? 0 : numbers[i]);
  return "[" + text + (numbers.size() > kMost ? fmt::format(", ... {} in all]", numbers.size()) : "]");
}

void print_damage(const char* name, const DataScan& scan) {
  for (std::size_t i = 0; i < scan.damaged.size();
       ++i)  // a damaged block is reported once, not for each of its samples
    if (i == 0 || scan.damaged[i] != scan.damaged[i - 1]) tell("{}: {}\n", name, scan.damaged[i]);
}

void print_targets(const char* half, const std::vector<DataScan::Numbers>& targets, std::int64_t all) {
  for (std::size_t i = 0; i < targets.size(); ++i)
    tell("{:28} {:>10} {:12.6g} {:12.6g} {:12.6g} {:12.6g}\n", fmt::format("target {}", i), half, targets[i].mean,
         targets[i].deviation, targets[i].least, targets[i].most);
  if (all > static_cast<std::int64_t>(targets.size())) tell("... and {} more numbers\n", all - targets.size());
}

bool inspect(const AnyDataset& data, const Splits& splits) {
  const Dataset& train = *splits.train;
  const bool has_classes = train.target().is_class(), has_masks = train.target().is_dense();
  tell("data {}: {} training and {} test samples {}, each {} of {}\n", data.kind(), train.size(),
       splits.test ? splits.test->size() : 0,
       has_classes ? fmt::format("of {} classes", train.classes()) : "with " + to_string(train.target()),
       train.sample_shape(), train.bytes() ? "bytes" : "floats");
  for (const std::string& note : splits.notes) tell("{}\n", note);
  const auto [first, second] = scan_halves(splits);
  tell("{} of the training half: mean {}, deviation {}\n", train.bytes() ? "pixels" : "values",
       numbers_text(first.mean), numbers_text(first.deviation));
  const std::vector<std::string> names = has_classes || has_masks ? train.class_names() : std::vector<std::string>{};
  if (!names.empty()) tell("{:28} {:>10} {:>10}\n", has_masks ? "pixels of class" : "class", "training", "test");
  if (!first.targets.empty()) {
    tell("{:28} {:>10} {:>12} {:>12} {:>12} {:>12}\n", "", "half", "mean", "deviation", "least", "most");
    print_targets("training", first.targets, train.target().shape.size());
    if (splits.test) print_targets("test", second.targets, splits.test->target().shape.size());
  }
  for (std::size_t c = 0; c < std::min(names.size(), kMostClasses); ++c)
    tell("{:28} {:10} {:10}\n", one_line(names[c]), first.counts[c], c < second.counts.size() ? second.counts[c] : 0);
  if (names.size() > kMostClasses) {
    const auto [least, most] = std::minmax_element(first.counts.begin(), first.counts.end());
    tell("... and {} more; the training samples of a class are {} to {}\n", names.size() - kMostClasses, *least, *most);
  }
  print_damage("training", first);
  print_damage("test", second);
  return first.damaged.empty() && second.damaged.empty();
}

bool verify(const Splits& splits) {
  const auto [first, second] = scan_halves(splits);
  for (const std::string& note : splits.notes) tell("{}\n", note);
  print_damage("training", first);
  print_damage("test", second);
  const auto damaged = first.damaged.size() + second.damaged.size();
  tell("{} samples can be read, {} cannot\n", first.read + second.read, damaged);
  return damaged == 0;
}

const ByteDataset& bytes_of(const AnyDataset& data, const Dataset& half) {
  check(half.target().is_class(), "data ", data.kind(), " has ", to_string(half.target()),
        " as targets; only classes can be packed");
  check(half.bytes(), "data ", data.kind(), " is not stored as bytes, so it cannot be packed");
  return *half.bytes();
}

std::unique_ptr<PendingFile> write_packed(const fs::path& path, const ByteDataset& half, PackedHeader header,
                                          const char* name) {
  header.samples = half.size();
  header.block = std::clamp<std::int64_t>(kBlockBytes / header.sample_bytes(), 1, header.samples);
  std::vector<std::uint32_t> labels(static_cast<std::size_t>(header.samples));
  const std::string front = packed_front(header);
  const auto bytes_of_all = static_cast<std::int64_t>(front.size()) + header.samples * (header.sample_bytes() + 4) +
                            8 * (header.blocks() + 3);
  auto file = std::make_unique<PendingFile>(path, bytes_of_all);
  std::vector<std::uint64_t> checksums;
  const auto append = [&](std::span<const std::byte> bytes) {
    checksums.push_back(packed_checksum(bytes));
    file->write(bytes);
  };
  append(std::as_bytes(std::span(front)));
  {
    const MovingLine line;
    for (std::int64_t begin = 0; begin < header.samples; begin += header.block) {
      const std::int64_t end = std::min(begin + header.block, header.samples);
      const std::vector<std::uint8_t> bytes =
          read_samples(half, begin, end, std::span(labels).subspan(static_cast<std::size_t>(begin)));
      append(std::as_bytes(std::span(bytes)));
      line(fmt::format("packs {} {} of {}", name, end, header.samples));
    }
  }
  append(std::as_bytes(std::span(labels)));
  checksums.push_back(packed_checksum(std::as_bytes(std::span(checksums))));
  file->write(std::as_bytes(std::span(checksums)));
  file->sync();
  tell("{}: {} samples {}, {} bytes\n", path, header.samples, header.sample_shape, bytes_of_all);
  return file;
}

bool pack(const DataCommand& command, const AnyDataset& data, const Splits& splits) {
  check(!command.out.empty(), "nothing says where to write; name a folder behind the source");
  check(!is_within(command.out, command.source), command.out.string(),
        " is the source or in it; name another folder for the packed files");
  const fs::path of_train = command.out / "train.packed", of_test = command.out / "test.packed";
  for (const fs::path& path : {of_train, of_test}) {
    check_output(path, FilesInUse(), "name another folder");
    check(!fs::exists(path), path.string(), " is there already; name another folder, or remove the packed files first");
  }
  check(splits.test != nullptr, "nothing is held out (holdout: 0), but packed data have both halves; leave a part for ",
        "the test half");
  const ByteDataset &train = bytes_of(data, *splits.train), &test = bytes_of(data, *splits.test);
  const DataScan scan = scan_half("measures", train);
  if (!scan.damaged.empty()) {
    print_damage("training", scan);
    return false;
  }
  make_folders(command.out, "name another folder");
  PackedHeader header{.sample_shape = train.sample_shape(),
                      .class_names = train.class_names(),
                      .mean = scan.mean,
                      .upright = train.preparation().upright};
  for (const double deviation : scan.deviation) header.deviation.push_back(std::max(deviation, 1e-6));  // one colour
  for (const std::string& note : splits.notes) tell("{}\n", note);
  const auto first = write_packed(of_train, train, header, "the training half"),
             second = write_packed(of_test, test, header, "the test half");
  first->publish();  // when both are whole, so that the two belong together
  second->publish();
  tell("train on it with --data {}\n", command.out);
  return true;
}

/// The configuration whose data are shown: the file's with this source, else what the source needs.
TrainConfig shown_config(const DataCommand& command) {
  check(command.config.empty() || command.side == 0, "--config says the size of samples; leave --side out");
  if (!command.config.empty())
    return load_config(command.config, with_data(command.config, command.source, command.assignments));
  TrainConfig config;
  config.data = dataset_of(command);
  return config;
}

bool show(const DataCommand& command) {
  const fs::path page = command.out.empty() ? "data.html" : command.out;
  check(page.extension() == ".html", page.string(), " does not end in .html; name a page behind the source");
  check_output(page, FilesInUse({command.config, command.source}), "name another page");
  const TrainConfig config = shown_config(command);
  const Splits splits = config.data.open();
  write_text(page, data_page_html({command.source.string(), config.data.kind(), splits, config.seed}));
  tell("{}: written; open it in a browser\n", page);
  return true;
}

}  // namespace

bool run_data(const DataCommand& command) {
  check(command.config.empty() || command.action == "show", "--config is for data show; leave it out of data ",
        command.action);
  if (command.action == "show") return show(command);
  const AnyDataset data = dataset_of(command);
  const Splits splits = data.open();
  if (command.action == "inspect") return inspect(data, splits);
  if (command.action == "split") return list_halves(splits), true;
  return command.action == "verify" ? verify(splits) : pack(command, data, splits);
}

}  // namespace nixie
