// `benchmark data`: images per second of the loader; checks that pixels do not depend on the number of threads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nixie::benchmark {

struct DataCommand {
  std::filesystem::path config = {};          ///< this configuration's data; empty: generated data
  std::vector<std::string> assignments = {};  ///< of --set
  int threads = 0;                            ///< 0 = one per core
  double seconds = 1;                         ///< least time of each row
  std::filesystem::path json = {}, csv = {};  ///< empty: not written
};

struct DataRow {
  std::string data = {}, sample = {};
  int threads = 0;
  std::int64_t batch = 0, images = 0;
  double seconds = 0;
  double images_per_second() const { return static_cast<double>(images) / seconds; }
};

/// Prints the table and writes the files. Throws Error: Fault::non_finite if pixels are not finite, or differ from
/// those of one thread.
std::vector<DataRow> run_data(const DataCommand& command);

}  // namespace nixie::benchmark
