// One thread's batches are the reference for the rest.
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/configs/parse/config.h"

namespace nixie::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

struct Data {
  std::filesystem::path config = {};  ///< empty: generated data
  std::vector<std::string> assignments = {};
  int threads = 0;     ///< 0 = one per core
  double seconds = 1;  ///< least time of each row
  Files files = {};
};

const Columns kColumns{{"data", -14, "data"},
                       {"sample", -16, "sample"},
                       {"threads", 7, "threads"},
                       {"batch", 6, "batch"},
                       {"images/s", 12, "images_per_second", "{:.0f}"},
                       {"MB/s", 10, "megabytes_per_second", "{:.1f}"}};

std::unique_ptr<Loader> training_loader(const AnyDataset& data, int threads) {
  auto loader =
      std::make_unique<Loader>(data.open().train, LoaderOptions{.batch = data.batch(), .threads = threads}, 1, true);
  loader->start({});
  return loader;
}

const Batch& next_batch(Loader& loader) {
  const Batch* batch = loader.next();
  if (!batch) batch = loader.next();  // an epoch ended
  check(batch != nullptr, "the loader has no batch");
  return *batch;
}

void check_batches(const AnyDataset& data, int threads) {
  const auto one = training_loader(data, 1), many = training_loader(data, threads);
  for (int i = 0; i < 2; ++i) {
    const Batch &a = next_batch(*one), &b = next_batch(*many);
    for (const double pixel : a.images.to_vector<double>())
      if (!std::isfinite(pixel)) fail(Fault::non_finite, data.kind(), ": a pixel is not finite");
    const auto bytes = static_cast<std::size_t>(a.images.size_bytes());
    if (std::memcmp(a.images.bytes(), b.images.bytes(), bytes) != 0)
      fail(Fault::non_finite, data.kind(), ": ", threads, " threads give other pixels than one");
  }
}

nlohmann::json time_data(const AnyDataset& data, int threads, double least_seconds) {
  check_batches(data, threads);
  const auto loader = training_loader(data, threads);
  const Dataset& dataset = loader->dataset();
  next_batch(*loader);  // the first waits for the threads to start
  std::int64_t images = 0;
  double seconds = 0;
  for (const auto start = Clock::now(); seconds < least_seconds;
       seconds = std::chrono::duration<double>(Clock::now() - start).count())
    images += next_batch(*loader).count;
  const double rate = static_cast<double>(images) / seconds,
               image_bytes = (dataset.bytes() ? 1 : 4) * static_cast<double>(dataset.sample_shape().size());
  return {{"data", data.kind()},       {"sample", to_string(dataset.sample_shape())},
          {"threads", threads},        {"batch", data.batch()},
          {"images", images},          {"seconds", seconds},
          {"images_per_second", rate}, {"megabytes_per_second", rate * image_bytes / 1e6}};
}

std::vector<AnyDataset> wanted_data(const Data& command) {
  if (!command.config.empty()) return {load_config(command.config, command.assignments).data};
  return {Glyphs{}, Generated{}, Generated{.height = 224, .width = 224, .train = 1000, .batch = 64}};
}

void run(const Data& command) {
  Report report("data", command.files);
  tell("{}\n", processor_text());
  report.print_header(kColumns);
  const int all =
      command.threads > 0 ? command.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const AnyDataset& data : wanted_data(command))
    for (const int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1})
      report.add_row(time_data(data, threads, command.seconds));
}

}  // namespace

Subcommand add_data(CLI::App& app) {
  const auto command = std::make_shared<Data>();
  CLI::App* data = add_command(app, "data", "images per second of the loader");
  add_assignments(*data, command->assignments,
                  add_value(*data, "--config", command->config, "the data of a configuration; else drawn images"));
  add_number(*data, "--threads", command->threads, "that decode; one per core by default", 1, 1024);
  add_number(*data, "--seconds", command->seconds, "of each row, 1 by default", 0.01, 3600.0);
  add_files(*data, command->files, true, false);
  return {data, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
