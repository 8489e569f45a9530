// One thread's batches are the reference for the rest.
#include "nixie/apps/benchmark/commands/data_command.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/configs/parse/config.h"

namespace nixie::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

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

DataRow time_data(const AnyDataset& data, int threads, double seconds) {
  check_batches(data, threads);
  const auto loader = training_loader(data, threads);
  next_batch(*loader);  // the first waits for the threads to start
  DataRow row{.data = data.kind(),
              .sample = to_string(loader->dataset().sample_shape()),
              .threads = threads,
              .batch = data.batch()};
  const auto start = Clock::now();
  while (row.seconds < seconds) {
    row.images += next_batch(*loader).count;
    row.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return row;
}

std::vector<AnyDataset> wanted_data(const DataCommand& command) {
  if (!command.config.empty()) return {load_config(command.config, command.assignments).data};
  return {Glyphs{}, Generated{}, Generated{.height = 224, .width = 224, .train = 1000, .batch = 64}};
}

}  // namespace

std::vector<DataRow> run_data(const DataCommand& command) {
  Report report("data", command.json, command.csv);
  tell("{}\n{:<14} {:<16} {:>7} {:>6} {:>12} {:>10}\n", processor_text(), "data", "sample", "threads", "batch",
       "images/s", "MB/s");
  const int all =
      command.threads > 0 ? command.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<DataRow> rows;
  for (const AnyDataset& data : wanted_data(command)) {
    for (const int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) {
      rows.push_back(time_data(data, threads, command.seconds));
      const DataRow& row = rows.back();
      const auto dataset = data.open().train;
      const double image_bytes = (dataset->bytes() ? 1 : 4) * static_cast<double>(dataset->sample_shape().size());
      tell("{:<14} {:<16} {:>7} {:>6} {:>12.0f} {:>10.1f}\n", row.data, row.sample, row.threads, row.batch,
           row.images_per_second(), row.images_per_second() * image_bytes / 1e6);
      std::fflush(stdout);
      report.add_row(row);
    }
  }
  return rows;
}

}  // namespace nixie::benchmark
