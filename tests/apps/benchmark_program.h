// The program `benchmark`, run by tests, and the table that it writes.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/tests/apps/support.h"

namespace nixie::test {

/// Pages, charts and summaries need it.
inline bool has_python() { return std::system("python3 -c '' 2>/dev/null") == 0; }

/// Programs run in a folder of the test.
class BenchmarkProgram : public testing::Test {
 protected:
  Ran benchmark(const std::string& arguments, const std::string& before = "") const {
    return folder_.run("benchmark " + arguments, before);
  }
  /// Runs it with --json and gives the rows back by net.
  std::map<std::string, nlohmann::json> rows(const std::string& arguments) {
    ran_ = benchmark(arguments + " --backend cpu --overwrite --json table.json");
    EXPECT_EQ(ran_.code, 0) << ran_.output;
    table_ = nlohmann::json::parse(folder_.text("table.json"));
    std::map<std::string, nlohmann::json> rows;
    for (const auto& row : table_["rows"]) rows[row["net"]] = row;
    return rows;
  }

  /// Writes the configuration of a net that takes no time, `small` in tables.
  std::string small_net(const std::string& layers = "", const std::string& optimizer = "optimizer: {adam: {}}") {
    folder_.write("small.yaml", "model: [{conv2d: {out: 8, kernel: 3}}, relu, " + layers +
                                    "flatten, {linear: {out: 10}}]\n"
                                    "data: {generated: {height: 12, width: 12, train: 64, test: 8, batch: 8}}\n" +
                                    optimizer + "\nepochs: 1\nbackend: cpu\n");
    return "small.yaml";
  }

  Workplace folder_;
  Ran ran_;
  nlohmann::json table_;
};

}  // namespace nixie::test
