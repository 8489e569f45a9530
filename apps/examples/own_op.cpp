// own_op: an elementwise op declared outside the library. One declaration gives its value, its gradient, and kernels
// that fuse it with its neighbours.
#include <fmt/core.h>

#include "nixie/backends/registry.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"

using namespace nixie;

// The formula, and its gradient in terms of the result's gradient g, the result y and the input x.
const Elementwise softsign{
    "softsign", [](auto x) { return x / (1 + abs(x)); },
    [](const Tensor& g, const Tensor&, const Tensor& x) { return Gradients{g / square(1 + abs(x))}; }};

// A choice is a `where`; every elementwise function of ops.h may be used.
const Elementwise huber{"huber", [](auto x) { return where(abs(x) < 1, 0.5 * square(x), abs(x) - 0.5); },
                        [](const Tensor& g, const Tensor&, const Tensor& x) { return Gradients{g * clip(x, -1, 1)}; }};

int main() {
  const auto backend = make_backend("cpu");
  const Tensor x = evaluate(cast(arange(7) - 3, Dtype::f32), *backend);
  const Tensor y = softsign(2 * x) + 1;  // one kernel
  const Tensor slope = gradients(sum(y), std::vector<Tensor>{x})[0];
  const auto xs = x.to_vector<float>();
  const auto ys = evaluate(y, *backend).to_vector<float>(), slopes = evaluate(slope, *backend).to_vector<float>();
  for (std::size_t i = 0; i < xs.size(); ++i)
    fmt::print("x {:5.2f}   softsign(2 x) + 1 {:7.4f}   gradient {:7.4f}\n", xs[i], ys[i], slopes[i]);
  fmt::print("mean huber(x) {:.4f}\n", evaluate(mean(huber(x)), *backend).item());

  // How it runs: the plan is a single kernel.
  Step step(*backend, [](const Inputs& in) { return Outputs{{"y", softsign(2 * in["x"]) + 1}}; });
  fmt::print("\n{}", to_string(step.plan({{"x", x}})));
}
