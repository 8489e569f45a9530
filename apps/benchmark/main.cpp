// benchmark: times what nixie does and checks every result that it times. Exit codes: see Fault in core/base/error.h.
#include "nixie/apps/benchmark/command_line.h"

int main(int argc, char** argv) { return nixie::benchmark::run_program("benchmark", {argv + 1, argv + argc}); }
