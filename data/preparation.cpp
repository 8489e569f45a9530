// Preparation: the same decoding, window and normalisation as a folder of images in evaluation.
#include "nixie/data/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "nixie/core/base/one_line.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/array_samples.h"
#include "nixie/data/files/folder_scan.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/files/table_file.h"
#include "nixie/data/files/window.h"
#include "nixie/data/normalization.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// How many columns a table has behind its first `numbers`.
int columns_beyond(const fs::path& table, std::int64_t numbers) {
  const std::vector<TableRow> rows = read_table(table);
  const auto columns = rows.empty() ? 0 : static_cast<std::int64_t>(rows[0].cells.size());
  return static_cast<int>(std::max<std::int64_t>(columns - numbers, 0));
}

std::vector<float> in_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

/// A number as StoredFloats normalises it: a scale and a shift, as for bytes, would lose the digits of numbers whose
/// mean is large beside their deviation.
float normalised(float number, const Preparation& preparation, std::size_t channel) {
  const auto unit = [&](const std::vector<double>& values, float otherwise) {  // of a byte that is 1
    return values.empty() ? otherwise : static_cast<float>(255 * values[channel]);
  };
  return (number - unit(preparation.mean, 0)) / unit(preparation.deviation, 255);
}

}  // namespace

Array prepare_picture(const fs::path& file, const Preparation& preparation) {
  const auto [channels, height, width] = std::array{preparation.channels, preparation.height, preparation.width};
  if (channels != 1 && channels != 3)
    fail(Fault::data, file.string(), ": the model takes ", channels,
         " channels, which no picture has; give it a .npz or .h5 file of arrays");
  const Image image = decode_image(read_file(file, kMaxImageFile), file,
                                   {.upright = preparation.upright, .megapixels = preparation.megapixels});
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(preparation.sample_shape().size()));
  cut_bytes(image, centre_window(image, preparation.short_side, width, height), channels, bytes);
  const Normalization normalization(channels, in_floats(preparation.mean), in_floats(preparation.deviation));
  Array sample(Dtype::f32, preparation.sample_shape());
  const auto pixels = sample.data<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = normalization(bytes[i], static_cast<std::int64_t>(i) / (height * width));
  return sample;
}

bool is_array_name(const fs::path& file) {
  return file.extension() == ".npz" || is_hdf5_name(file) || is_table_name(file);
}

std::vector<Array> prepare_arrays(const fs::path& file, const Preparation& preparation) {
  const Shape wanted = preparation.sample_shape();
  const int targets = is_table_name(file) ? columns_beyond(file, wanted.size()) : 0;
  const std::unique_ptr<ArraySource> source = open_arrays(file, targets);
  std::string name = evaluation_pair(*source).images;
  if (name.empty()) name = training_pair(*source).images;
  if (name.empty())
    fail(Fault::data, file.string(), ": holds ", fmt::format("{}", fmt::join(source->names(), ", ")),
         ", expected x_test or images");
  // Both layouts fit a cube: the run's layout decides. `auto` takes a last axis of 1 or 3 for the channels.
  const bool is_cube = wanted[0] == wanted[1] && wanted[1] == wanted[2];
  const bool is_last = preparation.layout == "last" || (preparation.layout == "auto" && is_cube);
  ArrayImages images = images_of(*source, name, is_last ? "last" : "first", file);
  if (images.sample_shape != wanted)
    images = images_of(*open_arrays(file, targets), name, is_last ? "first" : "last", file);
  if (images.sample_shape != wanted)
    fail(Fault::data, file.string(), ": ", name, " holds samples ", images.sample_shape, ", the model takes ", wanted);
  const Normalization normalization(wanted[0], in_floats(preparation.mean), in_floats(preparation.deviation));
  const std::int64_t plane = wanted[1] * wanted[2];
  std::vector<Array> samples;
  for (std::int64_t i = 0; i < images.samples; ++i) {
    Array& sample = samples.emplace_back(Dtype::f32, wanted);
    const auto pixels = sample.data<float>();
    for (std::int64_t k = 0; k < wanted.size(); ++k) {
      const auto from = static_cast<std::size_t>(i * wanted.size() + k);
      pixels[static_cast<std::size_t>(k)] =
          images.is_bytes() ? normalization(images.bytes[from], k / plane)
                            : normalised(images.numbers[from], preparation, static_cast<std::size_t>(k / plane));
    }
  }
  return samples;
}

bool is_picture_name(const fs::path& file) {
  std::string suffix = file.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".jpe" || suffix == ".png" || suffix == ".webp";
}

std::vector<fs::path> find_pictures(const std::vector<fs::path>& paths, std::vector<std::string>& notes) try {
  std::vector<fs::path> found;
  for (const fs::path& path : paths) {
    if (!fs::exists(path)) fail(Fault::data, path.string(), ": no such file or folder; name JPEG, PNG or WebP files");
    if (!fs::is_directory(path)) {
      found.push_back(path);
      continue;
    }
    const std::size_t before = found.size();
    FolderScan scan{.source = {path}};
    for (const fs::path& file : pictures_below(path, scan)) found.push_back(file);
    const std::string left_out = scan.left_out.text();
    if (found.size() == before)
      fail(Fault::data, path.string(), ": no .jpg, .png or .webp file in it", left_out.empty() ? "" : "; ", left_out);
    if (!left_out.empty())
      notes.push_back(
          one_line(fmt::format("{}: took {} pictures, {}", path.string(), found.size() - before, left_out)));
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end());
  }
  return found;
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the path and its permissions");
}

}  // namespace nixie
