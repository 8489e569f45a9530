// ImageFolder: finds the files, splits them, and turns one into a sample.
#include "nixie/data/image_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "nixie/data/draws.h"
#include "nixie/data/image.h"
#include "nixie/data/input_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFile = 256 << 20;

/// The files of one class, sorted, relative to the folder that holds the class folders.
using Files = std::vector<std::string>;

bool is_image_name(const fs::path& file) {
  std::string suffix = file.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".jpe" || suffix == ".png";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> find_classes(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && !is_hidden(entry.path())) names.push_back(entry.path().filename().string());
  if (names.empty())
    fail(Fault::data, folder.string(), ": no class folders; give each class a folder of JPEG or PNG files");
  std::sort(names.begin(), names.end());
  return names;
}

Files find_images(const fs::path& folder, const std::string& class_name) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder / class_name))
    if (entry.is_regular_file() && is_image_name(entry.path()) && !is_hidden(entry.path()))
      files.push_back(entry.path().lexically_relative(folder).string());
  if (files.empty())
    fail(Fault::data, (folder / class_name).string(), ": no .jpg, .jpeg or .png file; remove the folder");
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Files> find_all_images(const fs::path& folder, const std::vector<std::string>& classes) {
  std::vector<Files> files;
  files.reserve(classes.size());
  for (const std::string& name : classes) files.push_back(find_images(folder, name));
  return files;
}

/// Moves a share of each class, the same on every machine, to the result.
std::vector<Files> hold_out(std::vector<Files>& classes, float share) {
  std::vector<Files> held(classes.size());
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::size_t size = classes[c].size();
    const auto wanted = static_cast<std::size_t>(std::lround(share * static_cast<float>(size)));
    const std::size_t count = std::clamp<std::size_t>(wanted, size > 1 && share > 0, size - 1);
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    shuffle(order, Draws(random_stream(0, "image_folder/holdout"), static_cast<std::int64_t>(c)));
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
    Files kept;
    for (std::size_t i = 0; i < size; ++i) (i < count ? held[c] : kept).push_back(std::move(classes[c][order[i]]));
    classes[c] = std::move(kept);
  }
  return held;
}

class FolderImages : public ByteDataset {
 public:
  FolderImages(const ImageFolder& options, fs::path folder, std::vector<std::string> names, std::vector<Files> classes)
      : ByteDataset(options.normalize ? Normalization(options.channels, options.mean, options.deviation)
                                      : Normalization(options.channels)),
        options_(options),
        folder_(std::move(folder)),
        names_(std::move(names)) {
    std::size_t most = 0;
    for (const Files& files : classes) most = std::max(most, files.size());
    for (std::size_t rank = 0; rank < most; ++rank)
      for (std::size_t c = 0; c < classes.size(); ++c)
        if (rank < classes[c].size()) samples_.push_back({std::move(classes[c][rank]), static_cast<std::int32_t>(c)});
    if (samples_.empty()) fail(Fault::data, folder_.string(), ": nothing left to test on; add images or raise holdout");
    samples_.resize(static_cast<std::size_t>(limited(size(), options.limit)));
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  Shape sample_shape() const override { return {options_.channels, options_.crop, options_.crop}; }
  const std::vector<std::string>& class_names() const override { return names_; }

  std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const override {
    const Sample& sample = samples_[static_cast<std::size_t>(index)];
    const fs::path file = folder_ / sample.file;
    const Image image = decode_image(read_file(file, kMaxFile), file, options_.resize);
    const auto [width, height] = scaled_size(image, options_.resize);
    Window window{options_.resize, options_.crop, (width - options_.crop) / 2, (height - options_.crop) / 2, false};
    if (key.training) {
      Draws draws(random_stream(key.seed, "augment"), index, key.epoch);
      window.left = draws.below(width - options_.crop + 1);
      window.top = draws.below(height - options_.crop + 1);
      window.mirrored = options_.flip && draws.below(2) == 1;
    }
    round(cut_window(image, window), bytes);
    return sample.label;
  }

 private:
  struct Sample {
    std::string file;
    std::int32_t label;
  };

  void round(const std::vector<float>& rgb, std::span<std::uint8_t> bytes) const {
    const std::size_t plane = rgb.size() / 3;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = convert<std::uint8_t>(
          options_.channels == 3 ? rgb[i] : 0.299f * rgb[i] + 0.587f * rgb[plane + i] + 0.114f * rgb[2 * plane + i]);
  }

  ImageFolder options_;
  fs::path folder_;
  std::vector<std::string> names_;
  std::vector<Sample> samples_;
};

/// Fills in what is left to defaults and checks that the fields go together.
ImageFolder resolved(ImageFolder options) {
  check(options.channels == 1 || options.channels == 3, "image_folder: channels is ", options.channels,
        ", expected 1 or 3");
  if (options.resize == 0) options.resize = (options.crop * 8 + 3) / 7;
  check(options.resize >= options.crop, "image_folder: resize is ", options.resize, ", smaller than crop ",
        options.crop);
  const bool rgb = options.channels == 3;
  if (options.mean.empty()) options.mean = rgb ? std::vector{0.485f, 0.456f, 0.406f} : std::vector{0.458f};
  if (options.deviation.empty()) options.deviation = rgb ? std::vector{0.229f, 0.224f, 0.225f} : std::vector{0.225f};
  for (const auto* each : {&options.mean, &options.deviation})
    check(static_cast<int>(each->size()) == options.channels, "image_folder: mean and deviation have ", each->size(),
          " numbers, expected one per channel, ", options.channels);
  return options;
}

}  // namespace

Splits ImageFolder::open() const try {
  const ImageFolder options = resolved(*this);
  const fs::path root = path;
  if (!fs::is_directory(root)) fail(Fault::data, path, ": no such folder; set path to a folder of class folders");
  const bool has_train = fs::is_directory(root / "train");
  const fs::path train = has_train ? root / "train" : root;
  const auto names = find_classes(train);
  std::vector<Files> classes = find_all_images(train, names);
  for (const char* name : {"val", "test"})
    if (const fs::path test = root / name; has_train && fs::is_directory(test)) {
      if (find_classes(test) != names)
        fail(Fault::data, test.string(), ": its class folders are not those of ", train.string(), "; make them equal");
      return {std::make_shared<FolderImages>(options, train, names, std::move(classes)),
              std::make_shared<FolderImages>(options, test, names, find_all_images(test, names))};
    }
  std::vector<Files> held = hold_out(classes, holdout);
  return {std::make_shared<FolderImages>(options, train, names, std::move(classes)),
          std::make_shared<FolderImages>(options, train, names, std::move(held))};
} catch (const fs::filesystem_error& error) {
  fail(Fault::data, error.path1().string(), ": ", error.code().message(), "; check the folder and its permissions");
}

}  // namespace nixie
