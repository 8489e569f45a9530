// A run that several ranks share, what it ended with, and mpirun; tests are skipped where Open MPI is missing.
#pragma once

#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie::test {

// 60 steps; the last batch of an evaluation is 2 samples of 12: some ranks have none of it.
inline const std::string kNet = R"(
model: [flatten, {linear: {out: 16}}, relu, {dropout: {rate: 0.3}}, {linear: {out: 10}}]
data: {glyphs: {train: 240, test: 50, batch: 12}}
optimizer: {sgd: {momentum: 0.9}}
schedule: {constant: {rate: 0.05}}
clip_norm: 1
ema: 0.9
epochs: 3
seed: 7
backend: cpu
threads: 1
log_every: 5
)";

inline Checkpoint last_of(const fs::path& run) { return load_checkpoint(run / "last.h5", {}); }

/// The largest difference of the weights, and of their averages, of two runs.
inline double difference_of(const fs::path& a, const fs::path& b) {
  double most = 0;
  const Checkpoint x = last_of(a), y = last_of(b);
  for (const auto& [arrays, others] : {std::pair(&x.model, &y.model), std::pair(&x.ema, &y.ema)})
    for (const auto& [name, array] : *arrays) {
      const auto p = array.to_vector<double>(), q = others->at(name).to_vector<double>();
      for (std::size_t i = 0; i < p.size(); ++i) most = std::max(most, std::abs(p[i] - q[i]));
    }
  return most;
}

class Ranks : public testing::Test {
 protected:
  Ranks() { std::ofstream(folder_ / "net.yaml") << kNet; }
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "mpirun is missing: apt install openmpi-bin";
  }

  static std::string mpirun(int ranks, int seconds = 60) {
    return fmt::format(
        "env OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 timeout -k 5 {} mpirun "
        "--allow-run-as-root --oversubscribe --bind-to none -np {} ",
        seconds, ranks);
  }
  /// Runs `trainer --config net.yaml --run NAME ARGUMENTS` on so many ranks; 0: without mpirun.
  Ran train(int ranks, const std::string& name, const std::string& arguments = "") const {
    const Ran ran = run_program(fmt::format("trainer --config {} --run {} {}", path("net.yaml"), path(name), arguments),
                                ranks ? mpirun(ranks) : "");
    return ran;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Checkpoint last(const std::string& name) const { return last_of(folder_ / name); }

  double difference(const std::string& a, const std::string& b) const {
    return difference_of(folder_ / a, folder_ / b);
  }
  TempFolder folder_;
};

}  // namespace nixie::test
