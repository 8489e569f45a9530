// Options that several subcommands share, and what they select. Most subcommands need no more of CLI11, whose headers
// take as long to compile as all others.
#pragma once

#include <memory>

#include "nixie/apps/benchmark/checks/precision.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/benchmark/subjects/nets.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nixie::benchmark {

constexpr int kMost = 1 << 20;

struct Machine {
  std::string backend = "auto";
  int threads = 0;  ///< of the CPU, 0 = all
};

/// What most tables are made with; 0 or empty: a default.
struct Common {
  Machine machine = {};
  std::vector<std::string> precisions = {};
  int runs = 10;
  Files files = {};
};

/// Which nets; 0 or empty: a default.
struct NetChoice : Common {
  std::vector<std::string> nets = {}, assignments = {};
  std::filesystem::path config = {};
  bool nervana = false, bytes = false;
  int batch = 0;
};

CLI::App* add_command(CLI::App& app, const char* name, const char* doc);
/// A std::string, path or double.
template <class T>
CLI::Option& add_value(CLI::App& app, const char* flag, T& value, const char* doc);
/// An int or double from low to high.
template <class T>
void add_number(CLI::App& app, const char* flag, T& value, const char* doc, T low, T high);
/// A flag that cannot be given together with an option, if that is named.
void add_flag(CLI::App& app, const char* flag, bool& value, const char* doc, const char* excluded = nullptr);
/// A list separated by commas, of these names.
void add_names(CLI::App& app, const char* flag, std::vector<std::string>& values, const std::vector<std::string>& names,
               const char* doc);
void add_precisions(CLI::App& app, std::vector<std::string>& values,
                    const char* doc = "by default fp16,fp32 on a GPU, fp32 on a CPU");
void add_runs(CLI::App& app, int& runs, const char* doc = "timed measurements, 10 by default");
void add_batch(CLI::App& app, int& batch, const char* doc = "images; each net's own by default");
void add_machine(CLI::App& app, Machine& machine);
/// --json, then --csv and --plot if wanted.
void add_files(CLI::App& app, Files& files, bool csv = true, bool plot = true);
/// --set, for the configuration of an option.
void add_assignments(CLI::App& app, std::vector<std::string>& assignments, CLI::Option& config);
/// --net, or --config in its place.
void add_net_or_config(CLI::App& app, NetChoice& choice, const char* doc = "alexnet, overfeat and vgg_a by default");
/// These, and all else of NetChoice but the kinds of nets.
void add_net_options(CLI::App& app, NetChoice& choice, const char* nets = "alexnet, overfeat and vgg_a by default");
/// --peers, --python and --peer-seconds.
void add_peers(CLI::App& app, PeerOptions& peer,
               const char* doc = "the folder of the peers' programs, apps/peers by default");
/// The same, and --alone.
void add_peer(CLI::App& app, ContractionPeerOptions& peer);

std::vector<std::string> names_of(const std::vector<Net>& nets);

/// The backend of the options, which the report notes and prints.
std::shared_ptr<Backend> begin_report(Report& report, const Common& command);
/// The backend of the options, or the configuration's if there is one.
std::shared_ptr<Backend> open_backend(const NetChoice& choice);
/// Throws a usage Error for nets that this build cannot run.
std::vector<Net> wanted_nets(const NetChoice& choice);
std::vector<PrecisionTraits> wanted_precisions(const NetChoice& choice, const Backend& backend);
int batch_of(const NetChoice& choice, const Net& net, const Backend& backend);

bool is_cpu(const Backend& backend);
/// The named precisions, or the default ones.
std::vector<PrecisionTraits> precisions_of(std::vector<std::string> names, const Backend& backend,
                                           const std::vector<std::string>& on_gpu = {"fp16", "fp32"});

}  // namespace nixie::benchmark
