// The program `benchmark`, run by tests, and the table that it writes.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/tests/apps/support.h"

namespace nixie::test {

/// Pages, charts and summaries need it.
inline bool has_python() { return std::system("python3 -c '' 2>/dev/null") == 0; }

class BenchmarkProgram : public testing::Test {
 protected:
  /// Runs it with --json and gives the rows back by net.
  std::map<std::string, nlohmann::json> rows(const std::string& arguments) {
    const std::string file = (folder_ / "table.json").string();
    ran_ = run_program("benchmark " + arguments + " --backend cpu --overwrite --json " + file);
    EXPECT_EQ(ran_.code, 0) << ran_.output;
    table_ = nlohmann::json::parse(text_of(file));
    std::map<std::string, nlohmann::json> rows;
    for (const auto& row : table_["rows"]) rows[row["net"]] = row;
    return rows;
  }

  /// The configuration of a net that takes no time, `small` in tables.
  std::string small_net() {
    const std::string config = (folder_ / "small.yaml").string();
    std::ofstream(config) << "model: [{conv2d: {out: 8, kernel: 3}}, relu, flatten, {linear: {out: 10}}]\n"
                             "data: {generated: {height: 12, width: 12, train: 64, test: 8, batch: 8}}\n"
                             "optimizer: {adam: {}}\nepochs: 1\nbackend: cpu\n";
    return config;
  }

  TempFolder folder_;
  Ran ran_;
  nlohmann::json table_;
};

}  // namespace nixie::test
