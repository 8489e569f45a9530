// One function per subcommand declares its options and gives what runs it.
#include "nixie/apps/benchmark/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>

#include "nixie/apps/benchmark/commands/arrays_command.h"
#include "nixie/apps/benchmark/commands/compare_command.h"
#include "nixie/apps/benchmark/commands/data_command.h"
#include "nixie/apps/benchmark/commands/gemm_command.h"
#include "nixie/apps/benchmark/commands/layers_command.h"
#include "nixie/apps/benchmark/commands/nets_command.h"
#include "nixie/apps/benchmark/commands/numerics_command.h"
#include "nixie/apps/benchmark/commands/scaling_command.h"
#include "nixie/apps/benchmark/commands/show_command.h"
#include "nixie/apps/benchmark/commands/steps.h"
#include "nixie/apps/benchmark/commands/sweep_command.h"
#include "nixie/apps/benchmark/commands/tune_command.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/program/signals.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/one_line.h"

namespace nixie::benchmark {
namespace {

constexpr int kMost = 1 << 20;

std::vector<std::string> names_of(const std::vector<Net>& nets) {
  std::vector<std::string> names;
  for (const Net& net : nets) names.push_back(net.name);
  return names;
}

/// A list separated by commas, of these names.
void add_names(CLI::App& app, const char* flag, std::vector<std::string>& values, const std::vector<std::string>& names,
               const char* doc) {
  app.add_option(flag, values, doc)->delimiter(',')->check(word_of(names));
}

template <class Command>
void add_machine(CLI::App& app, Command& command) {
  app.add_option("--backend", command.backend, "by default a GPU where there is one")
      ->check(word_of({"auto", "cpu", "cuda"}));
  app.add_option("--threads", command.threads, "of the CPU; all by default")->check(CLI::Range(1, 1024));
}

template <class Command>
void add_files(CLI::App& app, Command& command) {
  add_output(app, "--json", command.json, "a .json file that the table is written to as well", ".json");
  add_output(app, "--csv", command.csv, "the same as comma-separated values, .csv", ".csv");
  add_output(app, "--plot", command.plot, "the same as a chart, .svg", ".svg");
}

/// A configuration in place of --net, which the app must have already.
template <class Command>
void add_config(CLI::App& app, Command& command) {
  CLI::Option* config = app.add_option("--config", command.config, "the net and batch of a configuration")
                            ->excludes(app.get_option("--net"));
  app.add_option("--set", command.assignments, "key.path=value: changes the configuration; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->needs(config);
}

void add_steps(CLI::App& app, StepsCommand& command, std::function<void()>& chosen) {
  CLI::App* steps = app.add_subcommand("steps", "whole training steps of small nets, each in its own process");
  add_names(*steps, "--net", command.nets, names_of(step_nets()), "which nets, separated by commas; all by default");
  add_machine(*steps, command);
  steps->add_option("--batch", command.batch, "images of a step; each net's own by default")
      ->check(CLI::Range(1, kMost));
  steps->add_option("--runs", command.runs, "timed steps; by default as many as fill two seconds, 20 to 200")
      ->check(CLI::Range(1, kMost));
  steps->add_option("--rate", command.rate, "learning rate, 0.01 by default");
  add_output(*steps, "--json", command.json, "a .json file that the table is written to as well", ".json");
  steps->callback([&] { chosen = [&] { run_steps(command); }; });
}

void add_net_options(CLI::App& app, NetsCommand& command, const char* nets = "alexnet, overfeat and vgg_a by default") {
  add_names(app, "--net", command.nets, names_of(conv_nets(false)), nets);
  add_config(app, command);
  add_names(app, "--precision", command.precisions, precision_names(), "by default fp16,fp32 on a GPU, fp32 on a CPU");
  add_machine(app, command);
  app.add_option("--batch", command.batch, "images; each net's own by default")->check(CLI::Range(1, kMost));
  app.add_option("--runs", command.runs, "timed runs, 10 by default")->check(CLI::Range(1, kMost));
  add_files(app, command);
}

void add_nets(CLI::App& app, NetsCommand& command, std::function<void()>& chosen) {
  CLI::App* nets = app.add_subcommand("nets", "fprop, bprop and training step of convnet-benchmarks' nets, checked");
  add_net_options(*nets, command);
  nets->add_flag("--nervana", command.nervana,
                 "nervanagpu's variant: no biases, ReLU at the end, hidden layers of 3072")
      ->excludes(nets->get_option("--config"));
  nets->add_flag("--bytes", command.bytes, "images are stored as bytes and normalised where the net reads them");
  nets->callback([&] { chosen = [&] { run_nets(command); }; });
}

/// The peer beside single products and convolutions.
void add_peer(CLI::App& app, PeerOptions& peer) {
  app.add_option("--peers", peer.peers, "the folder of the peers' programs, apps/peers by default")
      ->each([&](const std::string&) { peer.wanted = true; });
  app.add_option("--python", peer.python, "what runs them, python3 by default");
  app.add_option("--peer-seconds", peer.seconds, "time limit of the peer for all rows")
      ->check(CLI::Range(1.0, 86400.0));
  app.add_flag_callback(
      "--alone", [&] { peer.wanted = false; }, "no peer; on a CPU there is none unless --peers is given");
}

void add_compare(CLI::App& app, CompareCommand& command, std::function<void()>& chosen) {
  CLI::App* compare = app.add_subcommand("compare", "the nets here and in PyTorch and JAX, in turn, with the ratios");
  add_net_options(*compare, command);
  compare->add_option("--peers", command.peers, "the folder of the peers' programs, apps/peers by default");
  compare->add_option("--python", command.python, "what runs them, python3 by default");
  add_names(*compare, "--engine", command.engines, {"eager", "graph", "compile", "max-autotune", "jit"},
            "the peers' ways to run a net; all but max-autotune by default");
  compare
      ->add_option("--peer-seconds", command.peer_seconds, "time limit of each peer for all its rows, 600 by default")
      ->check(CLI::Range(1.0, 86400.0));
  compare->callback([&] { chosen = [&] { run_compare(command); }; });
}

void add_arrays(CLI::App& app, ArraysCommand& command, std::function<void()>& chosen) {
  CLI::App* arrays = app.add_subcommand("arrays", "nervanagpu's array workloads, on a GPU beside the CPU");
  add_machine(*arrays, command);
  arrays->add_option("--runs", command.runs, "timed measurements, 10 by default")->check(CLI::Range(1, kMost));
  arrays
      ->add_option("--largest", command.largest, "elements of the largest array; 1e9 on a GPU, 1e7 on a CPU by default")
      ->check(CLI::Range(1000.0, 1e11));
  add_files(*arrays, command);
  arrays->callback([&] { chosen = [&] { run_arrays(command); }; });
}

void add_gemm(CLI::App& app, GemmCommand& command, std::function<void()>& chosen) {
  CLI::App* gemm = app.add_subcommand("gemm", "matrix products of many shapes and layouts, beside cuBLAS");
  add_machine(*gemm, command);
  add_names(*gemm, "--precision", command.precisions, precision_names(),
            "by default fp16,fp32 on a GPU, fp32 on a CPU");
  gemm->add_option("--size", command.size, "m,n,k; a grid of sizes by default")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::Range(1, kMost));
  gemm->add_option("--runs", command.runs, "timed measurements, 10 by default")->check(CLI::Range(1, kMost));
  add_peer(*gemm, command.peer);
  add_files(*gemm, command);
  gemm->callback([&] { chosen = [&] { run_gemm(command); }; });
}

void add_layers(CLI::App& app, LayersCommand& command, std::function<void()>& chosen) {
  CLI::App* layers =
      app.add_subcommand("layers", "every layer of a net alone, in each role, against the roofline and cuDNN");
  add_net_options(*layers, command, "alexnet by default");
  add_peer(*layers, command.peer);
  layers->callback([&] { chosen = [&] { run_layers(command); }; });
}

void add_sweep(CLI::App& app, SweepCommand& command, std::function<void()>& chosen) {
  CLI::App* sweep = app.add_subcommand("sweep", "random convolution layers in every role, checked, beside cuDNN");
  sweep->add_option("--count", command.count, "layers, by default 300 on a GPU and 40 on a CPU")
      ->check(CLI::Range(1, 100000));
  sweep->add_option("--seed", command.seed, "which layers, 1 by default");
  add_names(*sweep, "--kind", command.kinds, {"dense", "depthwise", "grouped"}, "only these kinds of the drawn layers");
  add_names(*sweep, "--precision", command.precisions, precision_names(), "by default fp16 on a GPU, fp32 on a CPU");
  add_machine(*sweep, command);
  sweep->add_option("--runs", command.runs, "timed measurements, 7 by default")->check(CLI::Range(1, kMost));
  add_peer(*sweep, command.peer);
  add_files(*sweep, command);
  sweep->callback([&] { chosen = [&] { run_sweep(command); }; });
}

void add_data(CLI::App& app, DataCommand& command, std::function<void()>& chosen) {
  CLI::App* data = app.add_subcommand("data", "images per second of the loader");
  CLI::Option* config = data->add_option("--config", command.config, "the data of a configuration; else drawn images");
  data->add_option("--set", command.assignments, "key.path=value: changes the configuration; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->needs(config);
  data->add_option("--threads", command.threads, "that decode; one per core by default")->check(CLI::Range(1, 1024));
  data->add_option("--seconds", command.seconds, "of each row, 1 by default")->check(CLI::Range(0.01, 3600.0));
  add_output(*data, "--json", command.json, "a .json file that the table is written to as well", ".json");
  add_output(*data, "--csv", command.csv, "the same as comma-separated values, .csv", ".csv");
  data->callback([&] { chosen = [&] { run_data(command); }; });
}

void add_numerics(CLI::App& app, NumericsCommand& command, std::function<void()>& chosen) {
  CLI::App* numerics =
      app.add_subcommand("numerics", "the error of products of f32 over distributions of operands, beside f64");
  add_names(*numerics, "--precision", command.precisions, {"ieee", "fp32", "tf32"},
            "by default all on a GPU, fp32 on a CPU");
  add_machine(*numerics, command);
  add_output(*numerics, "--json", command.json, "a .json file that the table is written to as well", ".json");
  add_output(*numerics, "--csv", command.csv, "the same as comma-separated values, .csv", ".csv");
  numerics->callback([&] { chosen = [&] { run_numerics(command); }; });
}

void add_scaling(CLI::App& app, ScalingCommand& command, std::function<void()>& chosen) {
  CLI::App* scaling = app.add_subcommand("scaling", "the cost of a net over its batch, depth and image size");
  add_names(*scaling, "--precision", command.precisions, precision_names(), "fp16 on a GPU, fp32 on a CPU by default");
  add_machine(*scaling, command);
  scaling->add_option("--runs", command.runs, "timed runs, 10 by default")->check(CLI::Range(1, kMost));
  add_files(*scaling, command);
  scaling->callback([&] { chosen = [&] { run_scaling(command); }; });
}

void add_tune(CLI::App& app, TuneCommand& command, std::function<void()>& chosen) {
  CLI::App* tune =
      app.add_subcommand("tune", "measures the fastest algorithm of each kernel of the nets, for later runs");
  add_names(*tune, "--net", command.nets, names_of(conv_nets(false)), "alexnet, overfeat and vgg_a by default");
  add_names(*tune, "--precision", command.precisions, precision_names(), "by default fp16,fp32");
  tune->add_option("--batch", command.batch, "images; each net's own by default")->check(CLI::Range(1, kMost));
  tune->add_option("--runs", command.runs, "timed runs, 10 by default")->check(CLI::Range(1, kMost));
  add_config(*tune, command);
  tune->callback([&] { chosen = [&] { run_tune(command); }; });
}

void add_show(CLI::App& app, ShowCommand& command, std::function<void()>& chosen) {
  CLI::App* show = app.add_subcommand("show", "a table that --json wrote, as Markdown and as a chart");
  show->add_option("file", command.file, "what --json wrote")->required();
  show->add_option("--page", command.page,
                   "a page; the table replaces what stands between its lines <!-- benchmark NAME --> and <!-- end -->");
  show->add_option("--name", command.name, "NAME, by default the command that made the table");
  show->add_flag("--brief", command.brief, "of compare the ratios alone");
  add_output(*show, "--plot", command.plot, "a file for the chart, .svg", ".svg");
  show->callback([&] { chosen = [&] { run_show(command); }; });
}

/// Everything once, in its default size: three minutes on two cores.
void add_all(CLI::App& app, std::function<void()>& chosen) {
  app.add_subcommand("all", "all of these once")->callback([&] {
    chosen = [] {
      const auto start = std::chrono::steady_clock::now();
      const std::function<void()> kTables[] = {[] { run_steps({}); },  // first: it forks, which no open backend survives
                                               [] { run_nets({}); },   [] { run_layers({}); }, [] { run_gemm({}); },
                                               [] { run_sweep({}); },  [] { run_arrays({}); }, [] { run_data({}); },
                                               [] { run_scaling({}); }};
      for (const auto& table : kTables)
        if (!stop_is_requested()) table();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      tell("\nall of it took {:.0f} s\n", took.count());
    };
  });
}

}  // namespace

int run_program(const std::string& program, std::vector<std::string> arguments) {
  StepsCommand steps;
  NetsCommand nets;
  CompareCommand compare;
  ArraysCommand arrays;
  GemmCommand gemm;
  LayersCommand layers;
  SweepCommand sweep;
  DataCommand data;
  NumericsCommand numerics;
  ScalingCommand scaling;
  TuneCommand tune;
  ShowCommand show;
  std::function<void()> chosen;
  CLI::App app("Times what nixie does and checks every result that it times.", program);
  app.footer("Options without a subcommand are those of `nets`; no arguments at all run `all`.");
  add_nets(app, nets, chosen);
  add_compare(app, compare, chosen);
  add_arrays(app, arrays, chosen);
  add_gemm(app, gemm, chosen);
  add_layers(app, layers, chosen);
  add_sweep(app, sweep, chosen);
  add_data(app, data, chosen);
  add_numerics(app, numerics, chosen);
  add_scaling(app, scaling, chosen);
  add_steps(app, steps, chosen);
  add_tune(app, tune, chosen);
  add_show(app, show, chosen);
  add_all(app, chosen);
  const bool asks_for_help = !arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help");
  if (arguments.empty())
    arguments = {"all"};
  else if (arguments[0].rfind('-', 0) == 0 && !asks_for_help)
    arguments.insert(arguments.begin(), "nets");
  return exit_code_of(
      Output::result,
      [&] {
        try {
          parse_arguments(app, arguments);
        } catch (const CLI::ParseError& error) {
          if (error.get_exit_code() == 0) return app.exit(error);
          fail(Fault::usage, error.what());
        }
        chosen();
        return stop_is_requested() ? kInterrupted : 0;
      },
      program + ": ");
}

}  // namespace nixie::benchmark
