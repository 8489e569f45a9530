// Pictures are prepared as in evaluation and go through the model in batches.
#include "nixie/apps/trainer/commands/command_line.h"

#include <algorithm>
#include <map>
#include <optional>

#include "nixie/apps/trainer/program/csv_cell.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/picture.h"
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/base/working_folder.h"
#include "nixie/core/files/make_folders.h"

namespace nixie {
namespace {

constexpr std::size_t kBatch = 32;

/// The first `most` scores.
void print(const std::string& name, const std::vector<Score>& scores, std::size_t most, const PredictCommand& command) {
  if (!command.csv) tell("{}\n", one_line(name));
  for (std::size_t i = 0; i < std::min(scores.size(), most); ++i) {
    const auto& [class_name, value] = scores[i];
    if (command.csv)
      tell("{},{},{},{:.6g}\n", csv_path(name), i + 1, csv_text(class_name), value);
    else
      tell("  {:8.4f}  {}\n", value, one_line(class_name));
  }
}

/// Writes masks as grey PNG files whose levels are the classes, named as their pictures.
class MaskFolder {
 public:
  /// Throws where one of the pictures is in the folder, and where a mask would take the place of what check_output
  /// refuses or, unless `overwrite`, of any file.
  MaskFolder(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& pictures,
             const FilesInUse& in_use, bool overwrite)
      : folder_(folder), in_use_(in_use), overwrite_(overwrite) {
    std::error_code error;
    for (const std::filesystem::path& picture : pictures)
      check(!std::filesystem::equivalent(absolute_path(picture).parent_path(), folder, error), folder.string(),
            " holds the picture ", picture.filename().string(),
            ", whose mask would take its place; name another folder with --masks");
    make_folders(folder, "name another folder");
    for (const std::filesystem::path& picture : pictures)
      if (!is_array_name(picture)) check_free(mask_of(picture));
  }
  void write(const std::string& name, const Array& mask) {
    const bool is_of_array = name.ends_with(']');
    const std::string file = is_of_array ? std::filesystem::path(name).filename().string() + ".png" : mask_of(name);
    const auto [first, is_new] = written_.emplace(file, name);
    check(is_new, "the masks of ", first->second, " and ", name, " would both be ", (folder_ / file).string(),
          "; predict them one by one with a folder of --masks for each, or rename one");
    if (is_of_array) check_free(file);
    PagePicture picture{.channels = 1, .height = mask.shape()[0], .width = mask.shape()[1]};
    for (const std::int32_t pixel : mask.data<std::int32_t>())
      picture.bytes.push_back(static_cast<std::uint8_t>(pixel));
    write_text(folder_ / file, png_of(picture));
  }

 private:
  static std::string mask_of(const std::filesystem::path& picture) { return picture.stem().string() + ".png"; }
  void check_free(const std::string& mask) const {
    check_output(folder_ / mask, in_use_, "name another folder with --masks");
    std::error_code ignored;
    check(overwrite_ || !std::filesystem::exists(folder_ / mask, ignored), (folder_ / mask).string(),
          " is there already; name another folder, or replace masks with --overwrite");
  }

  std::filesystem::path folder_;
  FilesInUse in_use_;
  bool overwrite_;
  std::map<std::string, std::string> written_;  // masks, and the pictures they are of
};

/// Samples and their names, as many as are predicted at once.
struct Pending {
  std::vector<std::string> names = {};
  std::vector<Array> samples = {};
};

}  // namespace

bool run_predict(const PredictCommand& command) {
  const std::filesystem::path file = chosen_checkpoint(command.checkpoint);
  const TrainedModel trained = load_trained(file, command.assignments);
  std::vector<std::string> notes;
  const std::vector<std::filesystem::path> paths = find_pictures(command.pictures, notes);
  const auto backend = make_backend(trained.config.backend, trained.config.threads);
  const bool has_arrays = std::any_of(paths.begin(), paths.end(), is_array_name);
  Predictor predictor(trained, *backend,
                      static_cast<std::int64_t>(has_arrays ? kBatch : std::min(paths.size(), kBatch)));
  std::optional<MaskFolder> masks;
  if (!command.masks.empty()) {
    const Shape out = trained.model.output_shape();
    check(predictor.is_dense(), "the model's output is ", out, " for a sample, which is no mask; leave --masks out");
    check(out[0] <= 256, "the model has ", out[0], " classes, a PNG file has levels for 256; leave --masks out");
    std::vector<std::filesystem::path> files = paths;
    files.push_back(file);
    masks.emplace(command.masks, paths, FilesInUse(files), command.overwrite);
  }
  for (const std::string& note : notes) fmt::print(stderr, "{}\n", note);  // apart from the results
  if (command.csv) tell("file,rank,class,score\n");
  if (!command.csv) tell("model {} of {}, after step {}\n", trained.config.model.kind(), file, trained.step);
  Pending pending;
  const auto predict = [&] {
    const std::vector<Array> outputs = predictor.outputs(pending.samples, pending.names);
    const auto scores = predictor.scores(outputs);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      print(pending.names[i], scores[i],
            predictor.is_ranked() ? static_cast<std::size_t>(command.top) : scores[i].size(), command);
      if (masks) masks->write(pending.names[i], outputs[i]);
    }
    pending = {};
  };
  const auto add = [&](const std::string& name, Array sample) {
    pending.names.push_back(name);
    pending.samples.push_back(std::move(sample));
    if (pending.samples.size() == kBatch) predict();
  };
  bool all_read = true;
  for (const std::filesystem::path& path : paths) try {
      if (!is_array_name(path)) {
        add(path.string(), prepare_picture(path, trained.preparation));
        continue;
      }
      std::vector<Array> samples = prepare_arrays(path, trained.preparation);
      for (std::size_t i = 0; i < samples.size(); ++i) add(fmt::format("{}[{}]", path.string(), i), samples[i]);
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;
      fmt::print(stderr, "{}\n", error.what());
      all_read = false;
    }
  predict();
  return all_read;
}

}  // namespace nixie
