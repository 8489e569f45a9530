// One function per command declares its options and gives what runs it.
#include "nixie/apps/trainer/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/configs/parse/neon.h"

namespace nixie {
namespace {

using Run = std::function<int()>;

// The words that may be a command's first argument.
const std::vector<std::string> kCheckpointActions = {"inspect", "config", "verify", "diff", "convert"},
                               kDataActions = {"inspect", "show", "split", "verify", "pack"};

void add_checkpoint(CLI::App& app, CheckpointChoice& choice) {
  app.add_option("--checkpoint", choice.file, "the model; by default that of the run saved last in runs/");
  app.add_option("--run", choice.run, "a run folder, whose best checkpoint is taken");
}

Run add_eval(CLI::App& app, EvalCommand& command) {
  add_checkpoint(app, command.checkpoint);
  app.add_option("--data", command.data, "folder of the data; by default the run's");
  app.add_option("--split", command.split, "which half, or all of the data")
      ->check(word_of({"test", "train", "all"}))
      ->capture_default_str();
  app.add_flag("--confusion", command.confusion, "also print how often samples of each class are taken for each");
  app.add_flag("--csv", command.csv, "a table of the samples: file,truth,guess,score; the result goes to stderr");
  add_assignments(app, command.assignments);
  return [&] { return run_eval(command), 0; };
}

Run add_predict(CLI::App& app, PredictCommand& command) {
  app.add_option("PICTURES", command.pictures,
                 "JPEG, PNG or WebP files, folders of them, .npz or .h5 files of arrays, and .csv tables of numbers")
      ->required();
  add_checkpoint(app, command.checkpoint);
  app.add_option("--topk", command.top, "classes shown for each")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_flag("--csv", command.csv, "a table: file,rank,class,score");
  app.add_option("--masks", command.masks, "segmentation: a folder for a PNG file of each picture's classes");
  const CLI::Option* overwrite = add_overwrite(app);
  add_assignments(app, command.assignments);
  return [&, overwrite] {
    command.overwrite = overwrite->count() > 0;
    return run_predict(command) ? 0 : static_cast<int>(Fault::data);
  };
}

Run add_export(CLI::App& app, ExportCommand& command) {
  add_output(app, "OUT", command.out,
             "the file; .onnx, .safetensors, or .h5: a checkpoint for predictions, without what only training needs")
      ->required();
  app.add_flag("--fold", command.fold, "ONNX: batch norm goes into the convolution in front of it");
  add_checkpoint(app, command.checkpoint);
  app.add_option("--config", command.config,
                 "in place of a checkpoint: a configuration and the weights of its init_from");
  app.add_option("--data", command.data, "with --config: folder of the data, which names the classes");
  add_assignments(app, command.assignments);
  return [&] { return run_export(command), 0; };
}

struct ConfigChoice {
  std::string config, data;
  bool is_printed = true;  // by --print, which other programs ask for
  std::vector<std::string> assignments = {};

  TrainConfig load() const { return load_config(config, with_data(config, data, assignments)); }
};

/// A command for a configuration.
template <class Command>
struct OfConfig {
  ConfigChoice choice = {};
  Command command = {};
};

void add_config(CLI::App& app, ConfigChoice& choice) {
  app.add_option("--config", choice.config, "the YAML file")->required();
  app.add_option("--data", choice.data, "folder of the data, in place of the file's");
  add_assignments(app, choice.assignments);
}

Run add_summary(CLI::App& app, ConfigChoice& choice) {
  add_config(app, choice);
  return [&] { return run_summary(choice.load()), 0; };
}

Run add_profile(CLI::App& app, OfConfig<ProfileCommand>& request) {
  add_config(app, request.choice);
  app.add_option("--steps", request.command.steps, "training steps that are timed")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  add_output(app, "--trace", request.command.trace,
             "writes the kernels and layers to this .json file in Chrome's trace format", ".json");
  return [&] { return run_profile(request.choice.load(), request.command), 0; };
}

Run add_find_rate(CLI::App& app, OfConfig<FindRateCommand>& request) {
  add_config(app, request.choice);
  RateRange& range = request.command.range;
  app.add_option("--from", range.low, "rate of the first step")->capture_default_str();
  app.add_option("--to", range.high, "rate of the last step")->capture_default_str();
  app.add_option("--steps", range.steps, "training steps; fewer are done where the loss rises far")
      ->check(CLI::Range(20, 1000000))
      ->capture_default_str();
  add_output(app, "--html", request.command.html, "writes the chart to this .html file", ".html");
  return [&] { return run_find_rate(request.choice.load(), request.command), 0; };
}

Run add_study(CLI::App& app, OfConfig<StudyCommand>& request) {
  StudyCommand& command = request.command;
  app.add_option("SUBJECT", command.subject, "formats: the errors that other number formats would make in its products")
      ->required()
      ->check(word_of({"formats"}));
  add_config(app, request.choice);
  app.add_option("--steps", command.steps, "training steps that are measured")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--formats", command.statistics.shadow, "up to eight formats (docs/numerics.md)")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--scale", command.statistics.scale, "which numbers share a scale: none, tensor, channel or block")
      ->capture_default_str();
  app.add_option("--block", command.statistics.block, "numbers of a block")->capture_default_str();
  app.add_option("--threshold", command.threshold, "largest error of a format that is chosen, in squares over squares")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  add_output(app, "--out", command.out, "writes the configuration with the chosen formats to this .yaml file", ".yaml");
  add_output(app, "--html", command.html, "writes the errors as a heat map to this .html file", ".html");
  return [&] { return run_study(request.choice.load(), request.command), 0; };
}

Run add_config_print(CLI::App& app, ConfigChoice& choice) {
  add_config(app, choice);
  app.add_flag("--print", choice.is_printed, "what it does in any case");
  return [&] { return tell("{}", config_text(choice.load())), 0; };
}

Run add_data(CLI::App& app, DataCommand& command) {
  app.add_option("ACTION", command.action,
                 "inspect: print what it holds; show: write a page of its samples as the net sees them; split: list "
                 "file,half,class of every sample, which are held out; verify: read every sample and name the damaged; "
                 "pack: write it packed")
      ->required()
      ->check(word_of(kDataActions));
  app.add_option(
         "SOURCE", command.source,
         "a folder of pictures per class, a .csv, .tar, .npz or .h5 file, or a folder of packed data, MNIST or CIFAR")
      ->required();
  app.add_option("OUT", command.out, "pack: the folder to write; show: the page, by default data.html");
  app.add_option("--config", command.config, "show: a YAML file, whose data and augmentation are shown");
  app.add_option("--side", command.side, "of pictures as samples; by default that of most pictures, 256 at most")
      ->check(CLI::Range(1, 4096));
  add_assignments(app, command.assignments);
  return [&] { return run_data(command) ? 0 : static_cast<int>(Fault::data); };
}

Run add_checkpoint_tools(CLI::App& app, CheckpointCommand& request) {
  app.add_option(
         "ACTION", request.action,
         "inspect: print what it holds; config: print its configuration; verify: check every byte; diff: tell what "
         "OTHER differs in, exit code 1 where it does; convert: write it to OTHER in the newest format, or its model "
         "as .safetensors")
      ->required()
      ->check(word_of(kCheckpointActions));
  app.add_option("FILE", request.file, "a checkpoint; to inspect or compare also a safetensors file")->required();
  app.add_option("OTHER", request.other, "diff: the second file; convert: the file to write");
  return [&] { return run_checkpoint(request); };
}

Run add_compare(CLI::App& app, CompareCommand& command) {
  app.add_option("RUNS", command.runs, "run folders; differences are those from the first")->required();
  add_output(app, "--html", command.html, "writes the curves to this .html file", ".html");
  return [&] { return run_compare(command), 0; };
}

struct CompletionRequest {
  std::string shell = "bash", line = {};
};

Run add_completion(CLI::App& app, CompletionRequest& request) {
  std::vector<std::string> parts = completion_shells();
  parts.emplace_back("words");
  app.add_option("SHELL", request.shell,
                 "for which: source <(trainer completion bash), or trainer completion fish | source; words: what may "
                 "replace the last word of LINE, which the scripts ask for")
      ->check(word_of(parts))
      ->capture_default_str();
  app.add_option("LINE", request.line, "words that are joined by ASCII's unit separator, 31");
  return [&] {
    if (request.shell != "words") return tell("{}", completion_script(request.shell)), 0;
    for (const std::string& word : completions(request.line, command_names(), for_each_command)) tell("{}\n", word);
    return 0;
  };
}

Run add_convert_neon(CLI::App& app, std::string& file) {
  app.add_option("FILE", file, "a YAML file of Nervana's neon")->required();
  return [&] { return tell("{}", neon_config(file)), 0; };
}

struct ListRequest {
  std::string part = {};
  bool markdown = false;
};

Run add_list(CLI::App& app, ListRequest& request) {
  app.add_option("PART", request.part, "only these; by default all")->check(word_of(list_parts()));
  app.add_flag("--markdown", request.markdown, "all as tables, with types and ranges: docs/configuration.md");
  return [&] { return tell("{}", request.markdown ? reference_text() : list_text(request.part)), 0; };
}

/// Declares the options and gives what runs the command, which keeps what they fill in.
using Add = std::function<Run(CLI::App& app)>;

template <class Options>
Add keeping(Run (*add)(CLI::App& app, Options& options)) {
  return [add](CLI::App& app) -> Run {
    const auto options = std::make_shared<Options>();
    return [options, run = add(app, *options)] { return run(); };
  };
}

Run add_doctor(CLI::App&) {
  return [] { return run_doctor() ? 0 : static_cast<int>(Fault::device); };
}

struct Entry {
  const char *name, *doc;
  Add add;
};

const Entry kEntries[] = {
    {"eval", "evaluate a checkpoint", keeping(add_eval)},
    {"predict", "classes, numbers or masks of pictures, arrays or tables", keeping(add_predict)},
    {"export", "write a model as ONNX, safetensors or a checkpoint for predictions", keeping(add_export)},
    {"summary", "print layers, parameters and memory of a configuration", keeping(add_summary)},
    {"profile", "time a configuration's step by layer and by kernel", keeping(add_profile)},
    {"find-rate", "suggest a learning rate for a configuration", keeping(add_find_rate)},
    {"study", "measure what other number formats would make of a configuration's products", keeping(add_study)},
    {"config", "print a configuration with every default", keeping(add_config_print)},
    {"data", "look into a dataset, check or pack it", keeping(add_data)},
    {"checkpoint", "look into a checkpoint", keeping(add_checkpoint_tools)},
    {"compare", "print runs beside each other", keeping(add_compare)},
    {"doctor", "examine this machine", add_doctor},
    {"completion", "print a script that completes commands, options and values in a shell", keeping(add_completion)},
    {"convert-neon", "print a configuration of neon as one of nixie", keeping(add_convert_neon)},
    {"list", "print everything a configuration can name", keeping(add_list)},
};

const Entry* entry_of(const std::string& name) {
  const auto found = std::ranges::find(kEntries, name, &Entry::name);
  return found == std::end(kEntries) ? nullptr : found;
}

}  // namespace

std::string commands_text() {
  std::string text = "Commands (trainer COMMAND --help says more):\n";
  text += fmt::format("  {:28}{}\n", "train", "the default, with the options above");
  for (const Entry& entry : kEntries) text += fmt::format("  {:28}{}\n", entry.name, entry.doc);
  return text + fmt::format("  {:28}{}\n", "benchmark --config FILE", "time a configuration's net");
}

void for_each_command(const std::function<void(const char* name, const CLI::App& app)>& each) {
  for (const Entry& entry : kEntries) {
    CLI::App app;
    const Run run = entry.add(app);
    each(entry.name, app);
  }
}

std::vector<std::string> command_names() {
  std::vector<std::string> names = {"train", "benchmark"};
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  return names;
}

bool names_subcommand(const std::vector<std::string>& arguments) {
  return !arguments.empty() && entry_of(arguments[0]);
}

int run_subcommand(const std::vector<std::string>& arguments) {
  const Entry& entry = *entry_of(arguments[0]);
  CLI::App app(entry.doc, std::string("trainer ") + entry.name);
  const Run run = entry.add(app);
  try {
    parse_arguments(app, {arguments.begin() + 1, arguments.end()});
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Fault::usage);
  }
  return run();
}

}  // namespace nixie
