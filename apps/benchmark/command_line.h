// The benchmark's command line: the program `benchmark`, and `trainer benchmark`.
#pragma once

#include <string>
#include <vector>

namespace nixie::benchmark {

/// Runs the command and returns the exit code (see Fault in core/base/error.h). Errors are one line on
/// stderr, after `PROGRAM: `.
int run_program(const std::string& program, std::vector<std::string> arguments);

}  // namespace nixie::benchmark
