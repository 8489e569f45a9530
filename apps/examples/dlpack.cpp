// Two libraries share memory through DLPack: `dlpack` on the CPU, `dlpack cuda` on a GPU.
//
// The host program owns an array; nixie computes on it in place and exports the result as the struct that
// PyTorch, CuPy, JAX or a C program take. Nothing is copied.
#include <cstdio>
#include <string>

#include "nixie/backends/registry.h"
#include "nixie/core/graph/exchange.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"

using namespace nixie;

// Another library's work on an array it is given: here, a second backend with a stream of its own.
float sum_elsewhere(dlpack::Managed* array, Backend& elsewhere) {
  const Tensor x = from_dlpack(array, elsewhere);  // released when x goes
  return static_cast<float>(evaluate(sum(x), elsewhere).item());
}

int main(int argc, char** argv) try {
  const std::string name = argc > 1 ? argv[1] : "cpu";
  const std::shared_ptr<Backend> host = make_backend(name), nixie = make_backend(name);

  // The host program's memory, on its device. `wrap` takes the bare pointer and the stream that writes it.
  const std::shared_ptr<Buffer> memory = host->allocate(6 * sizeof(float));
  const float numbers[] = {1, -2, 3, -4, 5, -6};
  host->upload(numbers, *memory, sizeof numbers);
  host->synchronize();
  const Tensor x = wrap(memory->address(), {2, 3}, Dtype::f32, *nixie, nullptr, [] { std::puts("memory given back"); });

  Step step(*nixie, [](const Inputs& in) { return Outputs{{"y", relu(in["x"]) * 2 + 1}}; });
  const Tensor y = step({{"x", x}}).at("y");
  dlpack::Managed* out = to_dlpack(y, *nixie);
  std::printf("%s: y is a [%lld, %lld] array on device %d:%d\n", name.c_str(),
              static_cast<long long>(out->array.shape[0]), static_cast<long long>(out->array.shape[1]),
              static_cast<int>(out->array.device.type), out->array.device.index);
  std::printf("its sum, computed elsewhere: %g\n", static_cast<double>(sum_elsewhere(out, *host)));
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
