// The backend that tests run on: the CPU, or the one NIXIE_TEST_BACKEND names, with outputs poisoned before each run.
#pragma once

#include "nixie/tests/test.h"

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/registry.h"

namespace nixie {

std::shared_ptr<Backend> make_test_backend(const std::string& name);

/// Named by NIXIE_TEST_BACKEND ("cpu", "cuda", or "cuda-plans": tests/cuda_plans_backend.h); the CPU where nothing is.
std::string test_backend_name();

/// Another backend of that name, which has compiled nothing.
std::shared_ptr<Backend> new_test_backend();

Backend& test_backend();

/// How many random programs a test of the ordinary suite runs: on a device each compiles its kernels.
unsigned count_of_random(unsigned on_cpu, unsigned on_device);

}  // namespace nixie
