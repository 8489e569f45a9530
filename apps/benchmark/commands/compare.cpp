// `benchmark compare`: the nets in nixie and in other frameworks, in turn in one
// run, with the best peer of each row. Half of the own runs come before the peers',
// half after, so that neither side alone has the warmer or the cooler chip.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/measure/peer_process.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/net_times.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

struct Compare : NetChoice {
  PeerOptions peer = {};
  std::vector<std::string> engines = {};  ///< of the peers; empty: all but max-autotune, which compiles for minutes
};

using Peers = std::vector<std::unique_ptr<PeerProcess>>;
/// Each peer's answers to requests.
using Answers = std::map<std::pair<std::string, nlohmann::json>, nlohmann::json>;

/// The peers' name for it: their fp32 is multiply-adds of floats, too.
std::string peer_precision(const std::string& precision) { return precision == "ieee" ? "fp32" : precision; }

/// Started side by side, as that takes seconds.
Peers start_peers(const Compare& command, bool on_cpu) {
  Peers peers;
  for (const char* script : {"torch_nets.py", "jax_nets.py"})
    peers.push_back(PeerProcess::start(command.peer, script, on_cpu));
  for (const auto& peer : peers) {
    peer->wait_until_ready();
    peer->tell_program();
  }
  return peers;
}

bool is_wanted(const Compare& command, const std::string& engine) {
  if (command.engines.empty()) return engine.find("max-autotune") == std::string::npos;
  const std::string kind = engine.substr(0, engine.find(' '));  // `graph` of `graph nchw`
  return std::count(command.engines.begin(), command.engines.end(), kind) != 0;
}

/// Lets every peer that will be asked compile what can be compiled ahead, side by side.
void prepare_peers(const Compare& command, const std::vector<Net>& nets, const Peers& peers, const Backend& backend) {
  nlohmann::json requests = nlohmann::json::array();
  for (const PrecisionTraits& precision : wanted_precisions(command, backend))
    for (const Net& net : nets)
      requests.push_back(peer_request(net, peer_precision(precision.name), batch_of(command, net, backend)));
  std::vector<PeerProcess*> asked;
  for (const auto& peer : peers)
    for (const PrecisionTraits& precision : wanted_precisions(command, backend)) {
      const std::vector<std::string> engines = peer->engines(peer_precision(precision.name));
      const bool is_asked = std::any_of(engines.begin(), engines.end(),
                                        [&](const std::string& engine) { return is_wanted(command, engine); });
      if (is_asked && (asked.empty() || asked.back() != peer.get())) asked.push_back(peer.get());
    }
  for (PeerProcess* peer : asked) peer->send({{"prepare", requests}});
  for (PeerProcess* peer : asked) peer->receive();  // what fails fails again where it is timed
}

std::string text_of(const nlohmann::json& row) {
  if (row.contains("error"))
    return row_text({{"", -24, "peer", "  {}"}, {"", -1, "error"}, {"", 6, "seconds", "({:.0f} s)"}}, row);
  return row_text({{"", -24, "peer", "  {}"},
                   {"", 15, "fprop_ms", "fprop {:8.3f}"},
                   {"", 15, "total_ms", "total {:8.3f}"},
                   {"", 22, "train_ms", "training step {:8.3f} ms"},
                   {"", 6, "seconds", "({:.0f} s)"}},
                  row);
}

/// Adds the rows of all peers and engines for one net as `peers`, and those that there are not, with the reason, as
/// `left_out`. A peer times nothing twice.
void ask_all(const Compare& command, const Net& net, Peers& peers, Answers& answers, nlohmann::json& own) {
  own["peers"] = own["left_out"] = nlohmann::json::array();
  const std::string precision = peer_precision(own["precision"]);
  nlohmann::json request = peer_request(net, precision, own["batch"]);
  request["runs"] = command.runs;
  for (const auto& peer : peers) {
    if (!peer->works()) {
      own["left_out"].push_back({{"peer", peer->name()}, {"why", peer->program()}});
      continue;
    }
    for (const std::string& engine : peer->engines(precision)) {
      if (!is_wanted(command, engine)) continue;
      request["engine"] = engine;
      const auto [answer, is_new] = answers.try_emplace({peer->name(), request});
      if (is_new) answer->second = peer->ask(request);
      nlohmann::json row = answer->second;
      row["peer"] = peer->name() + " " + engine;
      tell("{}", text_of(row));
      std::fflush(stdout);
      if (row.contains("error"))
        own["left_out"].push_back({{"peer", row["peer"]}, {"why", row["error"]}});
      else
        own["peers"].push_back(std::move(row));
    }
  }
}

void print_ratios(const nlohmann::json& rows) {
  nlohmann::json ratios;
  for (const auto& row : rows)
    for (const auto& [metric, label] :
         {std::pair{"fprop_ms", "fprop"}, {"total_ms", "fprop+bprop"}, {"train_ms", "train step"}}) {
      if (!row["best_peer"].contains(metric)) continue;
      nlohmann::json& ratio = ratios.emplace_back(row["best_peer"][metric]);
      ratio.update({{"net", row["net"]}, {"precision", row["precision"]}, {"batch", row["batch"]}});
      ratio.update({{"of", label}, {"own", row[metric]["median"]}});
    }
  tell("\n{}ratio: the best peer's time over nixie's; above 1 nixie is faster\n",
       table_text({{"net", -12, "net"},
                   {"precision", -9, "precision"},
                   {"batch", 5, "batch"},
                   {"  median ms of", -15, "of", "  {}"},
                   {"nixie", 10, "own", "{:.3f}"},
                   {"best peer", 10, "median", "{:.3f}"},
                   {"  from", -24, "peer", "  {}"},
                   {"ratio", 6, "ratio", "{:.2f}x"}},
                  ratios));
}

/// The fastest peer by each metric, and how many times nixie's time it took.
nlohmann::json best_peers(const nlohmann::json& own, const nlohmann::json& peers) {
  nlohmann::json best = nlohmann::json::object();
  for (const char* metric : {"fprop_ms", "total_ms", "train_ms"})
    for (const auto& row : peers) {
      const double median = row[metric]["median"];
      if (best.contains(metric) && best[metric]["median"].get<double>() <= median) continue;
      best[metric] = {
          {"peer", row["peer"]}, {"median", median}, {"ratio", median / own[metric]["median"].get<double>()}};
    }
  return best;
}

/// The rows and columns that are missing, a line for each reason.
void print_left_out(const nlohmann::json& rows) {
  std::map<std::string, std::vector<std::string>> missing;
  for (const auto& row : rows)
    for (const auto& each : row["left_out"])
      missing[fmt::format("{}: {}", each["peer"].get<std::string>(), each["why"].get<std::string>())].push_back(
          fmt::format("{} {}", row["net"].get<std::string>(), row["precision"].get<std::string>()));
  for (const auto& [what, where] : missing) tell("left out: {} ({})\n", what, fmt::join(where, ", "));
}

nlohmann::json compare_net(const Compare& command, Backend& backend, const Net& net, const PrecisionTraits& precision,
                           double ceiling, Peers& peers, Answers& answers) {
  nlohmann::json others;
  const auto between = [&](const nlohmann::json& row) {
    tell("\n{}", nervana_text(row));
    others = row;
    ask_all(command, net, peers, answers, others);
  };
  nlohmann::json row =
      time_net(backend, net, batch_of(command, net, backend), precision, command.runs, ceiling, between);
  for (const char* key : {"peers", "left_out"}) row[key] = others[key];
  row["best_peer"] = best_peers(row, row["peers"]);
  return row;
}

/// A peer that is missing, fails or takes too long is named in its rows and skipped.
void run(const Compare& command) {
  Report report("compare", command.files);
  std::vector<Net> nets = wanted_nets(command);
  for (Net& net : nets) net.loss = CrossEntropy{}, net.training = common_training();  // a configuration's is its own
  const std::shared_ptr<Backend> backend = open_backend(command);
  const std::vector<PrecisionTraits> precisions = wanted_precisions(command, *backend);
  report.begin(*backend, command.machine.threads);
  Peers peers = start_peers(command, is_cpu(*backend));
  prepare_peers(command, nets, peers, *backend);
  for (const auto& peer : peers)
    if (peer->works()) report.set("program_" + peer->name(), peer->program());
  Answers answers;
  RowByRow each;
  for (const PrecisionTraits& precision : precisions) {
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    for (const Net& net : nets)
      each.make([&] {
        report.add_row(compare_net(command, *backend, net, precision, ceiling, peers, answers));
        report.complete();
      });
  }
  const nlohmann::json& rows = report.rows();
  tell("\n{}", table_text(kNetColumns, rows));
  if (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return !row["peers"].empty(); }))
    print_ratios(rows);
  else
    tell("\nno peer ran here: install PyTorch or JAX for {} to compare\n", command.peer.python);
  print_left_out(rows);
  report.complete();
  each.raise();
}

}  // namespace

Subcommand add_compare(CLI::App& app) {
  const auto command = std::make_shared<Compare>();
  CLI::App* compare = add_command(app, "compare", "the nets here and in PyTorch and JAX, in turn, with the ratios");
  add_net_options(*compare, *command);
  add_peers(*compare, command->peer);
  add_names(*compare, "--engine", command->engines, {"eager", "graph", "compile", "max-autotune", "jit"},
            "the peers' ways to run a net; all but max-autotune by default");
  return {compare, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
