// Declares each option once.
#include "nixie/apps/benchmark/commands/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/backends/registry.h"
#include "nixie/configs/parse/config.h"

namespace nixie::benchmark {

CLI::App* add_command(CLI::App& app, const char* name, const char* doc) { return app.add_subcommand(name, doc); }

template <class T>
CLI::Option& add_value(CLI::App& app, const char* flag, T& value, const char* doc) {
  return *app.add_option(flag, value, doc);
}
template CLI::Option& add_value(CLI::App&, const char*, std::string&, const char*);
template CLI::Option& add_value(CLI::App&, const char*, std::filesystem::path&, const char*);
template CLI::Option& add_value(CLI::App&, const char*, double&, const char*);

template <class T>
void add_number(CLI::App& app, const char* flag, T& value, const char* doc, T low, T high) {
  app.add_option(flag, value, doc)->check(CLI::Range(low, high));
}
template void add_number(CLI::App&, const char*, int&, const char*, int, int);
template void add_number(CLI::App&, const char*, double&, const char*, double, double);

void add_flag(CLI::App& app, const char* flag, bool& value, const char* doc, const char* excluded) {
  CLI::Option* option = app.add_flag(flag, value, doc);
  if (excluded) option->excludes(app.get_option(excluded));
}

void add_names(CLI::App& app, const char* flag, std::vector<std::string>& values, const std::vector<std::string>& names,
               const char* doc) {
  app.add_option(flag, values, doc)->delimiter(',')->check(word_of(names));
}

void add_precisions(CLI::App& app, std::vector<std::string>& values, const char* doc) {
  add_names(app, "--precision", values, precision_names(), doc);
}

void add_runs(CLI::App& app, int& runs, const char* doc) { add_number(app, "--runs", runs, doc, 1, kMost); }

void add_machine(CLI::App& app, Machine& machine) {
  app.add_option("--backend", machine.backend, "by default a GPU where there is one")
      ->check(word_of({"auto", "cpu", "cuda"}));
  add_number(app, "--threads", machine.threads, "of the CPU; all by default", 1, 1024);
}

void add_files(CLI::App& app, Files& files, bool csv, bool plot) {
  add_output(app, "--json", files.json, "a .json file that the table is written to as well", ".json");
  if (csv) add_output(app, "--csv", files.csv, "the same as comma-separated values, .csv", ".csv");
  if (plot) add_output(app, "--plot", files.plot, "the same as a chart, .svg, by python3", ".svg");
}

void add_batch(CLI::App& app, int& batch, const char* doc) { add_number(app, "--batch", batch, doc, 1, kMost); }

void add_assignments(CLI::App& app, std::vector<std::string>& assignments, CLI::Option& config) {
  nixie::add_assignments(app, assignments)->needs(&config);
}

void add_net_or_config(CLI::App& app, NetChoice& choice, const char* doc) {
  add_names(app, "--net", choice.nets, names_of(conv_nets(false)), doc);
  CLI::Option* config = app.add_option("--config", choice.config, "the net and batch of a configuration");
  add_assignments(app, choice.assignments, *config->excludes(app.get_option("--net")));
}

void add_net_options(CLI::App& app, NetChoice& choice, const char* nets) {
  add_net_or_config(app, choice, nets);
  add_precisions(app, choice.precisions);
  add_machine(app, choice.machine);
  add_batch(app, choice.batch);
  add_runs(app, choice.runs, "timed runs, 10 by default");
  add_files(app, choice.files);
}

void add_peers(CLI::App& app, PeerOptions& peer, const char* doc) {
  add_value(app, "--peers", peer.peers, doc);
  add_value(app, "--python", peer.python, "what runs them, python3 by default");
  add_number(app, "--peer-seconds", peer.seconds,
             fmt::format("time limit of each peer for all its rows, {:g} by default", peer.seconds).c_str(), 1.0,
             86400.0);
}

void add_peer(CLI::App& app, ContractionPeerOptions& peer) {
  add_peers(app, peer);
  app.get_option("--peers")->each([&](const std::string&) { peer.wanted = true; });
  app.add_flag_callback(
      "--alone", [&] { peer.wanted = false; }, "no peer; on a CPU there is none unless --peers is given");
}

std::vector<std::string> names_of(const std::vector<Net>& nets) {
  std::vector<std::string> names;
  for (const Net& net : nets) names.push_back(net.name);
  return names;
}

std::shared_ptr<Backend> begin_report(Report& report, const Common& command) {
  const auto& [name, threads] = command.machine;
  std::shared_ptr<Backend> backend = make_backend(name, threads);
  report.begin(*backend, threads);
  return backend;
}

std::shared_ptr<Backend> open_backend(const NetChoice& choice) {
  const auto& [backend, threads] = choice.machine;
  if (choice.config.empty() || backend != "auto") return make_backend(backend, threads);
  const TrainConfig config = load_config(choice.config, choice.assignments);
  return make_backend(config.backend, threads > 0 ? threads : config.threads);
}

std::vector<Net> wanted_nets(const NetChoice& choice) {
  const auto stored = [&](Net net) {
    if (choice.bytes) net.bytes = true, net.name += " of bytes";
    return net;
  };
  if (!choice.config.empty())
    return {stored(config_net(load_config(choice.config, choice.assignments), choice.config.stem()))};
  const std::vector<std::string> names =
      choice.nets.empty() ? std::vector<std::string>{"alexnet", "overfeat", "vgg_a"} : choice.nets;
  std::vector<Net> nets;
  for (const Net& net : conv_nets(choice.nervana))
    if (std::count(names.begin(), names.end(), net.name)) nets.push_back(stored(net));
  if (nets.size() < names.size() && choice.nervana)
    fail(Fault::usage, "--nervana has variants of alexnet, overfeat, vgg_a, vgg_e and googlenet only; leave out the ",
         "other nets");
  return nets;
}

std::vector<PrecisionTraits> wanted_precisions(const NetChoice& choice, const Backend& backend) {
  std::vector<std::string> names = choice.precisions;
  if (names.empty() && !choice.config.empty()) names = {load_config(choice.config, choice.assignments).precision};
  return precisions_of(names, backend);
}

int batch_of(const NetChoice& choice, const Net& net, const Backend& backend) {
  return choice.batch > 0 ? choice.batch : is_cpu(backend) ? net.cpu_batch : net.batch;
}

bool is_cpu(const Backend& backend) { return backend.name() == "cpu"; }

std::vector<PrecisionTraits> precisions_of(std::vector<std::string> names, const Backend& backend,
                                           const std::vector<std::string>& on_gpu) {
  if (names.empty()) names = is_cpu(backend) ? std::vector<std::string>{"fp32"} : on_gpu;
  std::vector<PrecisionTraits> precisions;
  for (const std::string& name : names) precisions.push_back(precision_named(name));
  return precisions;
}

}  // namespace nixie::benchmark
