// Mnist: reads IDX files.
#include "nixie/data/mnist.h"

#include <filesystem>

#include "nixie/data/files/input_file.h"
#include "nixie/data/stored_images.h"

namespace nixie {
namespace {

constexpr std::uint32_t kImagesMagic = 0x803, kLabelsMagic = 0x801, kMaxSide = 4096;

/// `train-images` finds train-images-idx3-ubyte, train-images.idx3-ubyte, each with .gz or not.
std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& stem, int dimensions) {
  for (const char* separator : {"-", "."})
    for (const char* suffix : {"", ".gz"}) {
      auto file = folder / fmt::format("{}{}idx{}-ubyte{}", stem, separator, dimensions, suffix);
      if (std::error_code refused; std::filesystem::exists(file, refused) || refused) return file;
    }
  fail(Fault::data, (folder / fmt::format("{}-idx{}-ubyte[.gz]", stem, dimensions)).string(),
       ": no such file; set path to the folder that holds the four MNIST files");
}

/// Checks the magic number and returns the number of samples.
std::uint32_t read_header(InputFile& file, std::uint32_t magic) {
  const std::uint32_t found = file.read_big_endian("the magic number");
  if (found != magic)
    file.fail_here(fmt::format("magic number {:#x}, expected {:#x}; this is no IDX file of {}", found, magic,
                               magic == kImagesMagic ? "byte images" : "byte labels"));
  const std::uint32_t count = file.read_big_endian("the number of samples");
  if (count == 0) file.fail_here("holds 0 samples; fetch the file again");
  return count;
}

StoredImages::Content read_half(const std::filesystem::path& folder, const std::string& half) {
  StoredImages::Content content;
  InputFile images(find_file(folder, half + "-images", 3));
  const std::uint32_t count = read_header(images, kImagesMagic);
  const std::uint32_t height = images.read_big_endian("the image height");
  const std::uint32_t width = images.read_big_endian("the image width");
  if (height - 1 >= kMaxSide || width - 1 >= kMaxSide)
    images.fail_here(
        fmt::format("images of {} x {}, each side must be 1 to {}; fetch the file again", height, width, kMaxSide));

  const auto labels_path = find_file(folder, half + "-labels", 1);
  InputFile labels(labels_path);
  const std::uint32_t label_count = read_header(labels, kLabelsMagic);
  if (label_count != count)
    labels.fail_here(fmt::format("{} labels for {} images; the files do not belong together", label_count, count));

  const std::vector<std::uint8_t> classes = labels.read(count, "the labels");
  labels.expect_end();
  check_labels(classes, 10, labels_path, 8, 1);
  content.targets.labels.assign(classes.begin(), classes.end());
  content.pixels = images.read(std::uint64_t{count} * height * width, "the pixels");
  images.expect_end();
  content.sample_shape = {1, height, width};
  return content;
}

}  // namespace

Splits Mnist::open() const {
  StoredImages::Transform transform{.pad = pad, .augment = augment};
  if (normalize) transform.mean = {0.1307f}, transform.deviation = {0.3081f};
  const std::vector<std::string> digits{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  const auto half = [&](const char* stem) {
    return std::make_shared<StoredImages>(read_half(path, stem), digits, transform, limit);
  };
  Splits splits{half("train"), half("t10k")};
  if (splits.train->sample_shape() != splits.test->sample_shape())
    fail(Fault::data, path.string(), ": training images are ", splits.train->sample_shape(), ", test images ",
         splits.test->sample_shape(), "; the files do not belong together");
  return splits;
}

}  // namespace nixie
