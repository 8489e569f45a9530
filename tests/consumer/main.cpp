// Runs the installed library from a program that brings all of nixie's names into scope: an expression, an op of
// its own, a line fitted by gradient descent, and a module that holds the library once more.
#include <dlfcn.h>

#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nixie/backends/registry.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"

using namespace nixie;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "wrong: " << what << "\n";
  ++failures;
}

const Elementwise swish{"swish", [](auto x) { return x / (1 + exp(-x)); },
                        [](const Tensor& g, const Tensor& y, const Tensor& x) {
                          Tensor s = sigmoid(x);
                          return Gradients{g * (s + y * (1 - s))};
                        }};

}  // namespace

int main() {
  std::shared_ptr<Backend> backend = make_backend("cpu");
  Tensor column = reshape(arange(4), {4, 1}), row = arange(3);
  std::vector<float> sums = evaluate(sum(cast(column * row, Dtype::f32), {1}, false), *backend).to_vector<float>();
  expect(sums == std::vector<float>{0, 3, 6, 9}, "sum of an outer product");

  double y = evaluate(swish(Tensor(1.0)), *backend).item();
  expect(std::abs(y - 1 / (1 + std::exp(-1.0))) < 1e-6, "swish of 1");
  // y = 3 x - 1, found by gradient descent.
  Parameters parameters;
  Variable w = parameters.make("w", {1}), b = parameters.make("b", {1});
  Step train(*backend, [&](const Inputs& in) {
    Tensor loss = mean(square(in["x"] * w + b - in["y"]));
    for (const Gradient& gradient : gradients(loss, parameters)) {
      gradient.parameter.set(gradient.parameter - 0.1 * gradient.value);
    }
    return Outputs{{"loss", loss}};
  });
  Tensor x = evaluate(cast(arange(4), Dtype::f32) - 1.5, *backend);
  std::map<std::string, Tensor> batch = {{"x", x}, {"y", evaluate(3 * x - 1, *backend)}};
  for (int step = 0; step < 200; ++step) train(batch);
  expect(std::abs(w.array().item() - 3) < 1e-4 && std::abs(b.array().item() + 1) < 1e-4, "fit of a line");

  void* module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
  expect(module != nullptr, MODULE " opens");
  auto sum_below = reinterpret_cast<double (*)(int)>(module ? dlsym(module, "sum_below") : nullptr);
  expect(sum_below && sum_below(5) == 10, "sum in a module");

  std::cout << (failures == 0 ? "nixie works\n" : "");
  return failures == 0 ? 0 : 1;
}
