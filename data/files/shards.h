// Shards: tar archives of pictures and their classes, in webdataset's layout.
#pragma once

#include "nixie/data/files/folder_scan.h"

namespace nixie {

/// Whether the name ends in .tar, in any case.
bool is_shard_name(const std::filesystem::path& file);
/// The shards in a folder, sorted; none where it holds folders too.
std::vector<std::filesystem::path> shards_in(const std::filesystem::path& folder);

/// The pictures of all shards, in their order. The class of `a/0001.jpg` is what `a/0001.cls` holds, or the `label`,
/// `class` or `cls` of the object in `a/0001.json`: a number or a name; without both it is the name of the folder, `a`.
/// Names that begin with a dot count as nothing. Reads headers and classes alone, of several shards at once. Throws
/// Fault::data naming the shard and the file: a damaged archive, a picture without a class, a name that comes twice.
FolderScan scan_shards(const std::vector<std::filesystem::path>& shards);

}  // namespace nixie
