// Manifests: tables (CSV) that name a picture and its class, numbers or mask in each row; and the sources of the
// training and test halves.
#pragma once

#include "nixie/data/files/folder_scan.h"
#include "nixie/data/files/half_sources.h"

namespace nixie {

/// Reads rows `picture,class` or `picture,mask`, whose further columns are ignored, or `picture,number,...`: all
/// numbers of the row. The first row is skipped if it names no picture. `target` is class, numbers, mask or auto:
/// numbers if the second column holds only numbers and at least one is not whole, masks if it holds only PNG files.
/// Pictures are relative to the manifest's folder. Classes are sorted as numbers if all are integers, else as text.
/// Throws Fault::data naming the row: without a class, with another number of numbers than the others, or whose picture
/// is missing or has no picture's suffix.
FolderScan scan_manifest(const std::filesystem::path& file, const std::string& target = "auto");

/// The training half is `path` itself, if it is a manifest or a shard or holds a folder per class; or its manifest,
/// shard or folder of one of the words for a half; or the shards in it. The test half is that of such a word, if there
/// is one, else empty; among shards in one folder, those with the word in their names. Throws Fault::data if `path` is
/// neither a folder nor a manifest nor a shard, or holds test halves alone.
HalfSources find_parts(const std::filesystem::path& path);

/// scan_folder, scan_manifest or scan_shards. Throws a usage Error if `target` is numbers and there is no manifest.
FolderScan scan_pictures(const HalfSource& part, const std::string& target);
/// The target to scan with where only the pictures matter: the name of a class may be any text.
inline constexpr const char* kAnyTarget = "class";
/// The names of the classes in the folders or shards of a training half, without reading its pictures.
std::vector<std::string> class_names_of(const HalfSource& part);

}  // namespace nixie
