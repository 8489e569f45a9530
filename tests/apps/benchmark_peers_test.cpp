// The benchmark beside other frameworks' programs: their requests and answers, what they may not do, and their end.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "nixie/apps/benchmark/measure/peer_process.h"
#include "nixie/tests/apps/benchmark_program.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

TEST_F(BenchmarkProgram, ComparesWithThePeersThatRun) {
  // A peer that is always a million times slower in one way and fails in another, and one that cannot start.
  std::ofstream(folder_ / "torch_nets.py") << R"(
echo '{"program": "Torch of the test", "engines": {"fp32": ["eager", "graph", "max-autotune"]}}'
read -r prepare
echo '{}'
while read -r request; do
  case $request in
    *graph*) echo '{"error": "no graphs here"}' ;;
    *) echo '{"fprop_ms": {"median": 1e6}, "total_ms": {"median": 3e6}, "train_ms": {"median": 4e6}}' ;;
  esac
done)";
  std::ofstream(folder_ / "jax_nets.py") << "echo 'No module named jax' >&2\nexit 1\n";
  const auto table = rows("compare --net alexnet --batch 1 --runs 1 --python sh --peers .");
  ASSERT_EQ(table.size(), 1u);
  const nlohmann::json& row = table.at("alexnet");
  EXPECT_EQ(row["fprop_ms"]["runs"], 2) << "half before the peers, half after";
  ASSERT_EQ(row["peers"].size(), 1u) << "max-autotune runs when asked for, graph failed";
  EXPECT_EQ(row["peers"][0]["peer"], "torch eager");
  const double own = row["total_ms"]["median"];
  EXPECT_NEAR(row["best_peer"]["total_ms"]["ratio"].get<double>() * own, 3e6, 1);
  EXPECT_THAT(ran_.output, HasParts("torch: Torch of the test", "jax: left out: No module named jax",
                                    "left out: torch graph: no graphs here (alexnet fp32)"));
  EXPECT_EQ(row["left_out"].size(), 2u) << "graph, and jax";
  EXPECT_THAT(ran_.output, ContainsRegex("alexnet +fp32 +1 +fprop.bprop +[0-9.]+ 3000000.000 +torch eager +[0-9.]+x"));
  expect_ran(benchmark("compare --backend cpu --peers /no/such/folder"), 2,
             "torch_nets.py is not there; name its folder with --peers");
}

TEST_F(BenchmarkProgram, APeerMayTakeSoMuchTimeAndNoMore) {
  std::ofstream(folder_ / "torch_nets.py") << R"(
echo '{"program": "Torch of the test", "engines": {"fp32": ["eager", "graph"]}}'
read -r prepare
echo '{}'
read -r request
sleep 1000)";
  std::ofstream(folder_ / "jax_nets.py") << "sleep 1000\n";
  const auto table = rows("compare --config " + small_net() + " --runs 1 --python sh --peer-seconds 1 --peers .");
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.at("small")["peers"].size(), 0u);
  EXPECT_GT(table.at("small")["total_ms"]["median"], 0);
  for (const char* peer : {"jax", "torch eager", "torch graph"})
    EXPECT_THAT(ran_.output, HasSubstr("left out: " + std::string(peer) + ": its 1 s are spent (small fp32)"));
}

TEST_F(BenchmarkProgram, StrictF32StandsBesideThePeersFp32TimedOnce) {
  // Ends after one answer.
  std::ofstream(folder_ / "torch_nets.py") << R"(
echo '{"program": "Torch of the test", "engines": {"fp32": ["eager"]}}'
read -r prepare
echo '{}'
read -r request
echo '{"fprop_ms": {"median": 1e6}, "total_ms": {"median": 3e6}, "train_ms": {"median": 4e6}}')";
  std::ofstream(folder_ / "jax_nets.py") << "exit 1\n";
  rows("compare --config " + small_net() + " --runs 1 --precision fp32,ieee --python sh --peers .");
  ASSERT_EQ(table_["rows"].size(), 2u);
  EXPECT_EQ(table_["rows"][1]["precision"], "ieee");
  for (const auto& row : table_["rows"]) EXPECT_EQ(row["best_peer"]["total_ms"]["median"], 3e6) << row;
}

TEST_F(BenchmarkProgram, ProductsStandBesideThePeers) {
  // Answers with the time it was asked for, and the value 0.
  std::ofstream(folder_ / "torch_contractions.py") << R"(
echo '{"program": "cuBLAS of the test", "engines": {}}'
while read -r request; do
  case $request in
    *'"transposed":true'*) echo '{"error": "not transposed"}' ;;
    *'"beta":0.5'*'"c":{'*|*'"beta":0.0'*)
       echo '{"ms": {"mean": 1e6, "median": 1e6, "min": 1e6, "max": 1e6, "runs": 1}, "values": [0]}' ;;
  esac
done)";
  const Ran ran = benchmark("gemm --size 1,1,1 --runs 1 --backend cpu --python sh --peers . --json table.json");
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto rows = nlohmann::json::parse(folder_.text("table.json"))["rows"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["peer"]["ms"]["median"], 1e6);
  EXPECT_EQ(rows[0]["peer"]["error"], 1) << "the peer is held against the reference too";
  EXPECT_EQ(rows[1]["peer"]["left_out"], "not transposed");
  EXPECT_EQ(rows[3]["peer"]["ms"]["median"], 1e6) << "with the matrix that is added";
  expect_ran(benchmark("gemm --size 1,1,1 --runs 1 --backend cpu --alone"), 0, "peer: not asked for");
}

TEST_F(BenchmarkProgram, AConfigurationsNetGoesToThePeerAndItsLayersAlone) {
  std::ofstream(folder_ / "torch_nets.py") << R"(
echo '{"program": "Torch of the test", "engines": {"fp32": ["eager"]}}'
read -r prepare
echo '{}'
read -r request
echo "$request" > asked
echo '{"fprop_ms": {"median": 1e6}, "total_ms": {"median": 3e6}, "train_ms": {"median": 4e6}}')";
  std::ofstream(folder_ / "jax_nets.py") << "exit 1\n";
  const auto table = rows("compare --config " + small_net() + " --runs 1 --python sh --peers .");
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.at("small")["best_peer"]["train_ms"]["median"], 4e6);
  const auto request = nlohmann::json::parse(folder_.text("asked"));
  EXPECT_EQ(request["layers"][0]["conv2d"]["out"], 8);
  EXPECT_EQ(request["parameters"], 3 * 9 * 8 + 8 + 800 * 10 + 10);
  EXPECT_EQ(request["batch"], 8);
  rows("layers --config small.yaml --runs 1");
  EXPECT_EQ(table_["rows"].size(), 5u) << "three roles of two layers, but one";
}

/// The letter that Linux gives a process's state, Z for one that ended; 0 where there is none of that number.
char state_of(const std::string& process) {
  std::string word, state;
  std::ifstream("/proc/" + process + "/stat") >> word >> word >> state;
  return state.empty() ? 0 : state[0];
}

TEST_F(BenchmarkProgram, PeersEndWithIt) {
  const auto file = folder_.path() / "process", script = folder_.path() / "torch_contractions.py";
  std::ofstream(script) << "echo $$ > " << file.string() << "; exec sleep 60";
  const pid_t asking = fork();
  if (asking == 0) {
    benchmark::PeerProcess peer("sh", script, true, 60);
    peer.wait_until_ready();
    _exit(0);
  }
  const auto wait_for = [](const auto& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  std::string peer;
  wait_for([&] { return static_cast<bool>(std::ifstream(file) >> peer); });
  EXPECT_THAT(state_of(peer), testing::AnyOf('R', 'S', 'D'))
      << "process " << peer;  // it writes its number, then sleeps
  kill(asking, SIGINT);       // as from a keyboard, whose signals the peer's own group does not get
  int status = 0;
  EXPECT_EQ(waitpid(asking, &status, 0), asking);
  EXPECT_TRUE(WIFSIGNALED(status));
  wait_for([&] { return state_of(peer) == 0 || state_of(peer) == 'Z'; });
  EXPECT_THAT(state_of(peer), testing::AnyOf(0, 'Z'));
}

}  // namespace
}  // namespace nixie
