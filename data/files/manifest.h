// Manifests: tables (CSV) that name a picture and its class in each row.
#pragma once

#include "nixie/data/files/folder_scan.h"

namespace nixie {

/// Whether the name ends in .csv, in any case.
bool is_manifest_name(const std::filesystem::path& file);

/// Reads rows `picture,class`; further columns are ignored, and the first row where it names no picture. Pictures are
/// relative to the manifest's folder. Classes that are all whole numbers are in their order, others sorted as text.
/// Throws Fault::data naming the row: one without a class, or whose picture is missing or has another suffix than a
/// picture's.
FolderScan scan_manifest(const std::filesystem::path& file);

/// What the training half of pictures is read from: `path` itself, where it is a manifest or holds a folder per class;
/// or its folder or manifest train or training, in any case. `test` is its val, valid, validation, test or testing,
/// where there is one, else empty.
struct PictureParts {
  std::filesystem::path train, test;
};
/// Throws Fault::data where `path` is neither a folder nor a manifest.
PictureParts find_parts(const std::filesystem::path& path);

/// scan_folder or scan_manifest.
FolderScan scan_pictures(const std::filesystem::path& part);
/// The names of the classes of a training half, without reading its pictures.
std::vector<std::string> class_names_of(const std::filesystem::path& part);

}  // namespace nixie
