// The options of training.
#include "nixie/apps/trainer/commands/train_options.h"

namespace nixie {

void add_train_options(CLI::App& app, TrainRequest& request) {
  Command& command = request.command;
  app.add_option("--config", command.config, "the YAML file");
  app.add_option("--set", command.assignments, "key.path=value: changes the configuration; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--data", request.data,
                 "the data, in place of the file's (as --set data.path=): a folder of pictures per class, a .csv, "
                 ".tar, .npz or .h5 file, or a folder of packed data, MNIST or CIFAR");
  app.add_option("--run", command.run, "folder for the run's files; by default runs/<config name>/<n>");
  app.add_option("--resume", command.checkpoint,
                 "go on from a checkpoint, or from the newest one of a run's folder (this one, --run's, or the "
                 "configuration's last)")
      ->expected(0, 1);
  app.add_flag("--dry-run", request.is_dry, "print the summary, do one step and one evaluation, write nothing");
  app.add_flag("--list", request.lists, "print everything a configuration can name");
}

}  // namespace nixie
