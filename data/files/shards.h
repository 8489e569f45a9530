// Shards: tar archives of pictures and their classes, in webdataset's layout.
#pragma once

#include "nixie/data/files/folder_scan.h"

namespace nixie {

/// Whether the name ends in .tar, in any case.
bool is_shard_name(const std::filesystem::path& file);
/// The shards in a folder, sorted; none if it also holds folders.
std::vector<std::filesystem::path> shards_in(const std::filesystem::path& folder);

/// The pictures of all shards, in their order. The class of `a/0001.jpg` is the content of `a/0001.cls`, or the
/// `label`, `class` or `cls` of the object in `a/0001.json`: a number or a name; without these files it is the folder's
/// name, `a`; beside such folders, a picture in none is left out. Names that begin with a dot are ignored. Reads only
/// headers and classes, of several shards in parallel. Throws Fault::data naming the shard and the file: a damaged
/// archive, one without a picture, a picture without a class, or with two, a repeated name.
FolderScan scan_shards(const std::vector<std::filesystem::path>& shards);

}  // namespace nixie
