// classify_in_threads: classify with four threads that share one model, as a server would.
//   classify_in_threads hands.h5 photo.jpg...
#include <fmt/core.h>

#include <atomic>

#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/cpu/backend.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/threads.h"

namespace {

// The class of each picture, or why it is none.
std::vector<std::string> classify(const nixie::TrainedModel& trained, const std::vector<std::string>& pictures) {
  std::vector<std::shared_ptr<nixie::Backend>> backends;
  std::vector<nixie::Predictor> predictors;
  for (int thread = 0; thread < 4; ++thread) {
    backends.push_back(nixie::make_cpu_backend(1));  // a thread's own; the weights are shared
    predictors.emplace_back(trained, *backends.back());
  }
  std::vector<std::string> lines(pictures.size());
  std::atomic<std::size_t> started = 0, next = 0;
  const auto work = [&](const std::stop_token&) {
    nixie::Predictor& predictor = predictors[started++];
    for (std::size_t i = next++; i < pictures.size(); i = next++) try {
        const nixie::Array sample = nixie::prepare_picture(pictures[i], trained.preparation);
        const nixie::Score best = predictor({sample})[0][0];
        lines[i] = fmt::format("{}: {} ({:.4f})", pictures[i], best.class_name, best.value);
      } catch (const nixie::Error& error) {
        lines[i] = error.what();
      }
  };
  std::vector<std::jthread> pool;
  nixie::start_threads(pool, "classify", 4, work);
  pool.clear();  // waits for all
  return lines;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 3) {
    fmt::print(stderr, "usage: {} MODEL.h5 PICTURE...\n", arguments[0]);
    return 2;
  }
  const nixie::TrainedModel trained = nixie::load_trained(arguments[1], {"precision=fp32"});
  for (const std::string& line : classify(trained, {arguments + 2, arguments + count})) fmt::print("{}\n", line);
} catch (const nixie::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
