// Cifar10 and Cifar100: reads files of fixed-size records.
#include "nixie/data/cifar.h"

#include <sstream>

#include "nixie/data/files/input_file.h"
#include "nixie/data/stored_images.h"

namespace nixie {
namespace {

constexpr std::size_t kPixels = 3UL * 32 * 32;
constexpr std::uint64_t kMaxFile = 1 << 30;

StoredImages::Content read_records(const std::filesystem::path& folder, const std::vector<std::string>& files,
                                   int classes) {
  const std::size_t label_bytes = classes == 10 ? 1 : 2, record = label_bytes + kPixels;
  StoredImages::Content content;
  content.sample_shape = {3, 32, 32};
  for (const std::string& name : files) {
    const auto file = folder / name;
    const std::vector<std::uint8_t> bytes = read_file(file, kMaxFile);
    if (bytes.empty() || bytes.size() % record)
      fail(Fault::data, file.string(), " at byte ", bytes.size(), ": ends inside a record, expected records of ",
           record, " bytes; fetch the binary version again");
    std::vector<std::uint8_t> labels;
    for (std::size_t at = 0; at < bytes.size(); at += record) {
      labels.push_back(bytes[at + label_bytes - 1]);
      const auto* pixels = bytes.data() + at + label_bytes;
      content.pixels.insert(content.pixels.end(), pixels, pixels + kPixels);
    }
    check_labels(labels, classes, file, label_bytes - 1, record);
    content.targets.labels.insert(content.targets.labels.end(), labels.begin(), labels.end());
  }
  return content;
}

/// The lines of the names file that comes with the images; numbers where it is absent.
std::vector<std::string> read_names(const std::filesystem::path& file, int classes) {
  std::vector<std::string> names;
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) {
    for (int c = 0; c < classes; ++c) names.push_back(std::to_string(c));
    return names;
  }
  const auto bytes = read_file(file, 1 << 16);
  std::istringstream words(std::string(bytes.begin(), bytes.end()));
  for (std::string word; words >> word;) names.push_back(word);
  if (static_cast<int>(names.size()) != classes)
    fail(Fault::data, file.string(), ": ", names.size(), " class names, expected ", classes,
         "; remove or mend the file");
  return names;
}

}  // namespace

template <int kClasses>
Splits Cifar<kClasses>::open() const {
  using Files = std::vector<std::string>;
  constexpr bool ten = kClasses == 10;
  StoredImages::Transform transform{.pad = pad, .flip = flip, .augment = augment};
  if (normalize) {
    transform.mean = ten ? std::vector{0.4914f, 0.4822f, 0.4465f} : std::vector{0.5071f, 0.4865f, 0.4409f};
    transform.deviation = ten ? std::vector{0.2470f, 0.2435f, 0.2616f} : std::vector{0.2673f, 0.2564f, 0.2762f};
  }
  const std::filesystem::path folder = path;
  const auto names = read_names(folder / (ten ? "batches.meta.txt" : "fine_label_names.txt"), kClasses);
  const auto half = [&](const Files& files) {
    return std::make_shared<StoredImages>(read_records(folder, files, kClasses), names, transform, limit);
  };
  return {half(ten ? Files{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin"}
                   : Files{"train.bin"}),
          half({ten ? "test_batch.bin" : "test.bin"})};
}

template struct Cifar<10>;
template struct Cifar<100>;

}  // namespace nixie
