// HDF5 files are read by the reader that guards checkpoints, with its refusals.
#include "nixie/data/files/array_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "nixie/core/base/error.h"
#include "nixie/core/files/hdf5_reader.h"
#include "nixie/data/files/half_sources.h"
#include "nixie/data/files/npy_file.h"
#include "nixie/data/files/table_file.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

class Hdf5Rows final : public ArrayRows {
 public:
  Hdf5Rows(std::shared_ptr<hdf5::Reader> reader, const std::string& path)
      : reader_(std::move(reader)), rows_(reader_->rows(path)) {}

  const NumberArray& form() const override { return rows_.form(); }
  NumberArray read(std::int64_t first, std::int64_t count) const override {
    const std::lock_guard lock(mutex_);
    return rows_.read(first, count);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<hdf5::Reader> reader_;  // outlives the rows
  mutable hdf5::Reader::Rows rows_;
};

class Hdf5Arrays final : public ArraySource {
 public:
  Hdf5Arrays(const fs::path& path, double unpack)
      : ArraySource(path),
        reader_(std::make_shared<hdf5::Reader>(
            path, Fault::data, "write it again with h5py",
            unpacking_limit(unpack,
                            "set data.arrays.unpack to the GiB that it needs, or write it without "
                            "compression"))) {}

  std::vector<std::string> names() const override { return reader_->names("/"); }
  NumberArray array(const std::string& name) const override { return reader_->number_array("/" + name); }
  std::shared_ptr<const ArrayRows> rows(const std::string& name) const override {
    return std::make_shared<Hdf5Rows>(reader_, "/" + name);
  }
  std::vector<double> attribute(const std::string& array, const std::string& name) const override {
    return reader_->numbers("/" + array, name);
  }

 private:
  std::shared_ptr<hdf5::Reader> reader_;
};

/// How arrays are named, the usual way first: with a word for their half in place of {}, and without one.
struct Spellings {
  std::vector<std::string_view> of_half, of_all;
};
const Spellings kImages{{"x_{}", "{}_images", "images_{}", "{}_x", "input_{}", "{}_input"}, {"images", "x", "input"}},
    kTargets{{"y_{}", "{}_labels", "labels_{}", "{}_y", "output_{}", "{}_output", "masks_{}", "{}_masks"},
             {"labels", "y", "output", "masks"}};

/// In small letters, those of the first word first.
std::vector<std::string> names_of_half(const Spellings& spellings, HalfWords words) {
  std::vector<std::string> names;
  for (const std::string_view word : words)
    for (const std::string_view each : spellings.of_half) names.push_back(fmt::format(fmt::runtime(each), word));
  return names;
}
std::vector<std::string> names_to_train(const Spellings& spellings) {
  std::vector<std::string> names = names_of_half(spellings, kTrainingWords);
  names.insert(names.end(), spellings.of_all.begin(), spellings.of_all.end());
  return names;
}

/// The first of these names that there is, as the source writes it; else "".
std::string present(const ArraySource& source, const std::vector<std::string>& names) {
  const std::vector<std::string> all = source.names();
  for (const std::string& name : names)
    if (const auto found = std::ranges::find(all, name, lower_case); found != all.end()) return *found;
  return {};
}

}  // namespace

ArrayPair training_pair(const ArraySource& source) {
  return {present(source, names_to_train(kImages)), present(source, names_to_train(kTargets))};
}

ArrayPair evaluation_pair(const ArraySource& source) {
  for (const std::string_view& word : kEvaluationWords) {
    const HalfWords one(&word, 1);
    ArrayPair pair{present(source, names_of_half(kImages, one)), present(source, names_of_half(kTargets, one))};
    if (!pair.images.empty() || !pair.targets.empty()) return pair;
  }
  return {};
}

bool is_training_images(const std::string& name) {
  const std::vector<std::string> names = names_to_train(kImages);
  return std::ranges::find(names, lower_case(name)) != names.end();
}

ArrayPlaces ArraySource::places(const std::string& name) const {
  return [array = path_.string() + ": " + name](const std::vector<std::int64_t>& index) {
    return fmt::format("{}[{}]", array, fmt::join(index, ", "));
  };
}

bool is_hdf5_name(const fs::path& file) {
  const std::string suffix = file.extension().string();
  return suffix == ".h5" || suffix == ".hdf5" || suffix == ".hdf" || suffix == ".he5";
}

std::unique_ptr<ArraySource> open_arrays(const fs::path& path, int targets, const ArraySource* training,
                                         double unpack) {
  if (is_table_name(path)) return std::make_unique<TableFile>(path, targets, training);
  if (is_hdf5_name(path)) return std::make_unique<Hdf5Arrays>(path, unpack);
  return std::make_unique<NpyFile>(path, unpack);
}

}  // namespace nixie
