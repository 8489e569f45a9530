// `benchmark data`: how many images a second the loader decodes, and that they are the same for any number of threads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nixie::benchmark {

struct DataCommand {
  std::filesystem::path config = {};          ///< this configuration's data; empty: the data that the program makes
  std::vector<std::string> assignments = {};  ///< of --set
  int threads = 0;                            ///< 0 = one per core
  double seconds = 1;                         ///< that each row is timed for, at least
  std::filesystem::path json = {}, csv = {};  ///< empty: not written
};

struct DataRow {
  std::string data = {}, sample = {};
  int threads = 0;
  std::int64_t batch = 0, images = 0;
  double seconds = 0;
  double images_per_second() const { return static_cast<double>(images) / seconds; }
};

/// Prints the table and writes the files. Throws Error: Fault::non_finite where pixels are not finite, or differ from
/// those of one thread.
std::vector<DataRow> run_data(const DataCommand& command);

}  // namespace nixie::benchmark
