// ImageFolder: finds the files, splits them, and turns one into a sample.
#include "nixie/data/image_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>

#include "nixie/core/base/fields.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/draws.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/files/manifest.h"
#include "nixie/data/files/table_file.h"
#include "nixie/data/files/window.h"
#include "nixie/data/fingerprint.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The pictures of one class.
using Pictures = std::vector<Picture>;

/// Moves a share of each class, the same on every machine, to the result.
std::vector<Pictures> hold_out(std::vector<Pictures>& classes, float share) {
  std::vector<Pictures> held(classes.size());
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::size_t size = classes[c].size();
    const auto wanted = static_cast<std::size_t>(std::lround(share * static_cast<float>(size)));
    const std::size_t count = std::clamp<std::size_t>(wanted, size > 1 && share > 0, size - 1);
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    shuffle(order, Draws(random_stream(0, "image_folder/holdout"), static_cast<std::int64_t>(c)));
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
    Pictures kept;
    for (std::size_t i = 0; i < size; ++i) (i < count ? held[c] : kept).push_back(std::move(classes[c][order[i]]));
    classes[c] = std::move(kept);
  }
  return held;
}

Decoding decoding_of(const ImageFolder& options) {
  return {.upright = options.upright, .megapixels = options.megapixels};
}

class FolderImages : public ByteDataset {
 public:
  FolderImages(const ImageFolder& options, PictureSource source, std::vector<std::string> names,
               std::vector<Pictures> classes)
      : ByteDataset(options.normalize ? Normalization(options.channels, options.mean, options.deviation)
                                      : Normalization(options.channels)),
        options_(options),
        source_(std::move(source)),
        names_(std::move(names)) {
    std::size_t most = 0;
    for (const Pictures& pictures : classes) most = std::max(most, pictures.size());
    for (std::size_t rank = 0; rank < most; ++rank)
      for (std::size_t c = 0; c < classes.size(); ++c)
        if (rank < classes[c].size()) samples_.push_back({std::move(classes[c][rank]), static_cast<std::int32_t>(c)});
    if (samples_.empty())
      fail(Fault::data, options.path.string(),
           ": nothing left to test on; add images, raise holdout, or train on everything with holdout: 0");
    samples_.resize(static_cast<std::size_t>(limited(size(), options.limit)));
    Fingerprint print;
    print.add(names_);
    for (const auto& [picture, label] : samples_) {
      print.add(picture.name);
      for (const std::int64_t number : {std::int64_t{label}, picture.offset, picture.bytes}) print.add(number);
      const std::span<const float> numbers = source_.numbers_of(picture);
      print.add(numbers.data(), numbers.size_bytes());
      if (!has_masks()) continue;
      print.add(source_.mask_of(picture).name);
      print.add(static_cast<std::int64_t>(source_.mask_of(picture).fingerprint));
    }
    fingerprint_ = print.value();
    first_read_.emplace(size());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  Shape sample_shape() const override { return {options_.channels, options_.crop, options_.crop}; }
  const std::vector<std::string>& class_names() const override { return names_; }
  SampleTarget target() const override {
    if (has_masks()) return {Dtype::i32, {options_.crop, options_.crop}};
    return source_.numbers == 0 ? SampleTarget{} : SampleTarget{Dtype::f32, {source_.numbers}};
  }
  void load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const override {
    const Picture& picture = samples_[static_cast<std::size_t>(index)].picture;
    if (!has_masks()) {
      std::memcpy(target.data(), source_.numbers_of(picture).data(), target.size());
      return;
    }
    const fs::path file = source_.path_of(source_.mask_of(picture));
    const std::vector<std::uint8_t> bytes = read_file(file, kMaxImageFile);
    if (fingerprint_of(std::as_bytes(std::span(bytes))) != source_.mask_of(picture).fingerprint)
      fail_changed(file.string());
    const Mask mask = decode_mask(bytes, file, decoding_of(options_));
    Draws draws(random_stream(key.seed, "augment"), index, key.epoch);
    std::vector<std::int32_t> classes(target.size() / sizeof(std::int32_t));
    cut_mask(mask, window_of({mask.width, mask.height, {}}, key, draws), classes);
    std::memcpy(target.data(), classes.data(), target.size());
  }

  std::vector<std::int32_t> labels_without_class() const override { return source_.without_class; }
  std::string class_apart() const override { return source_.class_apart; }
  std::string target_place(std::int64_t index) const override {
    const Picture& picture = samples_[static_cast<std::size_t>(index)].picture;
    return (has_masks() ? source_.path_of(source_.mask_of(picture)) : source_.path_of(picture)).string();
  }
  std::string sample_place(std::int64_t index) const override {
    return source_.path_of(samples_[static_cast<std::size_t>(index)].picture).string();
  }
  std::vector<std::int32_t> labels() const override {
    std::vector<std::int32_t> labels;
    if (target().is_class())
      for (const Sample& sample : samples_) labels.push_back(sample.label);
    return labels;
  }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  Preparation preparation() const override {
    Preparation preparation = Dataset::preparation();
    preparation.short_side = options_.resize;
    preparation.upright = options_.upright;
    preparation.megapixels = options_.megapixels;
    return preparation;
  }

  std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const override {
    const Sample& sample = samples_[static_cast<std::size_t>(index)];
    const Augment& augment = options_.augment;
    // In training a JPEG may be read at a reduced size that still gives the smallest part its pixels, but not where a
    // mask is cut in the same way. An evaluation reads every pixel, as others do.
    const auto least_side =
        augment.crops() ? std::llround(options_.crop / std::sqrt(augment.scale[0])) : options_.resize;
    const Image& image = decoded(index, key.training && !has_masks() ? least_side : kFullSize);
    if (has_masks()) check_size(sample.picture, image);
    Draws draws(random_stream(key.seed, "augment"), index, key.epoch);
    const Window window = window_of(image, key, draws);
    if (!key.training || !augment.changes_pixels()) {
      cut_bytes(image, window, options_.channels, bytes);
      return sample.label;
    }
    std::vector<float> pixels = cut_window(image, window);
    const std::vector<double>& mean = normalization().mean();
    change_pixels(augment, options_.crop, options_.crop, mean.size() == 3 ? mean : std::vector(3, mean[0]), draws,
                  pixels);
    round_pixels(pixels, options_.channels, bytes);
    return sample.label;
  }

 private:
  bool has_masks() const { return !source_.masks.empty(); }

  /// The crop of a picture of this size, without a look at its pixels.
  Window window_of(const Image& image, const AugmentKey& key, Draws& draws) const {
    Window window = centre_window(image, options_.resize, options_.crop, options_.crop);
    if (!key.training) return window;
    if (options_.augment.crops()) {
      const std::int64_t side = options_.crop;
      window = {draw_crop(options_.augment, image.width, image.height, draws), side, side, {0, 0, side, side}, false};
    } else {
      const std::int64_t pad = options_.pad, room = 2 * pad + 1 - options_.crop;
      window.part.left = draws.below(window.width + room) - pad;
      window.part.top = draws.below(window.height + room) - pad;
    }
    window.mirrored = options_.flip && draws.below(2) == 1;
    return window;
  }

  /// A picture and its mask are cut alike as long as the picture has the size that it had when the data were opened.
  void check_size(const Picture& picture, const Image& image) const {
    const MaskFile& mask = source_.mask_of(picture);
    if (image.width != mask.width || image.height != mask.height)
      fail(Fault::data, source_.path_of(picture).string(), " has ", image.width, " x ", image.height,
           " pixels, when the data were opened it had ", mask.width, " x ", mask.height,
           ": it changed since; open the data again");
  }

  /// Good until the thread decodes another.
  const Image& decoded(std::int64_t index, std::int64_t least_side) const {
    const Picture& picture = samples_[static_cast<std::size_t>(index)].picture;
    constexpr std::size_t kKept = 32 << 20;
    static thread_local Image image;
    if (image.rgb.capacity() > kKept) image = {};
    const std::vector<std::uint8_t> bytes = source_.read(picture);
    if (!first_read_->holds(index, std::as_bytes(std::span(bytes)))) fail_changed(source_.path_of(picture).string());
    try {
      Decoding decoding = decoding_of(options_);
      decoding.least_side = least_side;
      decode_image(bytes, source_.path_of(picture), decoding, image);
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;  // the picture may be good
      const bool is_checked = options_.damaged != "error";
      throw Error(error.fault(),
                  error.what() + std::string(is_checked ? "; it was whole when the data were opened: it changed since, "
                                                          "or the disk fails"
                                                        : "; `damaged: skip` leaves out all such files"));
    }
    return image;
  }

  struct Sample {
    Picture picture;
    std::int32_t label;
  };

  ImageFolder options_;
  PictureSource source_;
  std::vector<std::string> names_;
  std::vector<Sample> samples_;
  std::optional<FirstRead> first_read_;
  std::uint64_t fingerprint_ = 0;
};

FolderScan checked_scan(const HalfSource& part, const ImageFolder& options, std::vector<std::string>& notes) {
  FolderScan scan = scan_pictures(part, options.target);
  check_pictures(scan, damage_named(options.damaged), decoding_of(options));
  std::size_t count = 0;
  for (const Pictures& pictures : scan.pictures) count += pictures.size();
  if (std::string deeper = deeper_text(scan); !deeper.empty()) notes.push_back(std::move(deeper));
  if (!scan.left_out.empty())
    notes.push_back(one_line(fmt::format("{}: took {} pictures, {}", text_of(part), count, scan.left_out.text())));
  return scan;
}

/// Folders or files beside those that are used; beside a table, whose pictures are there too, other tables.
void note_others(const fs::path& root, const HalfSources& parts, std::vector<std::string>& notes) {
  if (parts.train.front() == root) return;
  const bool is_table = is_table_name(parts.train.front());
  note_left_out(
      root, names_of(parts),
      [&](const fs::path& path) { return !parts.use(path) && (!is_table || is_table_name(path)); }, notes);
}

/// One name for each class in the masks of the halves, where these are their targets.
void name_classes(std::initializer_list<FolderScan*> halves, const ImageFolder& options) {
  MaskLabels labels;
  for (FolderScan* half : halves) {
    if (half->source.masks.empty()) return;
    labels.add(read_masks(*half, decoding_of(options)));
  }
  check(!options.augment.moves_pixels(),
        "image_folder: masks move with their pictures by crops and flips alone; take rotation and rand_ops out");
  for (FolderScan* half : halves) {
    half->source.without_class = labels.without_class();
    half->source.class_apart = labels.apart();
    for (std::int32_t c = 0; c < labels.classes(); ++c) half->classes.push_back(std::to_string(c));
  }
}

/// Gives the test half's classes the places that they have in the training half, which may have more of them.
void place_classes(FolderScan& test, const FolderScan& train, const std::string& name, const std::string& train_name,
                   std::vector<std::string>& notes) {
  if (test.classes == train.classes) return;
  std::vector<Pictures> placed(train.classes.size());
  for (std::size_t c = 0; c < test.classes.size(); ++c) {
    const auto found = std::ranges::find(train.classes, test.classes[c]);
    if (found == train.classes.end())
      fail(Fault::data, name, ": its classes are not those of ", train_name, ", which has none called ",
           field_text(test.classes[c]), "; take it out, or give training pictures of it");
    placed[static_cast<std::size_t>(found - train.classes.begin())] = std::move(test.pictures[c]);
  }
  const auto lacking = std::ranges::find_if(train.classes, [&](const std::string& each) {
    return std::ranges::find(test.classes, each) == test.classes.end();
  });
  const std::size_t others = train.classes.size() - test.classes.size() - 1;
  notes.push_back(one_line(fmt::format("{} has no picture of {}{}", name, field_text(*lacking),
                                       others > 0 ? fmt::format(" and {} more", others) : "")));
  test.classes = train.classes;
  test.pictures = std::move(placed);
}

/// Fills in what is left to defaults and checks that the fields go together.
ImageFolder resolved(ImageFolder options) {
  check(options.channels == 1 || options.channels == 3, "image_folder: channels is ", options.channels,
        ", expected 1 or 3");
  check_augment(options.augment);
  check(
      options.target == "auto" || options.target == "class" || options.target == "numbers" || options.target == "mask",
      "image_folder: target is ", options.target, ", expected class, numbers, mask or auto");
  check(options.pad == 0 || !options.augment.crops(), "image_folder: pad and augment's scale are two crops; set one");
  check(options.pad < options.crop, "image_folder: pad is ", options.pad, ", as large as crop, ", options.crop);
  if (options.resize == 0) options.resize = options.pad > 0 ? options.crop : (options.crop * 8 + 3) / 7;
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
  const HalfSources parts = find_parts(path);
  std::vector<std::string> notes;
  FolderScan train = checked_scan(parts.train, options, notes);
  note_others(path, parts, notes);
  if (parts.test.empty()) {
    name_classes({&train}, options);
    if (holdout == 0)
      return {.train = std::make_shared<FolderImages>(options, train.source, train.classes, std::move(train.pictures)),
              .test = nullptr,
              .notes = notes,
              .holds_out = false};
    std::vector<Pictures> held = hold_out(train.pictures, holdout);
    return {std::make_shared<FolderImages>(options, train.source, train.classes, std::move(train.pictures)),
            std::make_shared<FolderImages>(options, train.source, train.classes, std::move(held)), notes};
  }
  FolderScan test = checked_scan(parts.test, options, notes);
  if (test.source.masks.empty() != train.source.masks.empty())
    fail(Fault::data, text_of(parts.test), ": masks in it or in ", text_of(parts.train),
         " alone; make them equal, or say by target what they are");
  name_classes({&train, &test}, options);
  if (test.source.numbers != train.source.numbers)
    fail(Fault::data, text_of(parts.test), ": maps pictures to ", test.source.numbers, " numbers, ",
         text_of(parts.train), " to ", train.source.numbers,
         " (0: to classes); make them equal, or say by target what they are");
  check_columns(parts.test.front(), test.columns, parts.train.front(), train.columns);
  place_classes(test, train, text_of(parts.test), text_of(parts.train), notes);
  return {std::make_shared<FolderImages>(options, train.source, train.classes, std::move(train.pictures)),
          std::make_shared<FolderImages>(options, test.source, test.classes, std::move(test.pictures)), notes};
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the folder and its permissions");
}

}  // namespace nixie
