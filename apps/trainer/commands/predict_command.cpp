// Pictures are prepared as in evaluation and go through the model in batches.
#include "nixie/apps/trainer/commands/predict_command.h"

#include <algorithm>

#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/trained_model.h"

namespace nixie {
namespace {

constexpr std::size_t kBatch = 32;

/// A field of a CSV file: in quotes where it holds what would end it (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void print(const std::filesystem::path& file, const std::vector<Score>& scores, const PredictCommand& command) {
  if (!command.csv) fmt::print("{}\n", file.string());
  const std::size_t shown = std::min(scores.size(), static_cast<std::size_t>(command.top));
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [name, value] = scores[i];
    if (command.csv)
      fmt::print("{},{},{},{:.6g}\n", csv_field(file.string()), i + 1, csv_field(name), value);
    else
      fmt::print("  {:8.4f}  {}\n", value, name);
  }
}

}  // namespace

bool run_predict(const PredictCommand& command) {
  const std::filesystem::path file = chosen_checkpoint(command.checkpoint);
  const TrainedModel trained = load_trained(file, command.assignments);
  const std::vector<std::filesystem::path> pictures = find_pictures(command.pictures);
  const auto backend = open_backend(trained.config.backend, trained.config.threads);
  Predictor predictor(trained, *backend, static_cast<std::int64_t>(std::min(pictures.size(), kBatch)));
  if (command.csv) fmt::print("file,rank,class,score\n");
  if (!command.csv)
    fmt::print("model {} of {}, after step {}\n", trained.config.model.kind(), file.string(), trained.step);
  bool all_read = true;
  for (std::size_t first = 0; first < pictures.size(); first += kBatch) {
    std::vector<Array> samples;
    std::vector<std::filesystem::path> read;
    for (std::size_t i = first; i < std::min(first + kBatch, pictures.size()); ++i) try {
        samples.push_back(prepare_picture(pictures[i], trained.preparation));
        read.push_back(pictures[i]);
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;
        fmt::print(stderr, "{}\n", error.what());
        all_read = false;
      }
    const auto scores = predictor(samples);
    for (std::size_t i = 0; i < read.size(); ++i) print(read[i], scores[i], command);
  }
  return all_read;
}

}  // namespace nixie
