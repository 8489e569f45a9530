// Detects the dataset in a folder from its contents, for --data FOLDER and --set data.path=FOLDER.
#pragma once

#include <filesystem>

#include "nixie/configs/parse/config.h"

namespace nixie {

/// The assignments (key.path=value) that make a configuration read this folder: MNIST's or CIFAR's files, packed
/// data, or folders of pictures per class. A dataset of the same kind keeps its fields; another one takes over the
/// batch and the size of the images. Throws Fault::data where the folder holds nothing that is known; `option` says how
/// the command takes one.
std::vector<std::string> data_assignments(const TrainConfig& config, const std::filesystem::path& folder,
                                          const char* option = "with --data");

/// The assignment that gives the model as many classes as the folder has, where its last layer or its option says
/// another number; else nothing. `data`: the dataset of that folder with all that is assigned to it.
std::vector<std::string> class_assignments(const TrainConfig& config, const std::filesystem::path& folder,
                                           const AnyDataset& data);

/// Takes each `data.path=SOURCE`, which says the same as `--data SOURCE`, out of the assignments. Gives the last
/// source, or "".
std::filesystem::path take_source(std::vector<std::string>& assignments);

/// `assignments` with all of those of `folder`, or of the source that they name, for the configuration in `file` in
/// front; just them where there is no folder or no configuration.
std::vector<std::string> with_data(const std::filesystem::path& file, std::filesystem::path folder,
                                   std::vector<std::string> assignments);

/// `assignments` behind those for the source that they name as the data of a run's own configuration. Its model stays.
std::vector<std::string> with_source(const TrainConfig& own, std::vector<std::string> assignments);

}  // namespace nixie
