// guide: the code of docs/cpp.md. A test compares the page with this file, and runs it.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <numbers>

#include "nixie/backends/registry.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/data/draws.h"
#include "nixie/data/loader.h"
#include "nixie/models/io/save.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/registry.h"

using namespace nixie;

void arrays() {
  const Array numbers = Array::from(std::vector<float>{3, 1, 4, 1, 5, 9}, {2, 3});  // host memory, row-major
  const Tensor x = numbers,
               mean_of_rows = mean(x, {1});  // an expression; reductions keep their axes, so it broadcasts back
  const Tensor y = (x - mean_of_rows) / sqrt(variance(x, {1}) + 1e-5);
  std::cout << y << "\n";                               // computed here, on the default backend, as one kernel
  const Tensor first = slice(y, {0, Index::range(1)});  // y[0, 1:]
  fmt::print("{:.3f}\n", evaluate(max(first)).item());
  const Tensor slope = gradients(sum(square(x)), std::vector<Tensor>{x})[0];  // an expression, too: 2 x
  fmt::print("{}\n", fmt::join(evaluate(slope).to_vector<float>(), " "));
}

// An op: the formula on numbers, and its gradient from the result's gradient g, the result y and the input x.
const Elementwise bump{"bump", [](auto x) { return exp(-x * x); },
                       [](const Tensor& g, const Tensor& y, const Tensor& x) { return Gradients{-2.0 * g * x * y}; }};

// A layer: options, the parameters that it makes for an input shape, and the function that it computes.
struct Bumps {
  int out = 16;

  static constexpr const char* name = "bumps";
  static constexpr auto fields() { return field_list(field("out", &Bumps::out, "number of bumps", {1})); }
  Forward build(const Shape& in, Parameters& parameters) const {
    check(in.rank() == 2, "input is ", in, ", expected [N, K]");
    const Variable weight = parameters.make("weight", {in[1], out}, Init::normal(1));
    const Variable bias = parameters.make("bias", {1, out}, Init::normal(1));
    return [=](const Tensor& x, const Pass&) { return bump(matmul(x, weight) + bias); };
  }
};

// A dataset: two spirals as images of two numbers, [1, 1, 2]. Any thread may call load.
class Spirals : public Dataset {
 public:
  explicit Spirals(std::uint64_t seed) : seed_(seed) {}
  std::int64_t size() const override { return 2000; }
  Shape sample_shape() const override { return {1, 1, 2}; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int32_t load(std::int64_t index, const AugmentKey&, std::span<float> pixels) const override {
    Draws draws(random_stream(seed_, "spirals"), index);  // a function of seed and index alone
    const auto arm = static_cast<std::int32_t>(index % 2);
    const float turn = draws.uniform(0.5f, 2), angle = std::numbers::pi_v<float> * (turn + static_cast<float>(arm));
    pixels[0] = turn * std::cos(angle);
    pixels[1] = turn * std::sin(angle);
    return arm;
  }

 private:
  std::uint64_t seed_;
  std::vector<std::string> names_ = {"one", "other"};
};

// The net, for training and for loading: layers, with a name where its parameters' names matter.
Sequential spiral_net() { return {Flatten{}, {"bumps", Bumps{.out = 64}}, {"head", Linear{.out = 2}}}; }

// A loop: two steps over the same parameters, one for training and one for testing.
double train_spirals(Backend& backend) {
  Loader loader(std::make_shared<Spirals>(1), {.batch = 50}, /*seed=*/1, /*training=*/true);
  Loader tests(std::make_shared<Spirals>(2), {.batch = 100}, 1, false);
  const Model model(spiral_net(), {50, 1, 1, 2}, /*seed=*/1);
  const Optimizer optimizer(model.parameters(), {.rule = Adam{}, .schedule = CosineRate{.rate = 0.02}},
                            {.steps_per_epoch = static_cast<double>(loader.batches()), .epochs = 10});
  Step train(backend, [&](const Inputs& in) {
    const Pass pass{.training = true, .step = optimizer.count(), .seed = 1};
    const Tensor loss = cross_entropy(model(in["images"], pass), in["labels"]);
    optimizer.minimize(loss);
    return Outputs{{"loss", loss}};
  });
  Step test(backend, [&](const Inputs& in) {
    return Outputs{{"right", accuracy(model(in["images"], Pass{.training = false}), in["labels"])}};
  });
  for (int epoch = 1; epoch <= 10; ++epoch) {
    double loss = 0;
    while (const Batch* batch = loader.next()) loss += train(*batch).at("loss").item();
    fmt::print("epoch {} loss {:.4f}\n", epoch, loss / static_cast<double>(loader.batches()));
  }
  double right = 0;
  while (const Batch* batch = tests.next()) right += test(*batch).at("right").item();
  save(model, "spirals.h5");
  return right / static_cast<double>(tests.batches());
}

// A batch from vectors, and a model that is loaded: the net as it was built, then its weights.
std::vector<int> arms_of(const std::vector<float>& points, Backend& backend) {
  const Shape shape{static_cast<std::int64_t>(points.size()) / 2, 1, 1, 2};  // [N, C, H, W]
  const Model model(spiral_net(), shape, /*seed=*/1);
  load(model, "spirals.h5");
  Step predict(backend, [&](const Inputs& in) {
    return Outputs{{"arms", argmax(model(in["images"], Pass{.training = false}), {1}, false)}};
  });
  return predict({{"images", Array::from(points, shape)}}).at("arms").to_vector<int>();
}

// Gradients by hand: minimize does the same, with an update rule in place of the formula.
double fit_line(Backend& backend) {
  Parameters parameters;
  const Variable w = parameters.make("w", {1}), b = parameters.make("b", {1});
  Step step(backend, [&](const Inputs& in) {
    const Tensor loss = mean(square(in["x"] * w + b - in["y"]));
    for (const Gradient& gradient : gradients(loss, parameters))
      gradient.parameter.set(gradient.parameter - 0.1 * gradient.value);
    return Outputs{{"loss", loss}};
  });
  const Tensor x = evaluate(linspace(-1, 1, 20), backend), y = evaluate(3 * x - 1, backend);
  double loss = 0;
  for (int i = 0; i < 200; ++i) loss = step({{"x", x}, {"y", y}}).at("loss").item();
  return loss;
}

void mistaken() {
  const Tensor pictures = zeros({8, 3, 32, 32}), weight = zeros({100, 10});
  const Tensor scores = matmul(flatten(pictures), weight);  // throws here
}

int main(int count, char**) {
  if (count > 1) mistaken();  // outside of the try: what an error looks like that nothing catches
  try {
    const std::shared_ptr<Backend> backend = make_backend("cpu");  // or "cuda"
    set_default_backend(backend);
    arrays();
    fmt::print("test accuracy {:.4f}\n", train_spirals(*backend));
    fmt::print("arms {}\n", fmt::join(arms_of({-1, 0, 1, 0}, *backend), " "));
    fmt::print("loss of the line {:.1e}\n", fit_line(*backend));
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
}
