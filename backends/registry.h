// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "nixie/core/graph/backend.h"
#include "nixie/core/graph/world.h"

namespace nixie {

/// "cpu", "cuda", "auto" (cuda if it can run, else cpu) or "null". `threads` are the CPU's, 0 = all cores. The ranks of
/// a machine share its cores; the GPU is device 0, of several ranks that of the rank's number on the machine.
/// NIXIE_VALIDATE=1 in the environment holds cpu or cuda against a second CPU backend (backends/validate.h). Throws
/// Fault::usage with the known names for any other, and for another value of NIXIE_VALIDATE than 0 and 1; Fault::device
/// with cause and remedy if cuda cannot run.
std::shared_ptr<Backend> make_backend(const std::string& name, int threads = 0, const World& world = {});

/// The threads that 0 stands for: the cores of the machine, shared by the ranks there.
int own_threads(int threads, const World& world);

/// A backend that plans as CUDA does on a GPU model by name ("H200", "sm_89"), which need not be there, and runs
/// nothing. Throws Fault::usage for an unknown model, Fault::device in a program built without CUDA.
std::shared_ptr<Backend> make_planner(const std::string& chip);
/// The kernels of a plan that it made, with the times by which they were chosen, as a table.
std::string kernel_table(const Plan& plan, const std::string& chip);

/// The rates by which the CUDA backend prices kernels, as a table with a line for each GPU model that it knows. Throws
/// Fault::device in a program built without CUDA.
std::string kernel_prices();

}  // namespace nixie
