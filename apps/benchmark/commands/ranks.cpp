// `mpirun -np N benchmark ranks`: training steps of nets on N ranks beside those of each rank by itself.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/measure/peer_process.h"
#include "nixie/apps/benchmark/subjects/net_work.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"

namespace nixie::benchmark {
namespace {

struct RanksChoice : NetChoice {
  PeerOptions peer = {.peers = {}};  ///< without a folder nobody is asked
};

const Columns kNets{{"net", -12, "net"},
                    {"precision", -9, "precision"},
                    {"ranks", 5, "ranks"},
                    {"batch of each", 13, "batch"},
                    {"gradients MB", 12, "gradient_mb", "{:.1f}"},
                    {"alone ms", 10, "alone_ms", "{:.3f}"},
                    {"together ms", 11, "together_ms", "{:.3f}"},
                    {"% of linear", 11, "percent", "{:.1f}"},
                    {"exchange ms", 11, "exchange_ms", "{:.3f}"},
                    {"% hidden", 8, "hidden", "{:.0f}"},
                    {"DDP alone", 10, "ddp.alone_ms", "{:.3f}"},
                    {"together", 9, "ddp.together_ms", "{:.3f}"},
                    {"%", 5, "ddp.percent", "{:.1f}"}};
const Columns kSums{
    {"sum of MB", 10, "mb", "{:.3f}"}, {"ms", 10, "ms", "{:.4f}"}, {"GB/s", 8, "gb_per_second", "{:.1f}"}};

constexpr int kWarm = 4;  // the first runs compile, and record the graph

/// Milliseconds of a run, of each of a few blocks of as many runs: all ranks make the same number.
Timing time_together(Backend& backend, int runs, const std::function<void()>& work) {
  constexpr int kBlocks = 5;
  for (int i = 0; i < kWarm; ++i) work();
  std::vector<double> times;
  for (int block = 0; block < kBlocks; ++block) {
    backend.synchronize();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) work();
    backend.synchronize();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count() / runs);
  }
  return summarize(times);
}

/// The rate is nccl-tests' bus bandwidth: what each rank sends and receives of a sum by a ring.
nlohmann::json time_sum(Backend& backend, const World& world, std::int64_t bytes, int runs) {
  Step step(backend, [&](const Inputs& in) -> Outputs { return {{"sum", all_reduce(world, in["x"])}}; });
  const Tensor x = evaluate(zeros({bytes / 4}), backend);
  const Timing timing = time_together(backend, runs, [&] { step({{"x", x}}); });
  const double sent = 2.0 * static_cast<double>(bytes) * (world.size() - 1) / world.size();
  return {{"mb", static_cast<double>(bytes) / 1e6}, {"ms", timing}, {"gb_per_second", sent / timing.median / 1e6}};
}

/// What a net does on ranks: its times, and what its steps end with.
struct Trained {
  Timing timing = {}, exchange = {};  ///< of a step; of its sums over ranks by themselves
  double loss = 0;                    ///< of the first runs' last
  std::uint64_t weights = 0;
  std::int64_t bytes = 0;
};

/// Every rank has the same samples here, so that the mean of all gradients is each one's, and all end with one model.
void check_together(const World& world, const Net& net, const Trained& alone, const Trained& together) {
  constexpr double kRounding = 0.02;
  std::vector<std::uint64_t> weights(static_cast<std::size_t>(world.size()));
  world.communicator()->all_gather(&together.weights, weights.data(), sizeof together.weights);
  const bool are_equal = std::ranges::all_of(weights, [&](std::uint64_t each) { return each == weights[0]; });
  if (!are_equal) fail(Fault::non_finite, "ranks: ", net.name, ": the ranks' weights differ after the same steps");
  if (!(std::abs(together.loss - alone.loss) <= kRounding * (1 + std::abs(alone.loss))))
    fail(Fault::non_finite, "ranks: ", net.name, ": after ", kWarm, " steps the loss is ", together.loss, ", but ",
         alone.loss, " on one rank with the same samples");
}

nlohmann::json time_net(Backend& backend, const World& world, const Net& net, int batch,
                        const PrecisionTraits& precision, int runs) {
  const auto train = [&](const World& ranks) {
    NetWork work(backend, net, batch, precision, Fusion::full, ranks);
    Trained trained{.bytes = work.exchanged_bytes()};
    for (int i = 0; i < kWarm; ++i) trained.loss = work.train().at("loss").array().item();
    trained.timing = time_together(backend, runs, [&] { work.train(); });
    trained.weights = work.fingerprint();
    if (!ranks.is_alone()) trained.exchange = time_together(backend, runs, [&] { work.exchange(); });
    return trained;
  };
  const Trained alone = train({}), together = train(world);
  check_together(world, net, alone, together);
  const double exposed = together.timing.median - alone.timing.median;
  return {{"net", net.name},
          {"precision", precision.name},
          {"ranks", world.size()},
          {"batch", batch},
          {"gradient_mb", static_cast<double>(together.bytes) * 1e-6},
          {"alone_ms", alone.timing},
          {"together_ms", together.timing},
          {"percent", 100 * alone.timing.median / together.timing.median},
          {"exchange_ms", together.exchange},
          {"hidden", 100 * (1 - exposed / together.exchange.median)},
          {"loss", together.loss}};
}

/// PyTorch's DDP on as many GPUs, which it starts itself; the other ranks wait meanwhile.
std::unique_ptr<PeerProcess> start_ddp(const RanksChoice& choice, const World& world, bool on_cpu) {
  if (choice.peer.peers.empty() || !world.is_first()) return nullptr;
  check(world.ranks_on_host() == world.size(), "ranks: --peers needs all ranks on one machine; leave it out");
  std::unique_ptr<PeerProcess> peer = PeerProcess::start(choice.peer, "torch_ddp.py", on_cpu);
  peer->wait_until_ready();
  peer->tell_program();
  return peer;
}

void ask_ddp(const std::unique_ptr<PeerProcess>& peer, const World& world, const Net& net, int runs,
             nlohmann::json& row) {
  if (peer && peer->works()) {
    nlohmann::json request = peer_request(net, row["precision"], row["batch"]);
    request["runs"] = runs, request["ranks"] = world.size();
    nlohmann::json answer = peer->ask(request);
    if (answer.contains("error"))
      tell("  DDP: {}\n", answer["error"].get<std::string>());
    else
      answer["percent"] =
          100 * answer["alone_ms"]["median"].get<double>() / answer["together_ms"]["median"].get<double>();
    row["ddp"] = std::move(answer);
  }
  world.any(0);
}

void run(const RanksChoice& choice) {
  const World& world = launched_world();
  check(!world.is_alone(), "ranks: this is one process; start several: mpirun -np 2 benchmark ranks");
  const std::shared_ptr<Backend> backend = make_backend(choice.machine.backend, choice.machine.threads, world);
  const std::vector<Net> nets = wanted_nets(choice);
  const std::vector<PrecisionTraits> precisions = wanted_precisions(choice, *backend);
  const std::unique_ptr<PeerProcess> ddp = start_ddp(choice, world, is_cpu(*backend));
  const auto each_row = [&](const auto& take) {
    for (std::int64_t bytes = 1 << 10; bytes <= (is_cpu(*backend) ? 1 << 24 : 1 << 29); bytes *= 8)
      take(kSums, time_sum(*backend, world, bytes, choice.runs));
    for (const PrecisionTraits& precision : precisions)
      for (const Net& net : nets) {
        nlohmann::json row = time_net(*backend, world, net, batch_of(choice, net, *backend), precision, choice.runs);
        ask_ddp(ddp, world, net, choice.runs, row);
        take(kNets, row);
      }
  };
  if (!world.is_first()) return each_row([](const Columns&, const nlohmann::json&) {});
  Report report("ranks", choice.files);
  report.begin(*backend, own_threads(choice.machine.threads, world));
  const Columns* shown = nullptr;
  each_row([&](const Columns& columns, const nlohmann::json& row) {
    if (std::exchange(shown, &columns) != &columns) report.print_header(columns);
    report.add_row(row);
  });
  report.complete();
}

}  // namespace

Subcommand add_ranks(CLI::App& app) {
  const auto choice = std::make_shared<RanksChoice>();
  CLI::App* ranks = add_command(app, "ranks", "under mpirun: sums and training steps on several ranks");
  add_net_options(*ranks, *choice);
  add_peers(*ranks, choice->peer, "a folder with torch_ddp.py, such as apps/peers: PyTorch's DDP beside");
  return {ranks, [choice] { run(*choice); }};
}

}  // namespace nixie::benchmark
