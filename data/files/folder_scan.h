// FolderScan: the pictures of each class, and counts of skipped files.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/data/files/image.h"
#include "nixie/data/files/left_out.h"
#include "nixie/data/files/mask_labels.h"

namespace nixie {

/// A file, or a part of a shard.
struct Picture {
  std::string name = {};               ///< relative to the folder; in a shard, the archive's name
  std::int32_t row = 0;                ///< the row of its numbers or mask
  std::int32_t shard = -1;             ///< -1: a separate file
  std::int64_t offset = 0, bytes = 0;  ///< in the shard
  std::uint64_t header = 0;            ///< the fingerprint of its header there
};

/// A file with the class of each pixel of a picture.
struct MaskFile {
  std::string name = {};               ///< relative to the folder
  std::int64_t width = 0, height = 0;  ///< of mask and picture, where it has been read by read_masks
  std::uint64_t fingerprint = 0;       ///< of its bytes, the same
};

/// The source of pictures; any thread may read from it.
struct PictureSource {
  std::filesystem::path folder = {};
  std::vector<std::filesystem::path> shards = {};
  std::int64_t numbers = 0;                      ///< how many numbers are the target of a picture; 0: its class
  std::vector<float> values = {};                ///< [rows, numbers]
  std::vector<MaskFile> masks = {};              ///< [rows]; none if pictures have a class or numbers
  std::vector<std::int32_t> without_class = {};  ///< labels in the masks of both halves that are no class
  std::string class_apart = {};                  ///< of the classes in these masks: see Dataset

  /// For messages: `photos/cat/1.jpg`, `photos/train.tar: cat/1.jpg`.
  std::filesystem::path path_of(const Picture& picture) const;
  /// The bytes of the file. Throws Fault::data.
  std::vector<std::uint8_t> read(const Picture& picture) const;
  const MaskFile& mask_of(const Picture& picture) const { return masks[static_cast<std::size_t>(picture.row)]; }
  std::filesystem::path path_of(const MaskFile& mask) const { return folder / mask.name; }
  std::span<const float> numbers_of(const Picture& picture) const {
    return std::span(values).subspan(static_cast<std::size_t>(picture.row * numbers),
                                     static_cast<std::size_t>(numbers));
  }
};

struct FolderScan {
  PictureSource source = {};
  std::vector<std::string> classes = {};  ///< sorted as numbers if all are, else as text; none if targets are numbers
  std::vector<std::vector<Picture>> pictures = {};  ///< of each class, or all
  LeftOut left_out = {};
  std::vector<std::string> columns = {};  ///< the names of a table's columns that are read; none if it has none
};

/// The kinds under which pipes and devices are counted, and files among class folders.
inline constexpr const char *kNoFiles = "entries that are no regular files",
                            *kOutsideClasses = "files outside the class folders";
/// Names that begin with a dot, and folders that systems leave beside pictures: __MACOSX, @eaDir, #recycle, lost+found.
bool is_hidden(const std::filesystem::path& path);
/// The type of what an entry leads to; a circle of links leads nowhere, as a link to what is gone.
std::filesystem::file_type type_of(const std::filesystem::directory_entry& entry);
/// The pictures in a folder and in those below that are not hidden, in no order; what else is there is counted. Links
/// to folders are followed, but for those that lead back to a folder they are in, and each folder is read once, by its
/// own name or else by that of the first link. Relative names are of scan.source.
std::vector<std::filesystem::path> pictures_below(const std::filesystem::path& folder, FolderScan& scan);
/// `.jpg` of `a.JPG`
std::string lower_suffix(const std::filesystem::path& file);
/// -1, 1.5, +2, 1e3, 0x1, nan: a number in another form than digits, as tools write where a label is missing or no
/// class. Names may hold digits.
bool is_number_of_no_class(std::string_view text);
/// Sets a scan's classes: sorted as numbers if all names are integers, else as text.
void take_classes(FolderScan& scan, std::map<std::string, std::vector<Picture>> classes);

/// The class folders in `folder`: all that are not hidden, sorted as text; what else is there is counted.
std::vector<std::string> class_folders(const std::filesystem::path& folder, LeftOut& left_out);
/// Scans every class folder; the pictures of each are sorted as text. Throws
/// Fault::data if a class has no picture or there is no class.
FolderScan scan_folder(const std::filesystem::path& folder);

/// Decodes every mask, on all cores, notes their sizes and fingerprints, and returns what labels they hold. Throws
/// Fault::data if a mask does not have its picture's size.
MaskLabels read_masks(FolderScan& scan, const Decoding& decoding);

/// The advice where folders of classes seem to be a level deeper; "" elsewhere.
std::string deeper_text(const FolderScan& scan);

/// How a dataset treats pictures that cannot be decoded.
enum class Damage {
  error,  ///< reading it ends the run
  check,  ///< all pictures are decoded first; the damaged ones are an error
  skip    ///< all pictures are decoded first; the damaged ones are skipped
};
/// Throws a usage Error for an unknown name.
Damage damage_named(const std::string& name);

/// Decodes every picture, on all cores. `skip` removes the damaged ones and counts them; `check` throws Fault::data
/// with their number and the first one; `error` reads nothing.
void check_pictures(FolderScan& scan, Damage damage, const Decoding& decoding);

}  // namespace nixie
