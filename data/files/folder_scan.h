// FolderScan: which pictures of which classes there are, and a count of what else was there.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nixie/data/files/image.h"

namespace nixie {

/// A file, or a part of a shard.
struct Picture {
  std::string name = {};               ///< relative to the folder; of a shard's as the archive has it
  std::int32_t row = 0;                ///< of its numbers, or its mask
  std::int32_t shard = -1;             ///< -1: a file of its own
  std::int64_t offset = 0, bytes = 0;  ///< in the shard
};

/// Where pictures are read from; any thread may.
struct PictureSource {
  std::filesystem::path folder = {};
  std::vector<std::filesystem::path> shards = {};
  std::int64_t numbers = 0;             ///< that each picture is mapped to; 0: its class
  std::vector<float> values = {};       ///< [rows, numbers]
  std::vector<std::string> masks = {};  ///< [rows], relative to the folder; none where pictures have a class or numbers

  /// For messages: `photos/cat/1.jpg`, `photos/train.tar: cat/1.jpg`.
  std::filesystem::path path_of(const Picture& picture) const;
  /// The file as it is stored. Throws Fault::data.
  std::vector<std::uint8_t> read(const Picture& picture) const;
  Mask mask_of(const Picture& picture) const;
  std::span<const float> numbers_of(const Picture& picture) const {
    return std::span(values).subspan(static_cast<std::size_t>(picture.row * numbers),
                                     static_cast<std::size_t>(numbers));
  }
};

struct FolderScan {
  PictureSource source = {};
  std::vector<std::string> classes = {};  ///< numbers in their order, or names sorted; none where targets are numbers
  std::vector<std::vector<Picture>> pictures = {};    ///< of each class, or all
  std::map<std::string, std::int64_t> left_out = {};  ///< `.gif files` -> how many
};

/// What pipes, devices and links that lead nowhere are counted as.
inline constexpr const char* kNoFiles = "entries that are no regular files";
/// `.jpg` of `a.JPG`
std::string lower_suffix(const std::filesystem::path& file);
/// Gives a scan its classes: names that are all whole numbers in their order, others sorted as text.
void take_classes(FolderScan& scan, std::map<std::string, std::vector<Picture>> classes);

/// Looks below every folder in `folder`: each is a class, sorted as text, and so are its pictures. Names that begin
/// with a dot count as nothing. Throws Fault::data where a class has no picture or there is no class.
FolderScan scan_folder(const std::filesystem::path& folder);

/// `left out 3 .gif files, 1 file outside the class folders`, or "".
std::string left_out_text(const FolderScan& scan);

/// Decodes every mask, on all cores, and gives the largest class in them; 255 counts as none. Throws Fault::data where
/// a mask has not its picture's size.
std::int32_t largest_class(const FolderScan& scan);

/// What a picture that cannot be decoded means to a dataset.
enum class Damage {
  error,  ///< reading it ends the run
  check,  ///< all pictures are decoded first; the damaged ones are an error
  skip    ///< all pictures are decoded first; the damaged ones are left out
};
/// Throws a usage Error for another word.
Damage damage_named(const std::string& name);

/// Decodes every picture, on all cores. Under `skip` takes the damaged ones out and counts them; under `check` throws
/// Fault::data naming how many there are and the first; under `error` reads nothing.
void check_pictures(FolderScan& scan, Damage damage);

}  // namespace nixie
