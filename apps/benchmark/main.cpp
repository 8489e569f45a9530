// benchmark: times what nixie does and checks every result that it times. Exit codes: see Fault in core/base/error.h.
#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/trainer/program/program.h"

int main(int argc, char** argv) {
  nixie::begin_program();
  return nixie::benchmark::run_program("benchmark", {argv + 1, argv + argc});
}
