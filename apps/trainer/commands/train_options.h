// The options of training, for the program and for shell completion.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "nixie/apps/trainer/command.h"

namespace nixie {

struct TrainRequest {
  Command command = {};
  std::string data = {};
  bool lists = false, is_dry = false;
};

/// Declares the options, which fill in the request when the app parses.
void add_train_options(CLI::App& app, TrainRequest& request);

}  // namespace nixie
